"""The reading adapter: data that is what it says, prompts that are `ask`'s, a trainer that learns, stops and goes on."""
from __future__ import annotations

import contextlib
import io
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

try:
    import peft
    import torch
except ImportError:
    peft = torch = None

ROOT = Path(__file__).parents[2]
TEXT = ("The castle was built by William Marshal in 1067. It stands near the village of Little Wenham. Two hundred years later, in 1267, "
        "Henry of Kent sold it for 300 marks. The tower is still used as a library by the people who live around it and by guests.")


class Data(unittest.TestCase):
    def test_answers_stand_in_the_text_as_they_are_spelled_there(self):
        self.assertEqual(reader_data.find_answer(TEXT, ["HENRY of kent"])[1], "Henry of Kent")
        self.assertIsNone(reader_data.find_answer(TEXT, ["Wenha"]))  # a part of a word
        self.assertEqual(reader_data.find_answer(TEXT, ["1267", "in 1267", "in 1267"])[1], "in 1267")  # what most people say

    def test_documents_are_in_one_split(self):
        record = dict(id="squad2-Normans-001", context=TEXT, questions=[dict(id="q", question="Who sold it?", answers=["Henry of Kent"]), dict(id="r", question="Why?", answers=[])])
        made = reader_data.from_contexts(random.Random(1), "squad2", [record, dict(record, id="squad2-Huguenot-001")])
        self.assertEqual({(e.document, e.split) for e in made}, {("squad2-Normans-001", "held"), ("squad2-Huguenot-001", "train")})
        for e in made:
            self.assertTrue(e.answer in e.context if e.kind == "answer" else e.answer == "null" and (e.kind == "null" or "Henry of Kent" not in e.context))

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
        self.assertEqual(dequantize_q4(raw, (1, 32), True)[0].tolist(), [0.5 * i - 2 for i in range(16)] + [0.5 * (15 - i) - 2 for i in range(16)])
        raw = np.array([0.5], "<f2").tobytes() + codes
        self.assertEqual(dequantize_q4(raw, (1, 32), False)[0].tolist(), [0.5 * (i - 8) for i in range(16)] + [0.5 * (7 - i) for i in range(16)])


