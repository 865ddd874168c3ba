"""The network on the CPU: packed rows equal samples alone, a step learns. Skipped where torch is missing."""

from __future__ import annotations

import random
import unittest
from pathlib import Path

import numpy as np

from train import encode as enc
from train.lexicon import TRAIN, Lexicon
from train.pack import pack_rows
from train.questions import haystack
from train.sample import Sample
from train.tests.torch_here import torch
from train.tokenizer import Tokenizer

TOK = Tokenizer.load(Path(__file__).parents[1] / "tokenizer")


@unittest.skipIf(torch is None, "no PyTorch 2.9 here: pip install torch")
class Network(unittest.TestCase):
    def setUp(self):
        from train.model import Config, Decoder

        torch.set_num_threads(1)
        self.config = Config(dim=32, layers=2, heads=2, kv_heads=1, head_dim=32, hidden=64)
        self.model = Decoder(self.config, seed=3)
        with torch.no_grad():
            for name in ("o", "down"):  # zero at start; give them weight so that attention matters
                getattr(self.model, name).normal_(0, 0.1, generator=torch.Generator().manual_seed(5))
            self.model.embedding.mul_(20)

    def hidden(self, e: enc.Encoded):
        from train.model import dense_mask

        t = lambda x: torch.tensor([x])
        return self.model.hidden(
            t(e.ids), t(e.pos), dense_mask(torch.zeros(1, len(e.ids)), t(e.branch), t(e.step)), torch.float32
        )[0]

    def test_branches_of_a_tree_equal_each_branch_alone(self):
        sample = haystack(Lexicon(random.Random(4), TRAIN), 60)
        tree = enc.encode_tree(TOK, sample)
        together = self.hidden(tree)
        for number, branch in enumerate(sample.branches, start=1):
            alone = enc.encode_tree(TOK, Sample(sample.system, sample.context, [branch], sample.question_lead))
            keep = [i for i, b in enumerate(tree.branch) if b in (0, number)]
            self.assertEqual([tree.ids[i] for i in keep], alone.ids)
            torch.testing.assert_close(together[keep], self.hidden(alone), atol=1e-5, rtol=1e-4)

    def test_packed_rows_equal_samples_alone(self):
        from train.trainer import to_batch
        from train.model import dense_mask

        rows = pack_rows(TOK, 1, 1, 0.0, TRAIN, 1024)
        batch = to_batch(rows, torch.device("cpu"))
        packed = self.model.hidden(
            batch["ids"], batch["pos"], dense_mask(batch["doc"], batch["branch"], batch["step"]), torch.float32
        )[0]
        where = np.flatnonzero(rows.doc[0] == 1)
        e = enc.Encoded(
            ids=rows.ids[0, where].tolist(),
            pos=rows.pos[0, where].tolist(),
            branch=rows.branch[0, where].tolist(),
            step=rows.step[0, where].tolist(),
        )
        torch.testing.assert_close(packed[where], self.hidden(e), atol=1e-5, rtol=1e-4)

    def test_the_skeleton_row_equals_the_reference_decoder_fed_the_same_values(self):
        """Training mask and inference order are two descriptions of one thing: logits must agree at every slot."""
        from train.large_model import TRANSFORMERS_NAMES
        from train.products import page
        from train.reference import Network as Reference

        e = enc.encode_skeleton(TOK, page(Lexicon(random.Random(3), TRAIN), 60), [10] * 16, spaced=True, isolated=False)
        c = self.config
        names = TRANSFORMERS_NAMES
        tensors = {
            f"model.layers.{i}.{names[n]}.weight": p.detach().numpy()[i]
            for n, p in self.model.named_parameters()
            if n in names
            for i in range(c.layers)
        }
        tensors |= {
            "model.embed_tokens.weight": self.model.embedding.detach().numpy(),
            "model.norm.weight": self.model.final_norm.detach().numpy(),
        }
        net = Reference(c.layers, c.heads, c.kv_heads, c.head_dim, c.eps, c.rope_theta, tensors)
        memory, expected = net.empty(), {}
        for step in range(max(e.step) + 1):
            rows = [i for i in range(len(e.ids)) if e.step[i] == step]
            for i, logits in zip(rows, net.feed(memory, [e.ids[i] for i in rows], [e.pos[i] for i in rows])):
                expected[i] = logits
        got = (self.hidden(e) @ self.model.embedding.T).detach().numpy()
        for i in expected:
            np.testing.assert_allclose(got[i], expected[i], atol=2e-3)

    def test_steps_reduce_the_loss(self):
        from train.trainer import Trainer, to_batch
        from train.model import Decoder

        model = Decoder(self.config, seed=1)
        trainer = Trainer(model, 1, 512, lr=0.02, adam_lr=5e-3)
        batch = to_batch(pack_rows(TOK, 1, 2, 0.0, TRAIN, 512), torch.device("cpu"))
        losses = [trainer.step(batch, 1.0).item() for _ in range(8)]
        self.assertLess(losses[-1], losses[0] - 0.2)

    def test_muon_steps_have_unit_spectral_scale(self):
        from train.muon import orthogonalize

        g = torch.randn(3, 24, 40, generator=torch.Generator().manual_seed(1))
        values = torch.linalg.svdvals(orthogonalize(g).float())
        self.assertTrue(((values > 0.5) & (values < 1.4)).all())


if __name__ == "__main__":
    unittest.main()
