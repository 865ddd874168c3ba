"""Answers that are copied, citations in every script, and answers without the cited document."""
import os
import subprocess
import unittest

from harness import ROOT, SAMPLES, RagTest, read_rows, timeless

CODES = str(SAMPLES / "code_documents.jsonl")
# The documents' words are split into several tokens each, some of them inside a character.
SCRIPTS = [("Der Schlüssel für die Tür heißt Über-Öl 7.", "How is the key called?"),
           ("Το πλοίο φεύγει στις 7:45 από την Αθήνα.", "At what time does the ship leave?"),
           ("切符は三百円です。船の名前は KT-4821 です。", "What is the name of the ship?"),
           ("Party 🎉 at 8:15 👩‍👩‍👧 bring 🍰!", "At what time is the party?")]


class Copy(RagTest):
    def records(self):
        filler = "Some buttons were sold in the square for a good price."
        return [{"id": i, "question": question, "documents": [{"id": "a", "text": filler}, {"id": "b", "text": text}]}
                for i, (text, question) in enumerate(SCRIPTS)]

    def check(self, rows, records):
        places = 0
        for row, record in zip(rows, records):
            texts = {d["id"]: d["text"] for d in record["documents"]}
            for citation in row["citations"]:
                if "\ufffd" not in (row["answer"] or ""):  # a model may write half a character, and it stands nowhere
                    self.assertNotIn("\ufffd", citation["text"])
                if "begin" not in citation:
                    continue
                places += 1
                self.assertEqual(texts[citation["document"]][citation["begin"]:citation["end"]], citation["text"])
        return places

    def test_a_citation_is_the_documents_own_slice(self):
        records = self.records()
        source = self.write("in.jsonl", records)
        self.check(self.rag(source, "--abstention", "0"), records)
        for more in ([], ["--rule", "mixture"], ["--method", "top1"], ["--method", "concat"]):
            rows = self.rag(source, "--copy", *more)
            self.check(rows, records)
            for row, record in zip(rows, records):
                if row["answer"] is None:
                    continue
                has = [d for d in record["documents"] if row["answer"] in " ".join(d["text"].split())]
                self.assertTrue(has, row["answer"])
                self.assertTrue(row["citations"], row["answer"])

    def test_a_copy_is_the_answer_where_there_is_one(self):
        gold = read_rows(CODES)
        rows = self.rag(CODES, "--copy")
        self.assertEqual([row["answer"] for row in rows], [record["answers"][0] for record in gold])
        self.assertEqual(self.check(rows, gold), len(gold))
        one = [timeless(row) for row in self.rag(CODES, "--copy", "--strategy", "flat", "--one-by-one", "--threads", "1")]
        self.assertEqual([timeless(row) for row in rows], one)

    def test_no_span_goes_over_two_documents(self):
        records = [{"id": 1, "question": "Which words?", "documents": ["alpha beta", "gamma delta"]}]
        [row] = self.rag(self.write("in.jsonl", records), "--copy", "--abstention", "0")
        self.assertTrue(row["answer"] is None or any(row["answer"] in text for text in records[0]["documents"]), row["answer"])

    def test_of_more_text_than_can_be_copied_from_the_most_relevant_is_read(self):
        words = [f"{a}{b}{c}" for a in ("bra", "klo", "sti", "vu") for b in ("ner", "lim", "dok", "pas") for c in ("ta", "gor", "win", "hel")]
        documents = [{"id": n, "text": " ".join(words[(n * 7 + k * (n % 5 + 1)) % len(words)] + str(n * k) for k in range(70))}
                     for n in range(300)]
        documents[211]["text"] = "The harbour of Lenz has nine cranes. " + documents[211]["text"]
        records = [{"id": 1, "question": "How many cranes has the harbour of Lenz?", "documents": documents}]
        self.assertGreater(sum(len(d["text"]) for d in documents), 180_000)
        for method in ("concat", "top1"):
            [row] = self.rag(self.write("in.jsonl", records), "--copy", "--method", method, "--too-long", "truncate")
            self.assertNotIn("error", row)
            if method == "top1":  # whatever it says of all that noise, it says it
                self.assertIn("nine", row["answer"])
            self.assertGreater(len(row["dropped"]), 100)
            self.assertNotIn(211, row["dropped"])
            self.assertEqual(row["dropped_reason"], "more text than answers can be copied from: the least relevant")

    def tiny_rows(self, documents, *more):
        tiny, asked = self.path("tiny.gguf"), {"id": 1, "question": "What is the code of place 7?", "documents": documents}
        subprocess.run([os.environ["MAKE_TINY_MODEL"], tiny, "512", "1"], check=True)
        return self.rag(self.write("in.jsonl", [asked]), "--copy", "--too-long", "truncate", "--max-new", "3", "--max-streams", "300",
                        *more, model=tiny)

    def test_all_of_256_paragraphs_are_copied_from(self):
        texts = [part for path in sorted((ROOT / "docs").glob("*.md")) for part in path.read_text(encoding="utf-8").split("\n\n")]
        texts = [part for part in texts if 200 < len(part) < 1000][:256]
        self.assertEqual(len(texts), 256)
        self.assertGreater(sum(map(len, texts)), 96 << 10)
        for method in ("experts", "concat", "map-reduce"):
            [row] = self.tiny_rows([{"id": n, "text": text} for n, text in enumerate(texts)], "--method", method)
            self.assertNotIn("error", row)
            self.assertNotIn("dropped", row)

    def test_texts_that_repeat_themselves_too_much_together_are_dropped(self):
        documents = [{"id": n, "text": f"The code of place {n} is B{n}. " + ". " * 1500} for n in range(12)]
        [row] = self.tiny_rows(documents)
        self.assertNotIn("error", row)
        self.assertNotIn(7, row["dropped"])
        self.assertEqual(row["dropped_reason"], "more text than answers can be copied from: the least relevant")
        [row] = self.tiny_rows(documents, "--relevance", "equal", "--method", "concat")
        kept = 12 - len(row["dropped"])
        self.assertGreater(kept, 0)
        self.assertEqual(sorted(row["dropped"]), list(range(kept, 12)))
        self.assertEqual(row["dropped_reason"], "more text than answers can be copied from: the last")
        # One alone is an error that names it.
        source = self.write("dots.jsonl", [{"id": 1, "question": "Which?", "documents": [{"id": "dots", "text": ". " * 40_000}]}])
        refused = self.run_banyan("rag", "-m", self.path("tiny.gguf"), source, "--copy", code=1).stderr
        self.assertRegex(refused, 'document "dots": the text of [0-9]+ bytes is too long to copy answers from')

    def test_an_empty_document_is_passed_over(self):
        record = read_rows(CODES)[0]
        record["documents"].insert(0, {"id": "blank", "text": " \n"})
        [row] = self.rag(self.write("in.jsonl", [record]))
        self.assertEqual((row["answer"], row["empty"]), (record["answers"][0], ["blank"]))

    def test_how_many_abstain(self):
        for row in self.rag(CODES):
            shares = [d["null"] for d in row["trace"]["documents"]]
            self.assertEqual(row["abstained"], sum(share >= 0.5 for share in shares))
            self.assertGreater(row["abstained"], 0)
            self.assertLess(row["abstained"], len(shares))
        self.assertNotIn("abstained", self.rag(CODES, "--abstention", "0", "--limit", "1")[0])

    def test_without_the_cited_document(self):
        for row, gold in zip(self.rag(CODES, "--verify"), read_rows(CODES)):
            self.assertEqual(row["answer"], gold["answers"][0])
            right = next(d["id"] for d in gold["documents"] if d["gold"])
            verified = row["verified"]
            self.assertEqual([w["document"] for w in verified["without"]], [right])
            self.assertTrue(verified["changed"] and verified["without"][0]["changed"])
            self.assertNotEqual(verified["without"][0]["answer"], row["answer"])
        # Where another document says the same nothing changes; the one that is left answers as it does alone.
        record = read_rows(CODES)[0]
        right = next(d for d in record["documents"] if d["gold"])
        twice = dict(record, documents=[right, dict(right, id="copy")])
        [row] = self.rag(self.write("twice.jsonl", [twice]), "--verify", "--relevance", "equal")
        self.assertFalse(row["verified"]["changed"])
        [alone] = self.rag(self.write("alone.jsonl", [dict(record, documents=[right])]), "--verify", "--relevance", "equal")
        self.assertTrue(alone["verified"]["changed"])
        refused = self.run_banyan("rag", "-m", "x", CODES, "--verify", "--method", "concat", code=2)
        self.assertTrue(refused.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
