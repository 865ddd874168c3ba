"""The trainer of adapters for all tasks: the frozen network with its adapter, layouts of prompts and slots, greedy
answers in passes, frozen sets. What needs PyTorch or the program is skipped without it."""

from __future__ import annotations

import json
import os
import random
import tempfile
import unittest
from pathlib import Path

import numpy as np

from train.encode import encode_tree
from train.export import gguf_metadata, gguf_tensors
from train.extract_layout import Laid, Slot
from train.extract_records import Attribute, Record
from train.gguf import Q8_0, read_gguf, tensor_table, write_gguf
from train.lexicon import TRAIN, Lexicon
from train.sample import DEFAULT_INSTRUCTION, Branch, Sample
from train.task_documents import with_currency
from train.task_encode import asked_parts, encode_asked, encode_in_sequence, encode_laid, last_cut, slot_runs
from train.tests.torch_here import torch
from train.tokenizer import Tokenizer, words_pattern

ROOT = Path(__file__).parents[2]
TOK = Tokenizer.load(ROOT / "train" / "tokenizer")
ROOM = dict.fromkeys(("text", "number", "integer", "boolean", "date", "enum", "list", "items"), 8)
LAID = Laid(
    "a",
    "x",
    "<|im_start|>user\nThe red mill of Anna.<|im_end|>\n<|im_start|>assistant\n",
    [
        Slot('{"colour":', '"red"', ",\n", "text"),
        Slot(',\n"owner":', None, ",\n", "text"),
        Slot(',\n"age":', "null", "}", "text"),
    ],
)


class Layouts(unittest.TestCase):
    def test_qwen2_words(self):
        """Line breaks stay with the punctuation before them, digits are alone, a letter takes any sign before it."""
        found = words_pattern("qwen2").findall("It's 42 km.\n\nQuestion: (who)?  Über²")
        self.assertEqual(
            found, ["It", "'s", " ", "4", "2", " km", ".\n\n", "Question", ":", " (", "who", ")?", " ", " Über", "²"]
        )

    def test_a_cut_lies_between_words(self):
        self.assertEqual(last_cut("a mill, 1840 built"), len("a mill, 1840"))
        self.assertEqual(last_cut("1840"), 0)

    def test_branches_are_whole_prompts(self):
        """A branch with what all share is the prompt of its question, tokenised at once."""
        context, questions = "Anna built the mill. It is red.", ["Who built it?", "Which colour is it?"]
        shared, rest = asked_parts(TOK, DEFAULT_INSTRUCTION, context, questions)
        for q, r in zip(questions, rest):
            text = f"<|im_start|>system\n{DEFAULT_INSTRUCTION}<|im_end|>\n<|im_start|>user\n{context}\n\nQuestion: {q}"
            self.assertEqual(shared + r, TOK.encode_chat(text + "<|im_end|>\n<|im_start|>assistant\n"))

    def test_answers_are_the_labels(self):
        sample = Sample(
            DEFAULT_INSTRUCTION, "Anna built the mill.", [Branch("Who?", "Anna", "x"), Branch("When?", "null", "x")]
        )
        for made in (encode_asked(TOK, sample, False), encode_asked(TOK, sample, True)):
            for number, b in enumerate(sample.branches, start=1):
                labels = [l for l, w, n in zip(made.label, made.weight, made.branch) if n == number and w > 0]
                self.assertEqual(labels, TOK.encode(b.answer) + [TOK.im_end])
        self.assertEqual(encode_asked(TOK, sample, True).ids, encode_tree(TOK, sample).ids)

    def test_slots_have_gaps_and_steps(self):
        made = encode_laid(TOK, LAID, ROOM)
        first, second = (TOK.encode(s.piece) for s in LAID.slots[:2])
        prompt = len(TOK.encode_chat(LAID.prompt))
        value = slot_runs(TOK, LAID.slots[0])[1]
        at = prompt + len(first)
        self.assertEqual(made.label[at - 1 : at + len(value) - 1], value)
        self.assertEqual(made.step[at : at + len(value) - 1], list(range(1, len(value))))
        self.assertEqual(made.pos[at + len(value) - 1], prompt + len(first) + ROOM["text"])  # the next piece
        begin = at + len(value) - 1  # a slot without a label is neither fed nor predicted
        self.assertEqual(made.ids[begin : begin + len(second)], second)
        self.assertEqual(set(made.label[begin : begin + len(second)]), {-1})
        self.assertEqual(len(made.answers), 2)

    def test_a_sequence_teaches_values_alone(self):
        made = encode_in_sequence(TOK, LAID)
        labels = [l for l in made.label if l >= 0]
        self.assertIn('"red"', TOK.decode(labels))
        self.assertNotIn("owner", TOK.decode(labels))
        self.assertTrue(TOK.decode(labels).rstrip("}").endswith("null"))

    def test_the_currency_is_that_of_the_page(self):
        found = set()
        for seed in range(60):
            lex = Lexicon(random.Random(seed), TRAIN)
            r = Record("a", "x", "TOTAL GBP 13.70", [Attribute("total", "number", "number")], ["13.70"])
            made = with_currency(lex, r)
            for a, v in zip(made.attributes, made.values):
                if a.name != "total":
                    found.add(v)
                    self.assertTrue(v == "GBP" or v is None and a.type == "enum" and "GBP" not in a.words)
        self.assertIn("GBP", found)


