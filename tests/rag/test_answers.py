"""Answers over documents: right ones, by whom, the same under every strategy, and what goes wrong."""
import json
import os
import subprocess
import unittest

from harness import MODEL, SAMPLES, RagTest, read_rows, timeless

CODES = str(SAMPLES / "code_documents.jsonl")
HOPS = str(SAMPLES / "two_hop_documents.jsonl")


def gold_and_one(record):
    """The record with what answers it and one document more: half the work, where the number of documents is no matter."""
    other = next(d for d in record["documents"] if not d["gold"])
    return dict(record, documents=[d for d in record["documents"] if d["gold"] or d is other])


class Answers(RagTest):
    def few(self):
        return self.write("few.jsonl", [gold_and_one(record) for record in read_rows(CODES)])

    def test_the_right_document_writes_the_answer(self):
        for row, gold in zip(self.rag(CODES), read_rows(CODES)):
            self.assertEqual(row["answer"], gold["answers"][0])
            right = next(d for d in gold["documents"] if d["gold"])
            cited = row["citations"]
            self.assertEqual({c["document"] for c in cited}, {right["id"]})
            for citation in cited:
                self.assertEqual(right["text"][citation["begin"]:citation["end"]], citation["text"])
            self.assertEqual(len(row["trace"]["tokens"]), row["tokens"])
            self.assertEqual("".join(t["text"] for t in row["trace"]["tokens"]).strip(), row["answer"])
            self.assertEqual([d["id"] for d in row["trace"]["documents"]], [d["id"] for d in gold["documents"]])
            self.assertTrue(all(0 <= d["beta"] <= 1 and 0 < d["relevance"] < 1 for d in row["trace"]["documents"]))
            self.assertGreater(row["first_token_seconds"], 0)
            self.assertEqual(row["dataset"], "generated")  # carried through

    def test_two_documents_take_turns(self):
        for row, gold in zip(self.rag(HOPS, "--relevance", "equal"), read_rows(HOPS)):
            self.assertEqual(row["answer"], gold["answers"][0])
            written = [t["document"] for t in row["trace"]["tokens"]]
            self.assertTrue({d["id"] for d in gold["documents"] if d["gold"]} <= set(written))

    def test_one_more_expert_reads_several_documents_together(self):
        gold = read_rows(CODES)
        told = ("--together", "3")
        rows = self.rag(CODES, *told)
        for row, right in zip(rows, gold):
            self.assertEqual(row["answer"], right["answers"][0])
            by_relevance = sorted(row["trace"]["documents"], key=lambda d: -d["relevance"])
            together = row["trace"]["together"]
            self.assertEqual(together["documents"], [d["id"] for d in by_relevance[:3]])
            self.assertTrue(0 <= together["beta"] <= 1)
            for token in row["trace"]["tokens"]:
                self.assertTrue("document" in token or token["documents"] == together["documents"])
            text_of = {d["id"]: d["text"] for d in right["documents"]}
            for citation in row["citations"]:
                self.assertEqual(text_of[citation["document"]][citation["begin"]:citation["end"]], citation["text"])
        [again] = self.rag(CODES, *told, "--strategy", "flat", "--one-by-one", "--threads", "1", "--limit", "1")
        self.assertEqual(timeless(again), timeless(rows[0]))
        # That expert alone: what one prompt of these documents says.
        both = dict(gold[0], documents=[d for d in gold[0]["documents"] if d["gold"]] * 2)
        source = self.write("both.jsonl", [both])
        [row] = self.rag(source, "--together", "2", "--copy")
        self.assertEqual(row["answer"], gold[0]["answers"][0])
        # Nothing to read together: the row is the one without it.
        one = self.write("one.jsonl", [dict(gold[0], documents=gold[0]["documents"][:1])])
        self.assertEqual([timeless(r) for r in self.rag(one, *told)], [timeless(r) for r in self.rag(one)])

    def test_every_strategy_gives_the_same_row(self):
        both = self.write("both.jsonl", [gold_and_one(record) for record in read_rows(CODES)[1:] + read_rows(HOPS)[:1]])
        expected = [timeless(row) for row in self.rag(both)]
        for more in (["--strategy", "flat", "--one-by-one"], ["--strategy", "stacked"], ["--strategy", "tree", "--threads", "1"],
                     ["--steps-ahead", "1", "--batch-rows", "40"], ["--device", "cpu,cpu"]):
            self.assertEqual([timeless(row) for row in self.rag(both, *more)], expected, more)

    def test_every_method(self):
        gold = read_rows(CODES)
        few = self.few()
        for method in ("experts", "concat", "map-reduce", "top1"):
            rows = self.rag(few, "--method", method)
            self.assertEqual([row["method"] for row in rows], [method] * len(gold))
            for row, right in zip(rows, gold):
                if method == "map-reduce":  # this model answers from sentences, not from notes
                    notes = [d["note"] for d in row["trace"]["documents"]]
                    self.assertIn(right["answers"][0], notes)
                    continue
                self.assertEqual(row["answer"], right["answers"][0], method)
                self.assertTrue(row["citations"], method)

    def test_every_rule_and_beta(self):
        few = self.few()
        for more in (["--rule", "mixture"], ["--rule", "product", "--relevance", "equal"], ["--beta", "shared"],
                     ["--beta", "0.5"], ["--beta", "0"], ["--gamma", "0"]):
            for row, gold in zip(self.rag(few, "--limit", "1", *more), read_rows(CODES)):
                if more[1] != "product":  # which asks all documents to agree
                    self.assertEqual(row["answer"], gold["answers"][0], more)
                betas = {d["beta"] for d in row["trace"]["documents"]}
                if more in (["--beta", "0.5"], ["--beta", "0"]):
                    self.assertEqual(betas, {float(more[1])})
                if more[1] == "shared":
                    self.assertEqual(len(betas), 1)

    def test_scores_are_relevance_and_hopeless_documents_are_dropped(self):
        record = read_rows(CODES)[0]
        for document in record["documents"]:
            document["score"] = 0.9 if document["gold"] else 0.05
        [row] = self.rag(self.write("in.jsonl", [record]), "--min-relevance", "0.1")
        self.assertEqual(row["answer"], record["answers"][0])
        self.assertEqual(row["dropped"], [d["id"] for d in record["documents"] if not d["gold"]])
        self.assertEqual([d["relevance"] for d in row["trace"]["documents"]], [0.9])
        # A wrong document that is said to matter most outweighs the right one under a large gamma.
        for document in record["documents"]:
            document["score"] = 1e-4 if document["gold"] else 1.0
        [row] = self.rag(self.write("wrong.jsonl", [record]), "--gamma", "20", "--no-copy", "--switch", "token")
        self.assertNotEqual(row["answer"], record["answers"][0])

    def test_relevance_is_that_of_bm25s(self):
        texts = ["the red boat", "a blue boat and a red boat", "nothing here", "red red red"]
        row = self.rag(self.write("in.jsonl", [{"id": 1, "question": "red boat red", "documents": texts}]))[0]
        found = [d["score"] for d in row["trace"]["documents"]]
        self.assertEqual(found[2], 0)
        try:
            from bm25_fixture import scores_by_bm25s
            [expected] = scores_by_bm25s([t.split() for t in texts], [["red", "boat", "red"]])
        except ImportError:
            expected = by_formula([t.split() for t in texts], ["red", "boat", "red"])
        for a, b in zip(found, expected):
            self.assertAlmostEqual(a, b, places=5)

    def test_bad_records_are_error_rows(self):
        good = read_rows(CODES)[0]
        bad = [{"id": "no question", "documents": ["x"]}, {"id": "none", "question": "Why?"},
               {"id": "empty", "question": "Why?", "documents": []}, {"id": "odd", "question": "Why?", "documents": [7]},
               {"id": "blank", "question": "Why?", "documents": [{"text": " "}]}, {"question": "Why?", "documents": []},
               {"id": "half", "question": "Why?", "documents": [{"text": "x", "score": 0.5}, {"text": "y", "score": 2}]},
               {"id": "long", "question": "Why?", "documents": ["word " * 6000]},
               {"id": "many", "question": "Why?", "documents": ["x"] * 400}]
        rows = self.rag(self.write("in.jsonl", [good, *bad, "text", dict(good, id="last")]), code=1)
        self.assertEqual([row.get("id") for row in rows],
                         [good["id"], "no question", "none", "empty", "odd", "blank", f"{self.path('in.jsonl')}:7", "half", "long",
                          "many", None, "last"])
        for row in rows[1:-1]:
            self.assertIn("in.jsonl, line", row["error"]["message"])
        self.assertEqual(rows[-1]["answer"], good["answers"][0])
        # Cut to what a model reads, which is less with a tiny one.
        subprocess.run([os.environ["MAKE_TINY_MODEL"], self.path("tiny.gguf"), "512", "1"], check=True)
        run = self.run_banyan("rag", "-m", self.path("tiny.gguf"), self.write("long.jsonl", [bad[7]]), "--too-long", "truncate",
                              "--max-new", "4", "--quiet")
        self.assertEqual(json.loads(run.stdout)["truncated"], [0])

    def test_an_interrupted_job_goes_on(self):
        few = self.few()
        whole = [timeless(row) for row in self.rag(few)]
        output = self.path("part.jsonl")
        first = self.write("first.jsonl", read_rows(few)[:1])
        self.run_banyan("rag", "-m", MODEL, first, "-o", output, "--quiet", "--ordered")
        self.run_banyan("rag", "-m", MODEL, few, "-o", output, "--quiet", "--ordered", "--resume")
        self.assertEqual([timeless(row) for row in read_rows(output)], whole)
        refused = self.run_banyan("rag", "-m", MODEL, few, "-o", output, "--resume", "--gamma", "3", code=2)
        self.assertIn("--gamma", refused.stderr)

    def test_usage_errors_name_the_option(self):
        for arguments in (["--beta", "often"], ["--rule", "sum"], ["--method", "luck"], ["--gamma", "-1"],
                          ["--min-relevance", "2"], ["--index", "nowhere"], ["--trace", "t.html"],
                          ["--ape-temperature", "0.05", "--method", "kv-concat"],
                          ["--ape-scale", "3", "--method", "kv-concat"], ["--together", "1"], ["--together", "65"],
                          ["--together", "2", "--method", "concat"]):
            result = self.run_banyan("rag", "-m", MODEL, CODES, *arguments, code=2)
            self.assertIn(arguments[1] if arguments[0] == "--index" else arguments[0], result.stderr)


def by_formula(documents, query):
    import math
    mean = sum(map(len, documents)) / len(documents)
    scores = []
    for words in documents:
        score = 0.0
        for word in query:
            df = sum(word in d for d in documents)
            tf = words.count(word)
            idf = math.log(1 + (len(documents) - df + 0.5) / (df + 0.5))
            score += idf * tf / (tf + 1.5 * (0.25 + 0.75 * len(words) / mean))
        scores.append(score)
    return scores


if __name__ == "__main__":
    unittest.main(verbosity=2)
