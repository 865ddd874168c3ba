"""Questions with the documents that retrieval found, as `eval.rag given` asks them."""
import unittest

from eval.rag import with_documents


class WithDocuments(unittest.TestCase):
    def test_scores_gold_and_what_was_missed(self) -> None:
        asked = [{"id": "q", "question": "Who?", "answers": ["she"],
                  "documents": [{"id": "a", "text": "A", "gold": True}, {"id": "b", "text": "B", "gold": False}, {"id": "c", "text": "C", "gold": True}]}]
        documents = {name: {"id": name, "title": "", "text": name.upper()} for name in "abcd"}
        found = [{"id": "q", "trace": {"documents": [{"id": "d", "relevance": 0.9}, {"id": "a", "relevance": 0.4}]}}]
        row, = with_documents(asked, documents, found)
        self.assertEqual([(d["id"], d["score"], d["gold"], d["text"]) for d in row["documents"]], [("d", 0.9, False, "D"), ("a", 0.4, True, "A")])
        self.assertEqual((row["question"], row["answers"], row["gold_missed"]), ("Who?", ["she"], 1))  # c


if __name__ == "__main__":
    unittest.main()