@unittest.skipIf(torch is None, "no PyTorch 2.9 here: pip install torch")
class Network(unittest.TestCase):
    def setUp(self):
        from train.model import Config, Decoder

        torch.set_num_threads(1)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.config = Config(dim=64, layers=2, heads=4, kv_heads=2, head_dim=16, hidden=96, eps=1e-5)
        self.whole = Decoder(self.config, seed=3)
        with torch.no_grad():
            for name in ("o", "down"):
                getattr(self.whole, name).normal_(0, 0.1, generator=torch.Generator().manual_seed(5))
        self.file = self.folder / "model.gguf"
        arrays = {n: p.detach().numpy() for n, p in self.whole.named_parameters()}
        c = self.config.as_dict()
        write_gguf(self.file, gguf_metadata(c, TOK), gguf_tensors(c, arrays), Q8_0)

    def model(self, rank: int = 4):
        from train.lora_model import LoraModel

        made = LoraModel(self.file, rank, 2 * rank, torch.device("cpu"), torch.float32)
        with torch.no_grad():
            for n, p in made.named_parameters():
                if n.endswith("_b"):
                    p.normal_(0, 0.05, generator=torch.Generator().manual_seed(7))
        return made

    def test_tensors_one_by_one_are_those_of_the_file(self):
        table, whole = tensor_table(self.file), read_gguf(self.file)[1]
        self.assertEqual(list(table), list(whole))
        for name, x in whole.items():
            np.testing.assert_array_equal(table[name](), x)

    def test_the_adapter_adds_what_a_merged_one_adds(self):
        """The saved adapter, merged by `train.large_model` into the same file, gives the same hidden states."""
        from train.large_model import load_large
        from train.lora_model import load_adapter, save_adapter

        model = self.model()
        size = save_adapter(model, self.folder / "adapter", "x")
        self.assertLess(abs(size - model.c.adapter_bytes(4)), 8000)
        load_adapter(model, self.folder / "adapter")  # bf16, as it is saved
        merged = load_large(self.file, self.folder / "adapter")
        ids = torch.tensor([TOK.encode("The red mill stands by the river.")], dtype=torch.int32)
        n = ids.shape[1]
        pos, mask = torch.arange(n, dtype=torch.int32)[None], torch.ones(1, 1, n, n).tril().bool()
        with torch.no_grad():
            ours, theirs = model.hidden(ids, pos, mask), merged.hidden(ids, pos, mask, torch.float32)
        self.assertLess((ours - theirs).abs().max().item(), 2e-4 * theirs.abs().max().item())
        plain = load_large(self.file, None)
        with torch.no_grad():
            self.assertGreater((ours - plain.hidden(ids, pos, mask, torch.float32)).abs().max().item(), 0.01)

    def test_the_rank_fills_the_file(self):
        from train.lora_model import Shape, largest_rank

        qwen15 = Shape("qwen2", 151936, 1536, 28, 12, 2, 128, 8960, 1e6, 1e-6)
        self.assertEqual(largest_rank(qwen15, 20_000_000), 8)
        self.assertLess(qwen15.adapter_bytes(8), 20_000_000)
        self.assertEqual(largest_rank(qwen15, 5_000_000), 2)

    def test_another_rank_is_refused(self):
        from train.lora_model import load_adapter, save_adapter

        save_adapter(self.model(4), self.folder / "adapter", "x")
        with self.assertRaisesRegex(ValueError, "expected rank 2, found 4"):
            load_adapter(self.model(2), self.folder / "adapter")

    def test_passes_give_what_one_token_after_another_gives(self):
        from train.task_scores import MOST, Answers, items_of

        model = self.model()
        rows = [
            dict(
                set="s",
                id=str(k),
                context=f"Anna number {k} built the mill in 18{k}0.",
                questions=[
                    dict(id="a", question="Who built it?", answers=["Anna"]),
                    dict(id="b", question="When?", answers=[]),
                ],
            )
            for k in range(3)
        ]
        items = items_of(TOK, rows)
        answers = Answers(model, TOK, 2, 256)
        answers.write(items)
        self.assertEqual(answers.skipped, 0)
        for item in items:
            for part in item.parts:
                self.assertTrue(part.settled)
                ids = item.prompt + part.tokens
                made = []
                while len(made) < MOST and (not made or made[-1] != TOK.im_end):
                    x = torch.tensor([ids + made], dtype=torch.int32)
                    n = x.shape[1]
                    with torch.no_grad():
                        h = model.hidden(
                            x, torch.arange(n, dtype=torch.int32)[None], torch.ones(1, 1, n, n).tril().bool()
                        )
                        made.append(int((h[0, -1] @ model.head.T).argmax()))
                self.assertEqual(part.made, made)

    def test_a_run_learns_saves_and_goes_on(self):
        """Two steps, then two more from the checkpoint; the loss falls and the log says where it went on."""
        import lzma

        from train.adapter import Run, arguments

        texts, documents = self.folder / "texts.jsonl.xz", self.folder / "documents.jsonl.xz"
        row = dict(
            source="x",
            split="train",
            article="x",
            text="Anna built the red mill.",
            asked=[["Who built it?", "Anna", 1.0, ["Anna"]]],
        )
        laid = dict(id="a", source="x", prompt=LAID.prompt, held=False, text="")
        laid["slots"] = [[s.piece, s.value, s.after, s.type] for s in LAID.slots]
        measured = self.folder / "measured.jsonl.xz"
        asked = dict(
            set="s", id="a", context="Anna built it.", questions=[dict(id="q", question="Who?", answers=["Anna"])]
        )
        for path, r in ((texts, row), (documents, laid), (measured, asked)):
            with lzma.open(path, "wt") as f:
                f.write(json.dumps(r) + "\n")
        command = f"--model {self.file} --texts {texts} --documents {documents} --out {self.folder}/out --base-name x"
        command += " --rows 1 --length 512 --predicted 128 --rank 4 --rate 0.01 --warmup 1 --seconds 500 --workers 1"
        command += f" --shares 0 0 0 --say-every 0 --device cpu --measured {measured} --steps "
        for steps in ("2", "4"):
            run = Run(arguments().parse_args((command + steps).split()))
            run.measure("before", 60)
            run.train()
            run.measure("after", 60)
            run.finish()
        log = [json.loads(line) for line in (self.folder / "out" / "log.jsonl").read_text().splitlines()]
        self.assertIn(2, [r.get("resumed_at") for r in log])
        losses = [r["loss"] for r in log if "loss" in r]
        self.assertEqual(len(losses), 4)
        self.assertLess(losses[-1], losses[0])
        made = json.loads((self.folder / "out" / "run.json").read_text())
        self.assertEqual((made["steps"], made["settings"]["rank"]), (4, 4))
        self.assertEqual((made["before"]["s"]["questions"], made["after"]["unsettled"]), (1, 0))
        self.assertTrue((self.folder / "out" / "adapter" / "adapter_model.safetensors").exists())


