#!/usr/bin/env python3
"""Adapters kept apart as people meet them: `--adapter NAME=DIR`, rows and lines that name one, the server's models.
usage: test_adapters.py BANYAN MODEL (the shipped one: its sizes stand below)"""
import json
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import unittest

BANYAN, MODEL = sys.argv[1:3]
os.environ["BANYAN"] = BANYAN
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "serve"))
HIDDEN, QUERY, KEY, FFN = 576, 576, 192, 896
CONTEXT = "Anna Walker steers the ferry Marigold. The harbour office is in Dover Street."
QUESTION = "Who steers the ferry Marigold?"


def write_adapter(folder, seed, rank, shapes):
    """A PEFT directory for layers 0 and 3; `shapes`: the end of a module's name → (outputs, inputs)."""
    draw = random.Random(seed)
    header, data = {}, b""
    for layer in (0, 3):
        for name, (outputs, inputs) in shapes.items():
            for part, shape in (("A", (rank, inputs)), ("B", (outputs, rank))):
                count = shape[0] * shape[1]
                values = struct.pack(f"<{count}f", *(draw.uniform(-0.2, 0.2) for _ in range(count)))
                header[f"base_model.model.model.layers.{layer}.{name}.lora_{part}.weight"] = {
                    "dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
                data += values
    text = json.dumps(header).encode()
    os.makedirs(folder)
    (pathlib.Path(folder) / "adapter_model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    config = {"peft_type": "LORA", "r": rank, "lora_alpha": rank, "bias": "none"}
    (pathlib.Path(folder) / "adapter_config.json").write_text(json.dumps(config))


class Adapters(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="banyan-adapters-")
        cls.one, cls.two = (os.path.join(cls.folder.name, name) for name in ("one", "two"))
        write_adapter(cls.one, 1, 4, {"self_attn.q_proj": (QUERY, HIDDEN), "mlp.up_proj": (FFN, HIDDEN)})
        write_adapter(cls.two, 2, 3, {"self_attn.v_proj": (KEY, HIDDEN), "mlp.down_proj": (HIDDEN, FFN)})
        cls.both = ["--adapter", f"one={cls.one}", "--adapter", f"two={cls.two}"]

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def run_it(self, *arguments, rows=(), code=0):
        text = "".join(json.dumps(row) + "\n" for row in rows)
        done = subprocess.run([BANYAN, *arguments], input=text, capture_output=True, text=True, timeout=200)
        self.assertEqual(done.returncode, code, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()] if code != 2 else done.stderr

    def ids(self, rows, *arguments, code=0):
        return {row["id"]: row for row in self.run_it("ids", "-m", MODEL, "--threads", "1", *arguments, rows=rows, code=code)}

    def test_lines_of_ids_name_their_adapter(self):
        line = {"kind": "logits", "ids": list(range(5, 45))}
        apart = self.ids([dict(line, id="base"), dict(line, id="one", adapter="one"), dict(line, id="two", adapter="two"),
                          dict(line, id="none", adapter="three")], *self.both, code=1)
        self.assertIn("'three'", json.dumps(apart["none"]))
        self.assertIn("one, two", json.dumps(apart["none"]))
        self.assertEqual(apart["base"], self.ids([dict(line, id="base")])["base"])
        for name, folder in (("one", self.one), ("two", self.two)):
            merged = self.ids([dict(line, id="x")], "--adapter", folder)["x"]["last_logits"]
            found = apart[name]["last_logits"]
            self.assertLess(max(abs(a - b) for a, b in zip(found, merged)), 2e-3)
            self.assertGreater(max(abs(a - b) for a, b in zip(found, apart["base"]["last_logits"])), 0.05)

    def ask(self, rows, *arguments, code=0):
        source = os.path.join(self.folder.name, "in.jsonl")
        with open(source, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
        return self.run_it("ask", source, "-m", MODEL, "--threads", "1", "--quiet", "--ordered", "--max-new", "8", "--logprobs",
                           *arguments, code=code)

    def test_rows_of_a_job_name_their_adapter(self):
        row = {"context": CONTEXT, "question": QUESTION}
        rows = [dict(row, id="a"), dict(row, id="b", adapter="one"), dict(row, id="c", adapter="two"),
                dict(row, id="d", adapter="three"), dict(row, id="e", adapter=None), dict(row, id="f", adapter="one")]
        found = {out["id"]: out for out in self.ask(rows, *self.both, code=1)}
        of = {key: (out.get("answer"), out.get("logprobs")) for key, out in found.items()}
        self.assertEqual(of["a"], of["e"])
        self.assertEqual(of["b"], of["f"])
        self.assertEqual(len({json.dumps(of[key]) for key in "abc"}), 3)
        self.assertIn("no adapter 'three'", found["d"]["error"]["message"])
        # Without adapters to choose from the field is one of the user's own.
        self.assertEqual(self.ask([rows[0], rows[3]])[1].get("answer"), of["a"][0])

    def test_what_is_refused(self):
        said = self.run_it("ids", "-m", MODEL, "--adapter", self.one, "--adapter", self.two, code=2)
        self.assertIn("one adapter can be merged", said)
        said = self.run_it("ids", "-m", MODEL, "--adapter", f"x={self.one}", "--adapter", f"x={self.two}", code=2)
        self.assertIn("a name of its own", said)

    def test_the_server_has_a_model_for_each(self):
        from harness import NAME, Server  # needs BANYAN
        server = Server(*self.both, "--threads", "1")
        try:
            models = json.loads(server.ask("GET", "/v1/models")[2])["data"]
            self.assertEqual([model["id"] for model in models], [NAME, "one", "two"])

            def complete(model, path="/v1/completions", **more):
                body = {"model": model, "prompt": "The ferry", "max_tokens": 6, "temperature": 0, "logprobs": 1, **more}
                status, _, reply = server.ask("POST", path, body)
                return status, json.loads(reply)
            texts = [json.dumps(complete(model)[1]["choices"][0]["logprobs"]) for model in (NAME, "one", "two", "one", NAME)]
            self.assertEqual(len(set(texts)), 3)
            self.assertEqual((texts[0], texts[1]), (texts[4], texts[3]))
            status, reply = complete("three")
            self.assertEqual((status, reply["error"]["code"]), (404, "model_not_found"))
            self.assertIn("'two'", reply["error"]["message"])

            def ask(**more):
                body = {"documents": [dict({"id": 1, "text": CONTEXT}, **more.pop("row", {}))], "questions": [QUESTION],
                        "logprobs": True, "max_tokens": 8, **more}
                status, _, reply = server.ask("POST", "/v1/ask", body)
                self.assertEqual(status, 200, reply)
                row = json.loads(reply)["rows"][0]
                return json.dumps([row.get("answer"), row.get("logprobs")])
            by_model, by_row, plain = ask(model="one"), ask(row={"adapter": "one"}), ask(model=NAME)
            self.assertEqual(by_model, by_row)
            self.assertNotEqual(by_model, plain)
            self.assertEqual(plain, ask())
        finally:
            server.stop()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
