"""Candidates and relevance by words, vectors and rerankers; examples as experts; documents computed apart."""
import json
import math
import shutil
import struct
import unittest

import tiny_encoder
from harness import MODEL, READS_HTML, SAMPLES, RagTest, read_rows, timeless

CODES = str(SAMPLES / "code_documents.jsonl")
GROUPS = [["ferry", "boat"], ["tea", "drink"], ["leaves", "departs"], ["at"], ["the"], ["seven"], ["hills"], ["grows"], ["in"], ["when"], ["does"],
          ["harbour"], ["code"], ["is"], ["of"], ["a"]]


class Retrieval(RagTest):
    def encoder(self, name="encoder", **more):
        return tiny_encoder.write(self.folder / name, GROUPS, **more)

    def make_notes(self):
        self.write("notes/ferry.txt", "the ferry leaves at seven")
        self.write("notes/tea.md", "tea grows in the hills")
        if READS_HTML:
            self.write("notes/page.html", "<p>the code of the harbour is</p>")
        else:
            self.write("notes/page.txt", "the code of the harbour is")

    def ask(self, *arguments, code=0):
        return self.run_banyan("rag", "-m", MODEL, *arguments, code=code)

    def order(self, question, *arguments):
        """Passages as they were read, with their relevance."""
        row = json.loads(self.ask(question, "--json", *arguments).stdout)
        return [(d["id"].split("/")[-1], d["relevance"], d.get("score"), d.get("logit")) for d in row["trace"]["documents"]]

    def test_vectors_find_what_shares_no_word(self):
        self.make_notes()
        encoder = self.encoder()
        made = self.run_banyan("rag", "index", "notes", "--encoder", encoder).stderr
        self.assertIn("3 documents", made)
        self.assertIn("3 vectors of 64 (0 from before)", made)
        question = "boat departs ?"  # no word of any note
        self.assertIn("shares a word", self.ask(question, "--candidates", "bm25", code=2).stderr)
        found = self.order(question)  # the index knows its encoder
        self.assertEqual(found[0][0], "ferry.txt")
        self.assertEqual(len(found), 3)
        searched = json.loads(self.run_banyan("rag", "search", question, "--json").stdout)["passages"]
        self.assertEqual([(p["id"].split("/")[-1], p["score"]) for p in searched], [(name, score) for name, _, score, _ in found])
        self.assertEqual(json.loads(self.run_banyan("rag", "search", question, "--json", "--by", "bm25").stdout)["passages"], [])
        for _, relevance, score, _ in found:
            self.assertAlmostEqual(relevance, (score + 1) / 2, places=12)
        self.assertGreater(found[0][2], found[1][2] + 0.2)
        # Candidates by one signal, relevance by another.
        by_words = self.order("when does the ferry ?", "--candidates", "bm25", "--relevance", "dense")
        self.assertEqual(by_words[0][0], "ferry.txt")
        self.assertAlmostEqual(by_words[0][1], (by_words[0][2] + 1) / 2, places=12)
        by_vectors = self.order("when does the ferry ?", "--candidates", "dense", "--relevance", "bm25")
        self.assertAlmostEqual(by_vectors[0][1], 2 / math.pi * math.atan(by_vectors[0][2] / 8), places=12)

    def test_only_what_changed_is_embedded(self):
        self.make_notes()
        encoder = self.encoder()
        index = lambda *more: self.run_banyan("rag", "index", "idx", "notes", "--encoder", encoder, *more).stderr
        index()
        self.write("notes/tea.md", "the tea of the harbour")
        self.assertIn("3 vectors of 64 (2 from before)", index())

    def test_every_search_of_vectors(self):
        self.make_notes()
        encoder = self.encoder()
        expected = None
        for search in ("exact", "ivf", "hnsw"):
            arguments = ("rag", "index", "idx", "notes", "--encoder", encoder, "--vectors", search, "--quiet")
            try:
                self.run_banyan(*arguments)
            except AssertionError:
                self.assertIn("libfaiss", self.run_banyan(*arguments, code=2).stderr)
                continue
            found = self.order("boat departs ?", "--index", "idx")
            expected = expected or found
            self.assertEqual(found, expected, search)
        self.assertIn("--vectors", self.run_banyan("rag", "index", "idx", "notes", "--encoder", "none", "--vectors", "ivf", code=2).stderr)
        self.assertIn("'wheel'", self.run_banyan("rag", "index", "idx", "notes", "--encoder", encoder, "--vectors", "wheel", code=2).stderr)

    def test_an_index_and_another_encoder(self):
        self.make_notes()
        encoder = self.encoder()
        self.run_banyan("rag", "index", "notes", "--encoder", encoder, "--quiet")
        other = tiny_encoder.write(self.folder / "other", GROUPS[::-1])
        self.assertIn("another encoder", self.ask("a boat ?", "--encoder", other, code=2).stderr)
        wide = self.encoder("wide", size=96)
        self.assertIn("64 dimensions", self.ask("a boat ?", "--encoder", wide, code=2).stderr)
        self.assertIn("no such head", self.ask("a boat ?", "--candidates", "sparse", code=2).stderr)
        shutil.rmtree(encoder)
        gone = self.ask("the ferry ?", code=2).stderr
        self.assertIn("--encoder", gone)
        self.assertIn("--candidates bm25", gone)
        self.assertEqual(self.order("the ferry ?", "--candidates", "bm25")[0][0], "ferry.txt")
        self.assertIn("--encoder none", self.run_banyan("rag", "index", "notes", "--quiet", code=2).stderr)  # it keeps its encoder
        self.run_banyan("rag", "index", "notes", "--encoder", "none", "--quiet")
        self.assertIn("words alone", self.ask("the ferry ?", "--candidates", "dense", "--encoder", other, code=2).stderr)

    def test_signals_of_given_documents(self):
        texts = ["the ferry leaves at seven", "tea grows in the hills", "the boat is in the harbour"]
        given = self.write("in.jsonl", [{"id": 1, "question": "when does the boat", "documents": texts}])
        m3, reranker = self.encoder("m3", kind="m3"), self.encoder("reranker", kind="reranker", logit=1.0)

        def judged(*arguments):
            [row] = self.rag(given, *arguments)
            return row["trace"]["documents"]

        for document in judged("--encoder", m3):
            self.assertAlmostEqual(document["relevance"], (document["score"] + 1) / 2, places=12)
        shared = [1.0, 1.0, 2.0]  # words of the question in each text; every weight is 1
        for document, weight in zip(judged("--encoder", m3, "--relevance", "sparse"), shared, strict=True):
            self.assertAlmostEqual(document["score"], weight, places=5)
            self.assertAlmostEqual(document["relevance"], 2 / math.pi * math.atan(document["score"]), places=12)
        by_token = judged("--encoder", m3, "--relevance", "multi-vector")
        self.assertGreater(by_token[0]["score"], by_token[1]["score"])  # "boat" is near to "ferry"
        alone = judged("--reranker", reranker, "--relevance", "rerank")
        sigmoid = 1 / (1 + math.exp(-1.0))
        self.assertTrue(all(abs(d["relevance"] - sigmoid) < 1e-6 and "score" not in d for d in alone))
        for document in judged("--reranker", reranker):
            retrieved = min(max(2 / math.pi * math.atan(document["score"] / 8), 1e-8), 1 - 1e-8)
            self.assertAlmostEqual(document["relevance"], 2 * retrieved * sigmoid / (retrieved + sigmoid + 1e-8), places=6)
        for arguments, part in ((["--relevance", "dense"], "--encoder"), (["--relevance", "rerank"], "--reranker"),
                                (["--reranker", m3], "--reranker"), (["--encoder", reranker, "--relevance", "dense"], "--encoder")):
            self.assertIn(part, self.ask(given, *arguments, code=2).stderr)

    def test_vectors_of_any_text(self):
        m3 = self.encoder("m3", kind="m3")
        texts = self.write("in.jsonl", [{"id": i, "text": text} for i, text in enumerate(["the ferry", "the boat", "tea"])])
        rows = [json.loads(line) for line in self.run_banyan("embed", "-m", m3, texts, "--sparse", "--multi-vector").stdout.splitlines()]
        self.assertEqual([len(row["multi_vector"]) for row in rows], [3, 3, 2])  # every token but the first
        self.assertEqual(rows[0]["dense"], rows[1]["dense"])  # words of one group
        self.assertEqual(sorted(rows[2]["sparse"].values()), [1.0])
        self.run_banyan("embed", "-m", m3, texts, "-o", "out.npy")
        raw = (self.folder / "out.npy").read_bytes()
        self.assertEqual(raw[:8], b"\x93NUMPY\x01\x00")
        self.assertIn(b"'shape': (3, 64)", raw[:128])
        self.assertEqual(list(struct.unpack("<192f", raw[128:]))[:64], [struct.unpack("<f", struct.pack("<f", x))[0] for x in rows[0]["dense"]])
        bad = self.write("bad.jsonl", '{"id":1,"text":"tea"}\n{"id":2}\n')
        self.assertIn("line 2", self.run_banyan("embed", "-m", m3, bad, "-o", "bad.npy", code=2).stderr)
        self.assertFalse((self.folder / "bad.npy").exists())
        self.run_banyan("embed", "-m", self.encoder(), texts, "--sparse", code=2)

    def test_what_is_not_read_is_said(self):
        self.make_notes()
        self.run_banyan("rag", "index", "notes", "--quiet")
        asked = self.ask("at seven the ferry leaves the harbour ?", "--min-relevance", "0.1")
        self.assertRegex(asked.stderr, r"passages? not read: a relevance below 0.1")

    def test_the_folder_of_an_index_is_no_folder_of_documents(self):
        self.make_notes()
        self.write("more/x.txt", "a code")
        self.assertIn("folder with other files", self.run_banyan("rag", "index", "more", "notes", code=2).stderr)


