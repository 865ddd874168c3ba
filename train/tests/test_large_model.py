"""A tiny `llama` file: Q4_0 in training and in the file, merged adapters, many streams at once. Skipped where torch is
missing."""

from __future__ import annotations

import contextlib
import json
import tempfile
import unittest
from pathlib import Path

import numpy as np

from train.export import gguf_metadata, gguf_tensors
from train.gguf import Q4_0, dequantize_q4, quantize_q4_0, write_gguf
from train.reference import load_gguf
from train.tests.torch_here import torch
from train.tokenizer import Tokenizer, load_tokenizer

TOKENIZER = Path(__file__).parents[1] / "tokenizer"


class Quantisation(unittest.TestCase):
    def test_q4_0_keeps_values_within_half_a_step(self):
        x = np.random.default_rng(1).normal(size=(6, 64)).astype(np.float32)
        x[2, :32] = 0
        back = dequantize_q4(quantize_q4_0(x), x.shape, False)
        step = np.abs(x.reshape(-1, 32)).max(1) / 8
        self.assertTrue(
            (np.abs(back - x).reshape(-1, 32) <= step[:, None] * 1.01).all()
        )  # the far end of the other sign is cut to 7 steps
        self.assertLess(np.abs(back - x).mean(), 0.3 * step.mean())


@unittest.skipIf(torch is None, "no PyTorch 2.9 here: pip install torch")
class LargeModel(unittest.TestCase):
    def setUp(self):
        from train.model import Config, Decoder

        torch.set_num_threads(1)
        self.stack = contextlib.ExitStack()
        self.folder = Path(self.stack.enter_context(tempfile.TemporaryDirectory()))
        self.addCleanup(self.stack.close)
        self.config = Config(dim=64, layers=3, heads=3, kv_heads=1, head_dim=32, hidden=96, eps=1e-5)
        self.model = Decoder(self.config, seed=3)
        with torch.no_grad():
            for name in ("o", "down"):
                getattr(self.model, name).normal_(0, 0.1, generator=torch.Generator().manual_seed(5))
            self.model.embedding.mul_(20)
        self.large = self.folder / "large.gguf"
        arrays = {n: p.detach().numpy() for n, p in self.model.named_parameters()}
        write_gguf(
            self.large,
            gguf_metadata(self.config.as_dict(), Tokenizer.load(TOKENIZER)),
            gguf_tensors(self.config.as_dict(), arrays),
        )

    def logits(self, model, ids: list[int]) -> np.ndarray:
        from train.model import dense_mask

        zero = torch.zeros(1, len(ids), dtype=torch.int32)
        h = model.hidden(torch.tensor([ids]), torch.arange(len(ids))[None], dense_mask(zero, zero, zero), torch.float32)
        return (h @ model.matrix("embedding").T)[0].detach().numpy()

    def test_fake_quantisation_is_that_of_the_file(self):
        from train.model import fake_quantize

        x = torch.randn(4, 96, generator=torch.Generator().manual_seed(2)).requires_grad_()
        y = fake_quantize(x)
        np.testing.assert_allclose(
            y.detach().numpy(), dequantize_q4(quantize_q4_0(x.detach().numpy()), (4, 96), False), atol=1e-6
        )
        y.sum().backward()
        np.testing.assert_array_equal(x.grad.numpy(), np.ones((4, 96), np.float32))

    def test_llama_file_read_by_the_reference(self):
        path = self.folder / "small.gguf"
        c = self.config.as_dict()
        write_gguf(
            path,
            gguf_metadata(c, Tokenizer.load(TOKENIZER), Q4_0),
            gguf_tensors(c, {n: p.detach().numpy() for n, p in self.model.named_parameters()}),
            Q4_0,
        )
        ids = load_tokenizer(path).encode("The mill at Aldham was built in 1840.")
        self.assertEqual(ids, Tokenizer.load(TOKENIZER).encode("The mill at Aldham was built in 1840."))
        self.model.quantized = True
        net = load_gguf(path)
        np.testing.assert_allclose(
            net.feed(net.empty(), ids, list(range(len(ids)))), self.logits(self.model, ids), atol=2e-3, rtol=1e-3
        )

    def adapter(self) -> Path:
        from train import safetensors

        folder = self.folder / "adapter"
        folder.mkdir(exist_ok=True)
        rng = np.random.default_rng(4)
        name = "base_model.model.model.layers.1.self_attn.q_proj."
        safetensors.write_bf16(
            folder / "adapter_model.safetensors",
            {
                name + "lora_A.weight": rng.normal(size=(4, 64)).astype(np.float32),
                name + "lora_B.weight": rng.normal(size=(96, 4)).astype(np.float32),
            },
        )
        (folder / "adapter_config.json").write_text(json.dumps(dict(lora_alpha=8, r=4)))
        return folder

    def test_the_adapter_is_merged(self):
        from train.large_model import load_large
        from train import safetensors

        lora = list(safetensors.read(self.adapter() / "adapter_model.safetensors").values())
        changed = (load_large(self.large, self.adapter()).q - load_large(self.large, None).q).detach().numpy()
        np.testing.assert_allclose(changed[1], 2 * lora[1] @ lora[0], atol=1e-4)
        self.assertFalse(changed[[0, 2]].any())

    def test_many_streams_are_what_each_is_alone(self):
        from train.decode import complete

        tok = Tokenizer.load(TOKENIZER)
        prompts = [tok.encode(t) for t in ("The mill", "A barge left the quay before dawn", "Dear Ruth,")]
        for prompt, (made, score) in zip(prompts, complete(self.model, prompts, 6, tok.im_end, torch.float32)):
            ids, want, total = list(prompt), [], 0.0
            for _ in range(6):
                row = self.logits(self.model, ids)[-1].astype(np.float64)
                best = int(row.argmax())
                total += row[best] - np.log(np.exp(row - row.max()).sum()) - row.max()
                if best == tok.im_end:
                    break
                want.append(best)
                ids.append(best)
            self.assertEqual(made, want)
            self.assertAlmostEqual(score, total, places=3)


if __name__ == "__main__":
    unittest.main()
