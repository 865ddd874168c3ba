"""Adapters that are kept apart: rows and requests choose one by its name."""
import json
import os
import struct
import unittest
from unittest import mock

import numpy

import banyan
from support import PackageTest


def write_adapter(folder, model, seed, rank=2) -> str:
    """A PEFT directory for the queries of layer 0, at the model's shape."""
    shape = banyan.describe(model)
    draw = numpy.random.default_rng(seed)
    header, data = {}, b""
    for part, sizes in (("A", (rank, shape["hidden_size"])), ("B", (shape["heads"] * shape["head_dim"], rank))):
        values = draw.uniform(-1, 1, sizes).astype("<f4").tobytes()
        header[f"base_model.model.model.layers.0.self_attn.q_proj.lora_{part}.weight"] = {
            "dtype": "F32", "shape": sizes, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header).encode()
    folder.mkdir()
    (folder / "adapter_model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    (folder / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": rank, "lora_alpha": 8, "bias": "none"}))
    return str(folder)


class Adapters(PackageTest):
    def test_rows_and_requests_name_theirs(self):
        folders = {name: write_adapter(self.folder / name, self.model_path, seed) for seed, name in enumerate(("one", "two"))}
        rows = [{"id": i, "context": "Anna steers the ferry.", "question": "Who?", **more}
                for i, more in enumerate(({}, {"adapter": "one"}, {"adapter": "two"}, {"adapter": "three"}))]
        flags = [word for name, folder in folders.items() for word in ("--adapter", f"{name}={folder}")]
        with banyan.Model(self.model_path, threads=1, adapters=folders) as model:
            self.assertEqual(model.adapters, ["one", "two"])
            found = banyan.ask(rows, model=model, max_new=12, logprobs=True)
            wanted = self.command_lines("ask", self.write("in.jsonl", rows), "--max-new", 12, "--logprobs", *flags, code=1)
            self.assertEqual([{**json.loads(line), "error": None} for line in found.lines],
                             [{**json.loads(line), "error": None} for line in wanted])
            self.assertEqual([row["id"] for row in found.errors], [3])
            scores = [row["logprobs"] for row in found if "logprobs" in row]
            self.assertEqual(len({json.dumps(one) for one in scores}), 3)  # each answers in its own way
            with banyan.Engine(model) as engine:
                together = [engine.submit("The ferry", max_new=8, stop_tokens=[], adapter=name) for name in ("", "one", "two")]
                together = [request.answer() for request in together]
                alone = engine.submit(banyan.Segment(model.encode("The ferry", add_special=True),
                                                     [banyan.Ask(max_new=8, stop_tokens=[])], adapter="two")).answer()
                numpy.testing.assert_array_equal(alone.logprobs, together[2].logprobs)
                self.assertNotEqual(together[0].logprobs.tolist(), together[1].logprobs.tolist())
                with self.assertRaises(banyan.Error):
                    engine.submit("The ferry", adapter="three")

    def test_without_a_model_the_command_lines_default_answers(self):
        from banyan._model import named_model
        shipped = (banyan._native.path_of_model("banyan-reader-34m"), None)
        with mock.patch.dict(os.environ, BANYAN_CACHE=str(self.folder), BANYAN_MODEL=""):
            self.assertEqual(named_model(None), shipped)
            (self.folder / "reader.txt").write_text("banyan decisions 1\tthe reader 1\nreader\tbetter\n")
            self.assertEqual(named_model(None), shipped)  # chosen, and not there
            (self.folder / "models" / "smollm2-135m-instruct").mkdir(parents=True)
            for task, adapter in (("ask", "smollm2-reader"), ("extract", "smollm2-extract"), ("rag", "smollm2-reader")):
                model, folder = named_model(None, task=task)
                self.assertEqual((model, os.path.basename(folder)), ("smollm2-135m-instruct", adapter))
            with mock.patch.dict(os.environ, BANYAN_MODEL=self.model_path):
                self.assertEqual(named_model(None), (self.model_path, None))


if __name__ == "__main__":
    unittest.main()
