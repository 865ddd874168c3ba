"""Models that are here, whoever put them here, and what is said of those that are not: list, search, show, rm.

REQUIRES: BANYAN and MAKE_TINY_MODEL in the environment. Exits with 77 where the program was built without libcurl.
"""
import json
import os
import sys
import unittest

from stand_in import Repository, sha256
from test_names import CARD, HubTest, built_with_downloads


class Stores(HubTest):
    def setUp(self):
        super().setUp()
        ollama = self.folder / ".ollama" / "models"
        manifest = ollama / "manifests" / "registry.ollama.ai" / "library" / "tiny" / "latest"
        manifest.parent.mkdir(parents=True)
        manifest.write_text(json.dumps({"schemaVersion": 2, "layers": [
            {"mediaType": "application/vnd.ollama.image.license", "digest": "sha256:" + "0" * 64, "size": 1},
            {"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:" + sha256(self.tiny), "size": 1}]}))
        self.blob = ollama / "blobs" / ("sha256-" + sha256(self.tiny))
        self.studio = self.folder / ".lmstudio" / "models" / "org" / "repo" / "tiny-Q4_0.gguf"
        self.llama = self.folder / ".cache" / "llama.cpp" / "org_repo_tiny.gguf"
        for path in (self.blob, self.studio, self.llama):
            path.parent.mkdir(parents=True)
            path.write_bytes(self.tiny)
        self.names = {"ollama:tiny:latest": ("ollama", self.blob), "lmstudio:org/repo/tiny-Q4_0.gguf": ("lm-studio", self.studio),
                      "llamacpp:org_repo_tiny.gguf": ("llama.cpp", self.llama)}

    def test_they_are_listed_with_where_they_are_and_run_in_place(self):
        rows = {row["name"]: row for row in json.loads(self.run_banyan("model", "list", "--json").stdout)}
        answers = set()
        for name, (where, path) in self.names.items():
            row = rows[name]
            self.assertEqual((row["where"], row["path"], row["runs"], row["bytes"]), (where, str(path), True, len(self.tiny)))
            answers.add(json.loads(self.ask("-m", name).stdout)["answer"])
        self.assertEqual(len(answers), 1)
        table = self.run_banyan("model", "list").stdout
        self.assertIn(f"ollama:tiny:latest is {self.blob}", table)
        self.assertEqual(self.run_banyan("model", "path", "ollama:tiny").stdout.strip(), str(self.blob))

    def test_search_finds_what_has_all_words(self):
        found = self.run_banyan("model", "search", "TINY", "org", "--names").stdout.split()
        self.assertEqual(sorted(found), ["llamacpp:org_repo_tiny.gguf", "lmstudio:org/repo/tiny-Q4_0.gguf"])
        self.assertIn("no model on this machine has nothing-like-it", self.run_banyan(
            "model", "search", "nothing-like-it", code=1).stderr)
        self.assertEqual(json.loads(self.run_banyan("model", "search", "nothing-like-it", "--json").stdout), [])

    def test_wrong_names_and_what_others_keep(self):
        self.assertIn("'banyan model list' shows", self.ask("-m", "ollama:other", code=2).stderr)
        self.assertIn("another program keeps it", self.run_banyan("model", "rm", "ollama:tiny", code=2).stderr)
        self.assertIn("comes with the program", self.run_banyan("model", "rm", "banyan-reader-34m", code=2).stderr)
        self.assertIn("expected a fetched model", self.run_banyan("model", "rm", self.studio, code=2).stderr)
        self.run_banyan("model", "rm", "org/never-here", code=2)
        self.assertTrue(self.studio.exists() and self.blob.exists())


class Removing(HubTest):
    def test_one_quantisation_and_then_all(self):
        one, two = self.tiny, self.tiny + bytes(64)
        repository = Repository({"m-Q4_0.gguf": one, "m-Q8_0.gguf": two, "README.md": CARD})
        self.hub({"org/model": repository})
        for name in ("org/model:Q4_0", "org/model:Q8_0"):
            self.run_banyan("model", "get", name)
        names = self.run_banyan("model", "list", "--names").stdout.split()
        self.assertLessEqual({"org/model:Q4_0", "org/model:Q8_0"}, set(names))
        self.assertIn("removed; 0.1 MB are free again", self.run_banyan("model", "rm", "org/model:Q4_0").stderr)
        self.assertEqual(sorted(self.blobs()), sorted([sha256(two), repository.etag("README.md")]))
        self.assertTrue(self.run_banyan("model", "path", "org/model").stdout.strip().endswith("m-Q8_0.gguf"))
        self.run_banyan("model", "rm", "hf:org/model")
        self.assertFalse(self.repository_folder().exists())
        self.run_banyan("model", "rm", "org/model", code=2)


class Showing(HubTest):
    def test_headers_alone_say_what_the_whole_file_says(self):
        padded = self.tiny + bytes(3 << 20)  # what follows the tensors is never fetched
        hub = self.hub({"org/model": Repository({"m-Q4_0.gguf": padded, "m-F16.gguf": padded + b"x"},
                                                {"license": "apache-2.0"})})
        shown = self.run_banyan("model", "show", "org/model").stdout
        path = self.folder / "whole.gguf"
        path.write_bytes(padded)
        whole = self.run_banyan("model", "info", path).stdout
        for line in ("architecture", "parameters", "context", "vocabulary", "tensors", "kv per token", "runs"):
            pick = [row for row in whole.splitlines() if row.startswith(line + " ")]
            self.assertTrue(pick)
            self.assertIn(pick[0], shown)
        for words in ("licence          apache-2.0", "Q4_0 (3.3 MB), the best that fits", "tokens/s generated",
                      "for one full context", "banyan model get org/model"):
            self.assertIn(words, shown)
        asked = [headers.get("Range") for _, headers in hub.requests("large")]
        self.assertEqual(asked, [f"bytes=0-{(1 << 20) - 1}"])
        self.assertFalse(self.cache.exists(), "nothing is kept")
        self.assertEqual([p.name for p in (self.folder / "cache").iterdir() if p.name.startswith("headers-")], [])

    def test_why_one_cannot_run(self):
        config = json.dumps({"model_type": "mamba"}).encode()
        header = json.dumps({"a.weight": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}).encode()
        weights = len(header).to_bytes(8, "little") + header + bytes(16)
        self.hub({"org/model": Repository({"config.json": config, "model.safetensors": weights}),
                  "org/pickle": Repository({"config.json": config, "pytorch_model.bin": b"x"}),
                  "org/broken": Repository({"m-Q4_0.gguf": b"not a model at all" * 100})})
        shown = self.run_banyan("model", "show", "org/model").stdout
        self.assertIn("runs             no: ", shown)
        self.assertIn("model_type 'mamba': not supported", shown)
        self.assertIn("pickles are never loaded", self.run_banyan("model", "show", "org/pickle", code=2).stderr)
        self.assertIn("not a GGUF file", self.run_banyan("model", "show", "org/broken", code=2).stderr)
        self.assertIn("check the name", self.run_banyan("model", "show", "org/nothing", code=2).stderr)


if __name__ == "__main__":
    if not built_with_downloads():
        print("skipped: models of the hub by name (libcurl4-openssl-dev)")
        sys.exit(77)
    unittest.main()
