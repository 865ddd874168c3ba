"""The network on the CPU: packed rows equal samples alone, a step learns, legs continue. Skipped where torch is missing."""
from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: trainer tests skipped")

from train import encode as enc
from train import weights
from train.leg import Trainer, to_batch
from train.lexicon import TRAIN, Lexicon
from train.model import Config, Decoder, dense_mask
from train.pack import pack_rows
from train.questions import haystack
from train.tokenizer import Tokenizer

TOK = Tokenizer.load(Path(__file__).parents[1] / "tokenizer")
TINY = Config(dim=32, layers=2, heads=2, kv_heads=1, head_dim=32, hidden=64)


def tiny_model() -> Decoder:
    model = Decoder(TINY, seed=3)
    with torch.no_grad():
        for name in ("o", "down"):  # zero at start; give them weight so that attention matters
            getattr(model, name).normal_(0, 0.1, generator=torch.Generator().manual_seed(5))
        model.embedding.mul_(20)
    return model


def hidden(model: Decoder, e: enc.Encoded) -> torch.Tensor:
    t = lambda x: torch.tensor([x])
    return model.hidden(t(e.ids), t(e.pos), dense_mask(torch.zeros(1, len(e.ids)), t(e.branch), t(e.step)), torch.float32)[0]


def test_branches_of_a_tree_equal_each_branch_alone():
    model, sample = tiny_model(), haystack(Lexicon(random.Random(4), TRAIN), 120)
    tree = enc.encode_tree(TOK, sample)
    together = hidden(model, tree)
    for number, branch in enumerate(sample.branches, start=1):
        sample_alone = type(sample)(sample.system, sample.context, [branch], sample.question_lead)
        alone = enc.encode_tree(TOK, sample_alone)
        keep = [i for i, b in enumerate(tree.branch) if b in (0, number)]
        assert [tree.ids[i] for i in keep] == alone.ids and [tree.pos[i] for i in keep] == alone.pos
        torch.testing.assert_close(together[keep], hidden(model, alone), atol=1e-5, rtol=1e-4)


def test_packed_rows_equal_samples_alone():
    model = tiny_model()
    rows = pack_rows(TOK, 1, seed=1, progress=0.0)
    batch = to_batch(rows, torch.device("cpu"))
    packed = model.hidden(batch["ids"], batch["pos"], dense_mask(batch["doc"], batch["branch"], batch["step"]), torch.float32)[0]
    where = np.flatnonzero(rows.doc[0] == 2)
    e = enc.Encoded(ids=rows.ids[0, where].tolist(), pos=rows.pos[0, where].tolist(), branch=rows.branch[0, where].tolist(), step=rows.step[0, where].tolist())
    torch.testing.assert_close(packed[where], hidden(model, e), atol=1e-5, rtol=1e-4)


def test_steps_reduce_the_loss_and_legs_continue(tmp_path: Path):
    model = Decoder(TINY, seed=1)
    trainer = Trainer(model, 1, 4096, lr=0.02, adam_lr=5e-3)
    batch = to_batch(pack_rows(TOK, 1, seed=2, progress=0.0), torch.device("cpu"))
    losses = [trainer.step(batch, 1.0).item() for _ in range(8)]
    assert losses[-1] < losses[0] - 0.2
    weights.save(tmp_path, TINY.as_dict(), {}, {n: p.detach().numpy() for n, p in model.named_parameters()})
    _, _, back = weights.load(tmp_path)
    for name, p in model.named_parameters():
        assert np.abs(back[name] - p.detach().numpy()).max() <= np.abs(back[name]).max() / 200