@unittest.skipUnless(os.environ.get("BANYAN"), "BANYAN names no program: prompts are not compared with ask's")
class Prompts(unittest.TestCase):
    def test_prompts_have_the_tokens_that_ask_gives_the_model(self):
        """As many tokens, and the log-probabilities of a whole answer (sums are cut elsewhere, so the last bits may differ)."""
        from eval.banyan import Engine
        from train.reader_tokens import prompts
        model, banyan = str(ROOT / "models" / "banyan-reader-34m.gguf"), os.environ["BANYAN"]
        asked = [(TEXT, "Who sold it?"), (TEXT, "  What stands near Little Wenham? "), (TEXT + "\n", "Ünïcode\n\nand 1267?"), ("  Odd   space. ", "x?")]
        engine = Engine(banyan, model)
        tokens = prompts(engine, asked)
        rows = engine.ids([dict(kind="greedy", ids=t, max_new=12, stop=engine.tokenize(["<|im_end|>"])[0], logprobs=True) for t in tokens])
        with tempfile.TemporaryDirectory() as folder:
            records = [dict(id=str(n), context=c, questions=[dict(id="q", question=q)]) for n, (c, q) in enumerate(asked)]
            Path(folder, "in.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
            subprocess.run([banyan, "ask", "-m", model, f"{folder}/in.jsonl", "-o", f"{folder}/out.jsonl", "--max-new", "12", "--logprobs", "--no-copy", "--precision", "f32", "--quiet"], check=True)
            answers = {r["id"]: r for r in map(json.loads, Path(folder, "out.jsonl").read_text().splitlines())}
        for n, row in enumerate(rows):
            self.assertEqual(answers[str(n)]["prompt_tokens"], len(tokens[n]))
            given = answers[str(n)]["logprobs"]
            np.testing.assert_allclose(given, row["logprobs"][:len(given)], atol=2e-5)


def tiny_model(path: Path, vocabulary: int = 64) -> None:
    rng = np.random.default_rng(1)
    normal = lambda *shape: (rng.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32)
    tensors = {"token_embd.weight": normal(vocabulary, 32) * 4, "output_norm.weight": np.ones(32, np.float32)}
    for i in range(2):
        shapes = dict(attn_q=(32, 32), attn_k=(16, 32), attn_v=(16, 32), attn_output=(32, 32), ffn_gate=(64, 32), ffn_up=(64, 32), ffn_down=(32, 64))
        tensors |= {f"blk.{i}.{name}.weight": normal(*shape) for name, shape in shapes.items()}
        tensors |= {f"blk.{i}.{name}.weight": np.ones(32, np.float32) for name in ("attn_norm", "ffn_norm")}
    write_gguf(path, {"general.architecture": "llama", "llama.embedding_length": U32(32), "llama.block_count": U32(2), "llama.feed_forward_length": U32(64),
                      "llama.attention.head_count": U32(2), "llama.attention.head_count_kv": U32(1), "llama.context_length": U32(256), "llama.rope.dimension_count": U32(16),
                      "llama.attention.layer_norm_rms_epsilon": 1e-5, "llama.rope.freq_base": 10000.0, "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2", "tokenizer.ggml.merges": ["a b"],
                      "tokenizer.ggml.tokens": ["a", "b", "ab"] + [f"t{i}" for i in range(3, vocabulary)]}, tensors)


def tiny_data(path: Path, count: int = 48) -> None:
    """The answer is the prompt's first token."""
    rng, tokens, begin, answer = random.Random(3), [], [0], []
    for _ in range(count):
        prompt = [rng.randrange(4, 20) for _ in range(rng.randint(4, 9))]
        answer.append(begin[-1] + len(prompt))
        tokens += prompt + [prompt[0], 2]
        begin.append(len(tokens))
    held = {n: dict(source="squad2", kind="answer", golds=[f"t{tokens[begin[n]]}"]) for n in range(40, count)}
    np.savez(path, tokens=np.array(tokens, np.uint32), begin=np.array(begin), answer=np.array(answer), train=np.arange(count) < 40, group=np.zeros(count, np.uint8),
             stop=np.array([2], np.uint32), held=np.frombuffer(json.dumps(held).encode(), np.uint8),
             vocabulary=np.frombuffer(json.dumps([f"t{i} " for i in range(64)]).encode(), np.uint8))


@unittest.skipIf(peft is None, "no PyTorch and PEFT here: pip install torch peft")
class Trainer(unittest.TestCase):
    def run_trainer(self, folder: str, *options: str):
        from train.reader_lora import Run, arguments
        torch.set_num_threads(1)
        base = ["--model", f"{folder}/m.gguf", "--data", f"{folder}/d.npz", "--device", "cpu", "--rank", "4", "--alpha", "8", "--dropout", "0", "--rate", "0.02",
                "--batch-tokens", "120", "--epochs", "6", "--say-every", "1000"]
        with contextlib.redirect_stdout(io.StringIO()):
            run = Run(arguments().parse_args([*base, *options]), torch)
        run.say = lambda **row: None
        return run

    def test_it_learns_and_a_resumed_run_is_the_whole_run(self):
        from train.reader_lora import save_adapter
        with tempfile.TemporaryDirectory() as folder:
            tiny_model(Path(folder, "m.gguf"))
            tiny_data(Path(folder, "d.npz"))
            whole = self.run_trainer(folder, "--out", f"{folder}/whole")
            first = self.loss(whole)
            whole.train()
            self.assertLess(self.loss(whole), 0.7 * first)
            part = self.run_trainer(folder, "--out", f"{folder}/part")
            plan, part.plan = part.plan, part.plan[:len(part.plan) // 2]
            part.rate = lambda: whole_rate(part, len(plan))
            part.train()
            rest = self.run_trainer(folder, "--out", f"{folder}/part", "--resume")
            self.assertEqual(rest.step, len(plan) // 2)
            part.rate = rest.rate = lambda: whole_rate(rest, len(plan))
            rest.train()
            whole_weights = [p.detach().numpy() for p in whole.trained]
            for a, b in zip(whole_weights, [p.detach().numpy() for p in rest.trained]):
                np.testing.assert_allclose(a, b, atol=2e-3)
            size = save_adapter(whole.model, torch, Path(folder, "adapter"), "tiny")
            self.assertGreater(size, 1000)
            config = json.loads(Path(folder, "adapter", "adapter_config.json").read_text())
            self.assertEqual((config["r"], config["lora_alpha"], config["peft_type"]), (4, 8, "LORA"))
            scores = whole.score(100)
            self.assertEqual(scores["squad2"]["questions"], 8)
            if os.environ.get("BANYAN"):
                self.compare_with_engine(folder, whole)

    def loss(self, run) -> float:
        from train.reader_lora import loss_of
        with torch.no_grad():
            return loss_of(run.model, torch, run.examples, run.examples.train, "cpu").item()

    def compare_with_engine(self, folder: str, run) -> None:
        """The engine with the saved adapter gives the trainer's logits, to what bf16 leaves of the adapter."""
        prompt = run.examples.prompt(41).tolist()
        with torch.no_grad():
            want = run.model(input_ids=torch.tensor([prompt])).logits[0, -1].numpy()
        done = subprocess.run([os.environ["BANYAN"], "ids", "-m", f"{folder}/m.gguf", "--adapter", f"{folder}/adapter"], check=True, capture_output=True, text=True,
                              input=json.dumps(dict(id="0", kind="logits", ids=prompt)) + "\n")
        got = np.array(json.loads(done.stdout)["last_logits"])
        self.assertLess(np.abs(got - want).max(), 0.03 * want.std() + 1e-3)


def whole_rate(run, steps: int) -> float:
    """The rate of a run of so many steps, whatever its plan's length."""
    from train.reader_lora import Run
    kept, run.plan = run.plan, [None] * steps
    try:
        return Run.rate(run)
    finally:
        run.plan = kept


if __name__ == "__main__":
    unittest.main()