@unittest.skipIf(torch is None, "no PyTorch 2.9 here: pip install torch")
class Scores(unittest.TestCase):
    def test_values_mean_the_gold_ones(self):
        from train.task_scores import same_value

        for made, gold, kind, same in (
            ("£2,131.20", 2131.2, "number", True),
            ("1.776,00 €", 1776, "number", True),
            ("1,860", 1860, "number", True),
            ("3.5 kg", 3.5, "number", True),
            ("4 March 2024", "2024-03-04", "date", True),
            ("23/11/2023", "2023-11-23", "date", True),
            ("3. März 2024", "2024-03-03", "date", True),
            ("March 2024", "2024-03-04", "date", False),
            (None, None, "text", True),
            ("x", None, "text", False),
            (None, "x", "text", False),
            ("The Mill", ["mill", "a house"], "text", True),
            (["a b", "c"], ["C", "a b"], "list", True),
            (True, True, "boolean", True),
        ):
            with self.subTest(made=made, gold=gold):
                self.assertEqual(same_value(made, gold, kind), same)


@unittest.skipUnless(os.environ.get("BANYAN"), "BANYAN names no program: prompts are not compared with the engine's")
class Program(unittest.TestCase):
    def test_prompts_are_the_engines(self):
        from eval.banyan import Engine
        from train.tokenizer import load_tokenizer

        model = ROOT / "models" / "banyan-reader-34m.gguf"
        tok, engine = load_tokenizer(model), Engine(os.environ["BANYAN"], str(model))
        records = [json.loads(line) for line in (ROOT / "eval" / "samples" / "natural.jsonl").open(encoding="utf-8")][
            :4
        ]
        for r in records:
            questions = [q["question"] for q in r["questions"]]
            shared, rest = asked_parts(tok, DEFAULT_INSTRUCTION, r["context"], questions)
            before, between, after = engine.prompt_parts([DEFAULT_INSTRUCTION])[0]
            whole = engine.tokenize([before + r["context"] + between + q + after for q in questions])
            self.assertEqual([shared + x for x in rest], whole)


if __name__ == "__main__":
    unittest.main()
