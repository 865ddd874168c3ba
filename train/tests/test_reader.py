"""Question data that is what it says, and prompts that are `ask`'s."""

from __future__ import annotations

import json
import os
import random
import subprocess
import tempfile
import unittest
from pathlib import Path

import numpy as np

from train import cloze, reader_data
from train.gguf import U32, dequantize_q4, write_gguf

ROOT = Path(__file__).parents[2]
TEXT = (
    "The castle was built by William Marshal in 1067. It stands near the village of Little Wenham. Two hundred years"
    " later, in 1267, Henry of Kent sold it for 300 marks. The tower is still used as a library by the people who live"
    " around it and by guests."
)


class Data(unittest.TestCase):
    def test_answers_stand_in_the_text_as_they_are_spelled_there(self):
        self.assertEqual(reader_data.find_answer(TEXT, ["HENRY of kent"])[1], "Henry of Kent")
        self.assertIsNone(reader_data.find_answer(TEXT, ["Wenha"]))  # a part of a word
        self.assertEqual(
            reader_data.find_answer(TEXT, ["1267", "in 1267", "in 1267"])[1], "in 1267"
        )  # what most people say

    def test_documents_are_in_one_split(self):
        self.assertTrue(reader_data.is_held("squad2", "squad2-Normans-001"))
        self.assertFalse(reader_data.is_held("squad2", "squad2-Huguenot-001"))
        held = sum(reader_data.is_held("drop", f"drop-{n}") for n in range(800))
        self.assertAlmostEqual(held / 800, 1 / 8, delta=0.04)

    def test_long_texts_are_cut_around_the_answer(self):
        long = " ".join(f"Sentence {i} is about nothing at all." for i in range(200)) + " " + TEXT
        for seed in range(20):
            cut = reader_data.stretch(random.Random(seed), long, long.index("Henry"))
            self.assertIn("Henry of Kent", cut)
            self.assertLess(len(cut.split()), reader_data.LONGEST_TEXT + 40)

    def test_cloze_questions_ask_for_a_span_and_can_be_denied(self):
        rng, answered, denied = random.Random(2), 0, 0
        pool = dict(name=["Maria Stone"], year=["1888"], number=["17"], date=["3 May 1900"])
        for _ in range(60):
            made = cloze.cloze(rng, rng.choice(cloze.sentences(TEXT)))
            if made is None:
                continue
            answered += 1
            self.assertIn(made.answer, made.sentence)
            self.assertNotIn(made.answer, made.question)
            self.assertTrue(made.question.endswith("?"))
            without = cloze.deny(rng, TEXT, made, pool)
            if without:
                denied += 1
                self.assertTrue(without[1] != made.question or made.answer not in without[0])
        self.assertGreater(answered, 10)
        self.assertGreater(denied, 5)

    def test_four_bit_blocks_are_decoded(self):
        codes = bytes((i | (15 - i) << 4) for i in range(16))
        raw = np.array([0.5, -2.0], "<f2").tobytes() + codes
        self.assertEqual(
            dequantize_q4(raw, (1, 32), True)[0].tolist(),
            [0.5 * i - 2 for i in range(16)] + [0.5 * (15 - i) - 2 for i in range(16)],
        )
        raw = np.array([0.5], "<f2").tobytes() + codes
        self.assertEqual(
            dequantize_q4(raw, (1, 32), False)[0].tolist(),
            [0.5 * (i - 8) for i in range(16)] + [0.5 * (7 - i) for i in range(16)],
        )


@unittest.skipUnless(os.environ.get("BANYAN"), "BANYAN names no program: prompts are not compared with ask's")
class Prompts(unittest.TestCase):
    def test_prompts_have_the_tokens_that_ask_gives_the_model(self):
        """As many tokens, and the log-probabilities of a whole answer (sums are cut elsewhere, so the last bits may
        differ)."""
        from eval.banyan import Engine
        from train.sample import DEFAULT_INSTRUCTION

        model, banyan = str(ROOT / "models" / "banyan-reader-34m.gguf"), os.environ["BANYAN"]
        asked = [
            (TEXT, "Who sold it?"),
            (TEXT, "  What stands near Little Wenham? "),
            (TEXT + "\n", "Ünïcode\n\nand 1267?"),
            ("  Odd   space. ", "x?"),
        ]
        engine = Engine(banyan, model)
        before, between, after = engine.prompt_parts([DEFAULT_INSTRUCTION])[0]
        tokens = engine.tokenize([before + context + between + question + after for context, question in asked])
        rows = engine.ids(
            [
                dict(kind="greedy", ids=t, max_new=12, stop=engine.tokenize(["<|im_end|>"])[0], logprobs=True)
                for t in tokens
            ]
        )
        with tempfile.TemporaryDirectory() as folder:
            records = [
                dict(id=str(n), context=c, questions=[dict(id="q", question=q)]) for n, (c, q) in enumerate(asked)
            ]
            Path(folder, "in.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
            subprocess.run(
                [
                    banyan,
                    "ask",
                    "-m",
                    model,
                    f"{folder}/in.jsonl",
                    "-o",
                    f"{folder}/out.jsonl",
                    "--max-new",
                    "12",
                    "--logprobs",
                    "--no-copy",
                    "--precision",
                    "f32",
                    "--quiet",
                ],
                check=True,
            )
            answers = {r["id"]: r for r in map(json.loads, Path(folder, "out.jsonl").read_text().splitlines())}
        for n, row in enumerate(rows):
            self.assertEqual(answers[str(n)]["prompt_tokens"], len(tokens[n]))
            given = answers[str(n)]["logprobs"]
            np.testing.assert_allclose(given, row["logprobs"][: len(given)], atol=2e-5)


def tiny_model(path: Path, vocabulary: int = 64) -> None:
    rng = np.random.default_rng(1)
    normal = lambda *shape: (rng.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32)
    tensors = {"token_embd.weight": normal(vocabulary, 32) * 4, "output_norm.weight": np.ones(32, np.float32)}
    for i in range(2):
        shapes = dict(
            attn_q=(32, 32),
            attn_k=(16, 32),
            attn_v=(16, 32),
            attn_output=(32, 32),
            ffn_gate=(64, 32),
            ffn_up=(64, 32),
            ffn_down=(32, 64),
        )
        tensors |= {f"blk.{i}.{name}.weight": normal(*shape) for name, shape in shapes.items()}
        tensors |= {f"blk.{i}.{name}.weight": np.ones(32, np.float32) for name in ("attn_norm", "ffn_norm")}
    write_gguf(
        path,
        {
            "general.architecture": "llama",
            "llama.embedding_length": U32(32),
            "llama.block_count": U32(2),
            "llama.feed_forward_length": U32(64),
            "llama.attention.head_count": U32(2),
            "llama.attention.head_count_kv": U32(1),
            "llama.context_length": U32(256),
            "llama.rope.dimension_count": U32(16),
            "llama.attention.layer_norm_rms_epsilon": 1e-5,
            "llama.rope.freq_base": 10000.0,
            "tokenizer.ggml.model": "gpt2",
            "tokenizer.ggml.pre": "gpt-2",
            "tokenizer.ggml.merges": ["a b"],
            "tokenizer.ggml.tokens": ["a", "b", "ab"] + [f"t{i}" for i in range(3, vocabulary)],
        },
        tensors,
    )


if __name__ == "__main__":
    unittest.main()