class Methods(RagTest):
    def test_documents_computed_apart(self):
        gold = read_rows(CODES)
        alone = [dict(record, documents=[d for d in record["documents"] if d["gold"]]) for record in gold]
        one = self.write("one.jsonl", alone)
        top = self.rag(one, "--method", "top1", "--precision", "f32")
        apart = self.rag(one, "--method", "kv-concat", "--precision", "f32")
        changed = lambda row: {k: v for k, v in timeless(row).items() if k != "method"}
        self.assertEqual([changed(row) for row in apart], [changed(row) for row in top])
        many = self.rag(CODES, "--method", "kv-concat")
        self.assertEqual([row["method"] for row in many], ["kv-concat"] * len(gold))
        for row in many:
            self.assertGreater(row["tokens"], 0)
            self.assertGreater(row["first_token_seconds"], 0)

    def test_temperature_and_scale_of_documents_computed_apart(self):
        told = ("--method", "kv-concat", "--precision", "f32", "--max-new", "12", "--limit", "1")
        plain = [timeless(row) for row in self.rag(CODES, *told)]
        ones = self.rag(CODES, *told, "--ape-temperature", "1", "--ape-scale", "1")
        self.assertEqual([timeless(row) for row in ones], plain)
        # Documents that weigh almost nothing have no answer.
        numbers = ("--ape-temperature", "2", "--ape-scale", "0.1")
        other = [timeless(row) for row in self.rag(CODES, *told, *numbers, "--threads", "1")]
        self.assertEqual([row["answer"] for row in other], [None])
        self.assertNotIn(None, [row["answer"] for row in plain])
        self.assertEqual([timeless(row) for row in self.rag(CODES, *told, *numbers, "--threads", "2")], other)
        for method in ("experts", "concat"):
            for option in ("--ape-temperature", "--ape-scale"):
                refused = self.run_banyan("rag", "-m", MODEL, CODES, "--method", method, option, "0.5", code=2)
                self.assertIn(f"{option} goes with --method kv-concat, found {method}", refused.stderr)
        output = self.path("part.jsonl")
        first = self.write("first.jsonl", read_rows(CODES)[:1])
        self.run_banyan("rag", "-m", MODEL, first, "-o", output, "--quiet", *told, *numbers)
        refused = self.run_banyan("rag", "-m", MODEL, CODES, "-o", output, "--resume", *told, code=2)
        self.assertIn("--ape-scale: was 0.1, is 1.0", refused.stderr)

    def test_temperatures_and_scales_are_swept(self):
        told = ("eval", "rag", CODES, "-m", MODEL, "--limit", "1", "--timed", "0", "--max-new", "4", "--json", "--quiet")
        swept = self.run_banyan(*told, "--method", "top1,kv-concat", "--ape-temperature", "0.5,1", "--ape-scale", "0.9,1")
        self.assertEqual([json.loads(line)["method"] for line in swept.stdout.splitlines()],
                         ["top1"] + [f"kv-concat T {t} S {s}" for t in ("0.5", "1") for s in ("0.9", "1")])
        refused = self.run_banyan(*told, "--method", "top1,concat", "--ape-scale", "0.9", code=2)
        self.assertIn("--ape-scale goes with --method kv-concat, found top1,concat", refused.stderr)

    def test_a_hundred_and_twenty_eight_documents(self):
        record = read_rows(CODES)[0]
        others = [dict(d, id=f"copy {i}", gold=False) for i in range(128) for d in record["documents"] if not d["gold"]]
        record["documents"] = ([d for d in record["documents"] if d["gold"]] + others)[:128]
        [row] = self.rag(self.write("in.jsonl", [record]))
        self.assertEqual(len(row["trace"]["documents"]), 128)
        self.assertEqual(row["answer"], record["answers"][0])

    def test_examples_are_experts(self):
        shots = [{"question": f"What is {i} plus 1?", "answer": str(i + 1)} for i in range(5)]
        asked = [{"id": 1, "question": "What is 2 plus 1?"}, {"id": 2, "question": "What is 4 plus 1?", "examples": shots[:1] + [shots[1:3]]}]
        path, file = self.write("in.jsonl", asked), self.write("shots.jsonl", shots)
        rows = self.rag(path, "--experts", "examples", "--examples", file, "--examples-per-expert", "2")
        self.assertEqual([[d["id"] for d in row["trace"]["documents"]] for row in rows], [[1, 2, 3], [1, 2]])
        self.assertEqual(len(rows[0]["trace"]["documents"]), 3)  # 2 + 2 + 1 examples
        written = {t["document"] for row in rows for t in row["trace"]["tokens"]}
        self.assertTrue(written <= {1, 2, 3})
        for arguments, part in ((["--examples", file], "--experts examples"), (["--experts", "examples", "--method", "concat"], "--method"),
                                (["--experts", "examples", "--examples", "none.jsonl"], "none.jsonl"), (["--experts", "people"], "--experts")):
            self.assertIn(part, self.run_banyan("rag", "-m", MODEL, path, *arguments, code=2).stderr)
        bad = self.write("bad.jsonl", [{"question": "Why?"}])
        self.assertIn("bad.jsonl, line 1", self.run_banyan("rag", "-m", MODEL, path, "--experts", "examples", "--examples", bad, code=2).stderr)
        [first, _] = self.rag(path, "--experts", "examples", code=1)
        self.assertIn("examples", first["error"]["message"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
