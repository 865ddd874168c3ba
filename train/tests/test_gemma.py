"""Gemma 3 as the trainer sees it: the file's block types, its tokenizer and prompts, the network with windows. Where `BANYAN` is set, the
engine is asked for the same tokens and the same answers."""
from __future__ import annotations

import contextlib
import os
import random
import struct
import tempfile
import unittest
from pathlib import Path

import numpy as np

from train.encode import encode_tree
from train.gguf import U32, dequantize_q4_k, dequantize_q5_0, dequantize_q6_k, write_gguf
from train.sample import Branch, Sample
from train.sentencepiece import SPACE, SentencePiece

try:
    import torch
except ImportError:
    torch = None

CHARACTERS = sorted(set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,:?!'-_()"))
WORDS = ("an", "in", "th", "the", SPACE + "t", SPACE + "the", "er", "on", "null", "nu", "ll", SPACE + "null", "is", SPACE + "is")


def pieces() -> SentencePiece:
    specials = ["<pad>", "<eos>", "<bos>", "<unk>"]
    newlines = ["\n" * n for n in range(1, 5)] + ["<table>"]
    bytes_ = [f"<0x{b:02X}>" for b in range(256)]
    words = [*WORDS, SPACE, *CHARACTERS]
    types = [3, 3, 3, 2] + [4] * len(newlines) + [6] * 256 + [1] * len(words)
    return SentencePiece(specials + newlines + bytes_ + words, [-1000.0] * (4 + len(newlines) + 256) + [-float(i) for i in range(len(words))], types, 2, 1)


def block_q5_0(rng: random.Random) -> tuple[bytes, list[float]]:
    codes, scale = [rng.randrange(32) for _ in range(32)], 0.25
    high = sum((c >> 4) << i for i, c in enumerate(codes))
    packed = bytes((codes[i] & 15) | (codes[i + 16] & 15) << 4 for i in range(16))
    return struct.pack("<eI", scale, high) + packed, [(c - 16) * scale for c in codes]


def block_q4_k(rng: random.Random) -> tuple[bytes, list[float]]:
    scales, minima = ([rng.randrange(64) for _ in range(8)] for _ in range(2))
    codes, six = [rng.randrange(16) for _ in range(256)], bytearray(12)
    for i in range(4):
        six[i], six[4 + i] = scales[i] | (scales[4 + i] >> 4) << 6, minima[i] | (minima[4 + i] >> 4) << 6
        six[8 + i] = (scales[4 + i] & 15) | (minima[4 + i] & 15) << 4
    packed = bytes(codes[64 * g + i] | codes[64 * g + 32 + i] << 4 for g in range(4) for i in range(32))
    return struct.pack("<ee", 0.5, 0.125) + bytes(six) + packed, [0.5 * scales[n // 32] * c - 0.125 * minima[n // 32] for n, c in enumerate(codes)]


def block_q6_k(rng: random.Random) -> tuple[bytes, list[float]]:
    codes, scales = [rng.randrange(64) for _ in range(256)], [rng.randrange(-128, 128) for _ in range(16)]
    low, high = bytearray(128), bytearray(64)
    for half in range(2):
        for i in range(128):
            c = codes[128 * half + i]
            low[64 * half + i % 64] |= (c & 15) << (4 if i >= 64 else 0)
            high[32 * half + i % 32] |= (c >> 4) << 2 * (i // 32)
    return bytes(low + high) + struct.pack("<16be", *scales, 0.5), [0.5 * scales[n // 16] * (c - 32) for n, c in enumerate(codes)]


class Blocks(unittest.TestCase):
    def test_packed_values_come_back(self):
        rng = random.Random(1)
        for make, decode, size in ((block_q5_0, dequantize_q5_0, 32), (block_q4_k, dequantize_q4_k, 256), (block_q6_k, dequantize_q6_k, 256)):
            made = [make(rng) for _ in range(6)]
            got = decode(b"".join(raw for raw, _ in made), (2, 3 * size))
            np.testing.assert_allclose(got, np.array([v for _, v in made]).reshape(2, -1), rtol=1e-6, atol=1e-6, err_msg=make.__name__)


class Tokens(unittest.TestCase):
    def test_merges_by_score_and_whole_newlines(self):
        tok = pieces()
        shown = lambda text: [tok.tokens[i] for i in tok.encode(text)]
        self.assertEqual(shown("the null"), ["the", SPACE + "null"])
        self.assertEqual(shown("in\n\n\nthere"), ["in", "\n\n\n", "the", "r", "e"])
        self.assertEqual(shown("  é"), [SPACE, SPACE, "<0xC3>", "<0xA9>"])
        self.assertEqual(shown("<table>"), ["<0x3C>", "t", "a", "b", "l", "e", "<0x3E>"])  # spelled by a user
        for text in ("the null is\n\nthere: é", "  two  spaces "):
            self.assertEqual(tok.decode(tok.encode(text)), text)

    def test_a_prompt_is_a_plain_text(self):
        tok = pieces()
        sample = Sample("Answer.", "The barge is in.", [Branch("Is it?", "null", "x"), Branch("What?", "The barge", "x")], text_weight=0.0)
        tree = encode_tree(tok, sample)
        for n, b in enumerate(sample.branches, start=1):
            ids = [i for i, branch in zip(tree.ids, tree.branch) if branch in (0, n)]
            whole = [tok.bos] + tok.encode(f"Answer.\n\nThe barge is in.\n\nQuestion: {b.question}\nAnswer:")
            self.assertEqual(ids, whole + tok.encode(b.answer))
            labels = [label for label, weight, branch in zip(tree.label, tree.weight, tree.branch) if branch == n and weight > 0]
            self.assertEqual(labels, tok.encode(b.answer) + [tok.stop])
        ended = encode_tree(tok, Sample("Answer.", "The barge is in.\n", [Branch("Is it?", "null", "x")]))
        self.assertEqual(ended.ids, [tok.bos] + tok.encode("Answer.\n\nThe barge is in.\n\n\nQuestion: Is it?\nAnswer:") + tok.encode("null"))
        bare = encode_tree(tok, Sample("Answer.", None, [Branch("Is it?", "null", "x")]))
        self.assertEqual(bare.ids, [tok.bos] + tok.encode("Answer.\n\n\n\nQuestion: Is it?\nAnswer:") + tok.encode("null"))


def write_tiny(path: Path) -> None:
    """Six layers, the last of which sees all; a window of eight."""
    from train.gemma import _NAMES
    from train.model import Config, Decoder
    tok = pieces()
    c = Config(vocab=len(tok.tokens), dim=64, layers=6, heads=2, kv_heads=1, head_dim=32, hidden=96, rope_theta=1e6, eps=1e-6, gemma=True, window=8, full_every=6, window_theta=1e4)
    model, g = Decoder(c, seed=3), torch.Generator().manual_seed(5)
    with torch.no_grad():
        for name in ("o", "down"):
            getattr(model, name).normal_(0, 0.1, generator=g)
        for name in ("attn_norm", "attn_post_norm", "q_norm"):
            getattr(model, name).normal_(1, 0.2, generator=g)
        model.embedding.mul_(5)
    keys = dict(embedding_length=64, block_count=6, feed_forward_length=96, context_length=4096)
    attention = dict(head_count=2, head_count_kv=1, key_length=32, value_length=32, sliding_window=8)
    metadata = {"general.architecture": "gemma3", **{f"gemma3.{k}": U32(v) for k, v in keys.items()}, **{f"gemma3.attention.{k}": U32(v) for k, v in attention.items()},
                "gemma3.attention.layer_norm_rms_epsilon": 1e-6, "gemma3.rope.freq_base": 1e6, "tokenizer.ggml.model": "llama", "tokenizer.ggml.pre": "default",
                "tokenizer.ggml.tokens": tok.tokens, "tokenizer.ggml.scores": tok.scores, "tokenizer.ggml.token_type": tok.types,
                "tokenizer.ggml.bos_token_id": U32(2), "tokenizer.ggml.eos_token_id": U32(1), "tokenizer.ggml.unknown_token_id": U32(3),
                "tokenizer.ggml.padding_token_id": U32(0), "tokenizer.ggml.add_bos_token": True, "tokenizer.ggml.add_space_prefix": False}
    tensors = {"token_embd.weight": model.embedding.detach().numpy(), "output_norm.weight": model.final_norm.detach().numpy()}
    for i in range(c.layers):
        tensors |= {f"blk.{i}.{theirs}.weight": getattr(model, ours)[i].detach().numpy() for ours, theirs in _NAMES.items()}
    write_gguf(path, metadata, tensors)


@unittest.skipIf(torch is None, "no PyTorch here: pip install torch")
class Network(unittest.TestCase):
    def setUp(self):
        torch.set_num_threads(1)
        stack = contextlib.ExitStack()
        self.folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        self.addCleanup(stack.close)
        self.model = self.folder / "tiny.gguf"
        write_tiny(self.model)

    def test_streams_and_rows_see_the_same(self):
        from train.decode import Streams
        from train.model import Visibility
        from train.prune import load_large
        model = load_large(self.model, None)
        ids = torch.randint(10, model.c.vocab, (2, 40), generator=torch.Generator().manual_seed(1))
        zero, pos = torch.zeros_like(ids), torch.arange(40)[None].expand(2, -1)
        mask = Visibility(model.c, 2, 40, torch.device("cpu"))(dict(doc=zero, branch=zero, step=zero, pos=pos))
        self.assertEqual([int(m[0, 0, 39].sum()) for m in mask], [40, 8])
        with torch.no_grad():
            rows = model.hidden(ids, pos, mask, torch.float32) @ model.embedding.T
            wide = model.hidden(ids, pos, [mask[0], mask[0]], torch.float32) @ model.embedding.T
            streams, pad = Streams(model, 2, 43, torch.float32), torch.tensor([3, 3])
            fed = streams.feed(torch.nn.functional.pad(ids[:, :38], (3, 0)), pad, 0)
            torch.testing.assert_close(fed, rows[:, 37], atol=1e-4, rtol=1e-4)
            streams.feed(ids[:, 38:39], pad, 41)
            torch.testing.assert_close(streams.feed(ids[:, 39:], pad, 42), rows[:, 39], atol=1e-4, rtol=1e-4)
        self.assertGreater((wide - rows)[:, 39].abs().max().item(), 1e-2)
        torch.testing.assert_close(wide[:, :8], rows[:, :8])

    def test_logits_in_columns_are_the_same_loss(self):
        from train.model import Visibility
        from train.prune import load_large
        model, g = load_large(self.model, None), torch.Generator().manual_seed(1)
        draw = lambda high, *shape: torch.randint(0, high, shape, generator=g)
        zero = torch.zeros(2, 32, dtype=torch.int64)
        batch = dict(ids=draw(model.c.vocab, 2, 32), pos=torch.arange(32)[None].expand(2, -1), doc=zero, branch=zero, step=zero, at=draw(32, 2, 12),
                     label=draw(model.c.vocab, 2, 12), weight=torch.rand(2, 12, generator=g))
        mask = Visibility(model.c, 2, 32, torch.device("cpu"))(batch)
        whole = model(batch, mask, torch.float32)
        model.columns = 5
        for a, b in zip(whole, model(batch, mask, torch.float32)):
            torch.testing.assert_close(a, b)

    @unittest.skipIf("BANYAN" not in os.environ, "needs BANYAN")
    def test_the_engine_has_the_same_tokens_and_logits(self):
        from eval.banyan import Engine
        from train.decode import complete
        from train.prune import load_large
        from train.tokenizer import load_tokenizer
        tok, engine = load_tokenizer(self.model), Engine(os.environ["BANYAN"], str(self.model))
        texts = ["The barge is in.\n\n\nthe null-s,  two  spaces é", "It is the\n\nQuestion: in the an?\nAnswer:"]
        got = engine.ids([dict(kind="tokenize", text=t, add_special=True, parse_special=False) for t in texts])
        self.assertEqual([o["ids"] for o in got], [[tok.bos] + tok.encode(t) for t in texts])
        prompts = [o["ids"] for o in got]
        want = [made for made, _ in complete(load_large(self.model, None), prompts, 12, tok.stop, torch.float32)]
        answers = engine.ids([dict(kind="greedy", ids=p, max_new=12, stop=[tok.stop]) for p in prompts])
        self.assertEqual([[t for t in o["tokens"] if t != tok.stop] for o in answers], want)


if __name__ == "__main__":
    unittest.main()
