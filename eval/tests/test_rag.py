"""Questions with the documents that retrieval found, as `eval.rag given` asks them, and with those of articles held
out."""

import unittest

from eval.rag import held_paragraphs, questions_of_paragraphs, with_documents


class WithDocuments(unittest.TestCase):
    def test_scores_gold_and_what_was_missed(self) -> None:
        asked = [
            {
                "id": "q",
                "question": "Who?",
                "answers": ["she"],
                "documents": [
                    {"id": "a", "text": "A", "gold": True},
                    {"id": "b", "text": "B", "gold": False},
                    {"id": "c", "text": "C", "gold": True},
                ],
            }
        ]
        documents = {name: {"id": name, "title": "", "text": name.upper()} for name in "abcd"}
        found = [{"id": "q", "trace": {"documents": [{"id": "d", "relevance": 0.9}, {"id": "a", "relevance": 0.4}]}}]
        (row,) = with_documents(asked, documents, found)
        self.assertEqual(
            [(d["id"], d["score"], d["gold"], d["text"]) for d in row["documents"]],
            [("d", 0.9, False, "D"), ("a", 0.4, True, "A")],
        )
        self.assertEqual((row["question"], row["answers"], row["gold_missed"]), ("Who?", ["she"], 1))  # c


class HeldArticles(unittest.TestCase):
    def test_only_what_training_held_out_and_people_asked(self) -> None:
        row = lambda split, source, text, asked: dict(
            split=split, source=source, article="squad_train-Bees", text=text, asked=asked
        )
        rows = [
            row(
                "held",
                "squad_train",
                "A",
                [["Who?", "she", 1.0, ["she"]], ["Where?", "null", 1.0, []], ["When?", "now", 0.5, ["now"]]],
            ),
            row("train", "squad_train", "B", [["What?", "it", 1.0, ["it"]]]),
            row("held", "recipes", "C", [["How?", "so", 1.0, ["so"]]]),
            row("held", "squad_train", "D", []),
        ]
        held = held_paragraphs(rows)
        self.assertEqual([(p["context"], len(p["questions"])) for p in held], [("A", 1), ("D", 0)])
        (question,) = questions_of_paragraphs(held)
        self.assertEqual((question["question"], question["answers"]), ("Who?", ["she"]))
        self.assertEqual([(d["text"], d["gold"]) for d in question["documents"]], [("A", True), ("D", False)])


if __name__ == "__main__":
    unittest.main()
