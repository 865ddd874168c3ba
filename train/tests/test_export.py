"""The GGUF writer and the slow reference: what is written reads back, the shipped file is the recorded one, oracles
agree."""

from __future__ import annotations

import hashlib
import json
import tempfile
import unittest
from pathlib import Path

import numpy as np

from train import export
from train.gguf import dequantize_q8_0, quantize_q8_0, read_gguf, write_gguf
from train.gguf_set import with_string
from train.reference import experts, greedy, load_gguf, load_hf, skeleton
from train.safetensors import from_bf16, to_bf16
from train.tokenizer import CHAT_TEMPLATE, Tokenizer

ROOT = Path(__file__).parents[2]
TOKENIZER = ROOT / "train" / "tokenizer"
ORACLES = ROOT.parent / "shared" / "golden" / "models"
TINY = dict(
    vocab=4096,
    dim=64,
    layers=2,
    heads=2,
    kv_heads=1,
    head_dim=32,
    hidden=96,
    rope_theta=100000.0,
    eps=1e-6,
    context=4096,
)


def tiny_weights() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    return {
        n: (rng.standard_normal(s) * 0.1 if len(s) > 1 and "norm" not in n else np.ones(s)).astype(np.float32)
        for n, s in export.tensor_shapes(TINY).items()
    }


class Formats(unittest.TestCase):
    def test_bf16_rounds_to_nearest_even(self):
        x = np.array([1.0, 1.00390625, 1.01171875, -3.5, 1e-30], np.float32)
        back = from_bf16(to_bf16(x))
        self.assertEqual(back[:4].tolist(), [1.0, 1.0, 1.015625, -3.5])

    def test_q8_0_error_is_half_a_step(self):
        x = np.random.default_rng(2).standard_normal((5, 96)).astype(np.float32)
        x[0, :32] = 0
        back = dequantize_q8_0(quantize_q8_0(x), x.shape)
        step = np.abs(x.reshape(-1, 32)).max(1) / 127
        self.assertTrue((np.abs(back - x).reshape(-1, 32) <= step[:, None] * 0.51 + 1e-4).all())
        with self.assertRaises(ValueError):
            quantize_q8_0(np.zeros((2, 40)))

    def test_a_file_says_what_it_is(self):
        w, tok = tiny_weights(), Tokenizer.load(TOKENIZER)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "m.gguf")
            write_gguf(path, export.gguf_metadata(TINY, tok), export.gguf_tensors(TINY, w))
            meta, tensors = read_gguf(path)
            net = load_gguf(path)
        self.assertEqual(meta["general.architecture"], "llama")
        self.assertEqual(meta["tokenizer.ggml.tokens"], tok.tokens)
        self.assertEqual(meta["tokenizer.ggml.eos_token_id"], tok.im_end)
        self.assertEqual(meta["tokenizer.chat_template"], CHAT_TEMPLATE)
        self.assertEqual(tensors["blk.1.ffn_down.weight"].shape, (64, 96))
        ids = tok.encode("The cat sat on the mat.")
        self.assertTrue(np.isfinite(net.feed(net.empty(), ids, list(range(len(ids))))).all())


class Cards(unittest.TestCase):
    def test_a_string_is_set_and_all_else_stays(self):
        w, tok = tiny_weights(), Tokenizer.load(TOKENIZER)
        with tempfile.TemporaryDirectory() as folder:
            path, again = Path(folder, "m.gguf"), Path(folder, "n.gguf")
            write_gguf(path, export.gguf_metadata(TINY, tok), export.gguf_tensors(TINY, w))
            before = read_gguf(path)
            for text in ('{"copies": true}', "{}", '{"copies": true, "null_text": "null", "null_bias": 0.5}'):
                again.write_bytes(with_string((again if again.exists() else path).read_bytes(), "banyan.card", text))
                meta, tensors = read_gguf(again)
                self.assertEqual(meta.pop("banyan.card"), text)
                self.assertEqual(meta, before[0])
                self.assertEqual(tensors.keys(), before[1].keys())
                for name, tensor in tensors.items():
                    np.testing.assert_array_equal(tensor, before[1][name])
            metadata = export.gguf_metadata(TINY, tok) | {"banyan.card": text}
            write_gguf(path, metadata, export.gguf_tensors(TINY, w))
            self.assertEqual(path.read_bytes(), again.read_bytes())
        with self.assertRaises(ValueError):
            with_string(b"GGML" + bytes(20), "a", "b")


class Shipped(unittest.TestCase):
    def test_the_model_file_has_the_recorded_hash_and_size(self):
        sums = ROOT / "models" / "SHA256SUMS"
        if not sums.exists():
            self.skipTest("models/SHA256SUMS is not there")
        for line in sums.read_text().splitlines():
            digest, name = line.split()
            data = (ROOT / "models" / name).read_bytes()
            self.assertEqual(hashlib.sha256(data).hexdigest(), digest)
            self.assertLess(len(data), 20_000_000)
            if not name.endswith(".gguf"):
                continue
            _, tensors = read_gguf(ROOT / "models" / name)
            self.assertLessEqual(sum(t.size for t in tensors.values()), 40_000_000)


class Oracles(unittest.TestCase):
    def test_logits_greedy_skeletons_and_experts(self):
        if not ORACLES.is_dir():
            self.skipTest("no oracles beside the checkout (../shared/golden/models)")
        known = 0
        for folder in sorted(ORACLES.iterdir()):
            try:
                net = load_hf(folder)
            except ValueError:
                continue  # a family the reference does not know
            known += 1
            g = json.loads((folder / "golden.json").read_text())
            for p in g["prompts"]:
                logits = net.feed(net.empty(), p["ids"], list(range(len(p["ids"]))))[-1]
                self.assertLess(np.abs(logits - np.array(p["last_logits"])).max(), 1e-3)
            first = g["prompts"][0]
            self.assertEqual(greedy(net, first["ids"], len(first["greedy"]), set()), first["greedy"])
            for name in ("skeleton", "skeleton_k"):
                s = g[name]
                budget = s["kmax"] if isinstance(s["kmax"], list) else [s["kmax"]] * len(s["attributes"])
                self.assertEqual(
                    skeleton(net, s["prompt"], s["attributes"], budget, lambda t: t[-1] == s["stop"]),
                    s["values"],
                    f"{folder.name} {name}",
                )
            e = g["experts"]
            tokens, winners, betas = experts(
                net,
                e["system"],
                e["documents"],
                e["question"],
                e["r"],
                e["gamma"],
                len(e["dynamic"]["tokens"]),
                {e["stop"]},
            )
            self.assertEqual((tokens, winners), (e["dynamic"]["tokens"], e["dynamic"]["expert"]), folder.name)
            np.testing.assert_allclose(betas, e["dynamic"]["betas"], atol=1e-4)
        self.assertGreaterEqual(known, 1)


if __name__ == "__main__":
    unittest.main()
