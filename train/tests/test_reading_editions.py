"""The readers' new editions on a tiny model: texts that leave out what is measured, arrangements that are true, LoRA
that is what PEFT's file says, a leg that stops, goes on and exports. Trainer tests are skipped where torch is
missing."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import lzma
import os
import random
import subprocess
import tempfile
import unittest
from dataclasses import asdict
from pathlib import Path

import numpy as np

from train import reading_texts
from train.export import gguf_metadata, gguf_tensors
from train.gguf import read_gguf, write_gguf
from train.lexicon import TRAIN, Lexicon
from train.reading_mixture import ReadingMixture, letter_choice, yes_no
from train.reading_texts import Excluded, TextRow
from train.sample import DEFAULT_INSTRUCTION, Branch, Sample
from train.tests.torch_here import torch
from train.tokenizer import Tokenizer, load_tokenizer

ROOT = Path(__file__).parents[2]
TOKENIZER = ROOT / "train" / "tokenizer"
PLACES = ("Aldham", "Burwell", "Cromer", "Denton", "Elford", "Fenwick", "Garford", "Holt")


def rows() -> list[TextRow]:
    out = []
    for n, place in enumerate(PLACES):
        text = (
            f"The mill at {place} was built in 18{40 + n} by Ruth {place}son. It burned down in 19{10 + n}, and Henry"
            f" Kemp sold the land to a farmer for {300 + n} pounds. Nothing is left of it but a low wall near the road,"
            " where the children of the village wait for the bus in the morning."
        )
        asked = [
            ["Who built the mill?", f"Ruth {place}son", 1.0, [f"Ruth {place}son"]],
            ["When was the mill built?", f"18{40 + n}", 1.0, [f"18{40 + n}"]],
            ["Who repaired the roof?", "null", 1.0, []],
        ]
        out.append(TextRow("squad_train", "held" if n == 7 else "train", "squad_train-Mills", text, asked))
    gold = [
        ["Ruth Kemp was born in Holt.", True],
        ["The mill was built by Ruth Kemp.", True],
        ["A barge left the quay.", False],
    ]
    out.append(
        TextRow(
            "musique_train",
            "train",
            "musique_train",
            "",
            [["Where was the mill's builder born?", "Holt", 1.0, ["Holt"]]],
            gold,
        )
    )
    out.append(
        TextRow("ewt", "train", "ewt", "Dear Ruth, the barge leaves at nine on Friday. Bring the keys. " * 4, [])
    )
    return out


def write_rows(path: Path) -> Path:
    with lzma.open(path, "wt") as f:
        f.writelines(json.dumps(asdict(r)) + "\n" for r in rows())
    return path


class Texts(unittest.TestCase):
    def test_what_is_measured_is_left_out(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            words = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen"
            (folder / "a.jsonl").write_text(
                json.dumps(
                    dict(id=1, context=words, questions=[dict(id="q", question="How many words are there here?")])
                )
                + "\n"
            )
            excluded = Excluded([folder])
            self.assertTrue(excluded.has_text("Before: " + words.upper().replace(" ", ", ")))
            self.assertFalse(excluded.has_text(" ".join(words.split()[:12]) + " and others"))
            self.assertTrue(excluded.has_question("how many words are there HERE"))
            b = reading_texts.Builder(excluded, 1)
            record = lambda text, question: dict(
                id="squad_train-X-1", context=text, questions=[dict(question=question, answers=["Ruth Kemp"])]
            )
            b.contexts(
                "squad_train",
                [
                    record(words + " Ruth Kemp", "Who?"),
                    record("Ruth Kemp sang.", "How many words are there here?"),
                    record("Ruth Kemp sang.", "Who sang?"),
                ],
                1.0,
            )
            self.assertEqual(
                [(r.text, [a[0] for a in r.asked]) for r in b.rows.values()], [("Ruth Kemp sang.", ["Who sang?"])]
            )
            self.assertEqual(dict(b.left_out), {"squad_train: text": 1, "squad_train: question": 1})

    @unittest.skipUnless(
        os.environ.get("READING_TEXTS") and os.environ.get("READING_EXCLUDED"),
        "READING_TEXTS and READING_EXCLUDED name no files: the real texts are not compared",
    )
    def test_the_real_texts_share_nothing_with_the_measured_ones(self):
        excluded = Excluded([*map(Path, os.environ["READING_EXCLUDED"].split(":")), ROOT / "eval" / "samples"])
        self.assertGreater(len(excluded.grams), 100_000)
        for row in reading_texts.load_rows(Path(os.environ["READING_TEXTS"])):
            self.assertFalse(
                any(excluded.has_text(t) for t in [row.text, *(d[0] for d in row.documents)]), row.text[:80]
            )
            self.assertFalse(any(excluded.has_question(a[0]) for a in row.asked), row.asked)


class Arrangements(unittest.TestCase):
    def test_every_arrangement_is_true(self):
        with tempfile.TemporaryDirectory() as name:
            mixture = ReadingMixture(write_rows(Path(name, "t.xz")), shares=(0.0, 0.0, 0.0))
            lex, seen = Lexicon(random.Random(3), TRAIN), set()
            for _ in range(1500):
                s = mixture(lex, 1.0)
                self.assertNotIn("Holtson", s.context or "")  # held out
                for b in s.branches:
                    seen.add(b.task)
                    if b.task == "choice":
                        self.assertIn(f"\n{b.answer}. ", b.question)
                        self.assertTrue(b.question.endswith("\nAnswer with the letter."))
                    elif b.task == "yesno":
                        self.assertIn(b.answer, ("yes", "no"))
                    elif b.answer != "null":
                        self.assertIn(b.answer, s.context)
                    elif s.context and b.question == "Where was the mill's builder born?":
                        self.assertNotIn("Holt", s.context)
            self.assertLessEqual(
                {
                    "squad_train",
                    "squad_train-null",
                    "joined",
                    "joined-null",
                    "prior-null",
                    "denied-null",
                    "expert",
                    "expert-null",
                    "hops",
                    "yesno",
                },
                seen,
            )

    def test_templates_ask_no_question_that_is_measured(self):
        from unittest import mock

        mixture, lex = ReadingMixture(Path("none")), Lexicon(random.Random(5), TRAIN)
        asked = [b.question for _ in range(5) for b in mixture.everyday(lex).branches]
        again = Lexicon(random.Random(5), TRAIN)
        with mock.patch("train.reading_mixture.measured_questions", return_value={reading_texts.digest(asked[0])}):
            self.assertNotIn(asked[0], [b.question for b in mixture.everyday(again).branches])
        self.assertGreater(len(reading_texts.measured_questions()), 100)

    def test_choices_and_statements(self):
        lex = Lexicon(random.Random(1), TRAIN)
        made = letter_choice(lex, "When?", "1840", ["1840", "1910", "a farmer"])
        self.assertIn(
            made.question,
            ("When?\nA. 1840\nB. 1910\nAnswer with the letter.", "When?\nA. 1910\nB. 1840\nAnswer with the letter."),
        )
        self.assertIsNone(letter_choice(lex, "When?", "1840", ["a farmer"]))
        self.assertEqual(yes_no(lex, "When was the mill built?", "1840", []).question, "Was the mill built in 1840?")
        self.assertEqual(
            yes_no(lex, "Who sold the land?", "Henry", []).question, "Is it true that Henry sold the land?"
        )


@unittest.skipUnless(os.environ.get("BANYAN"), "BANYAN names no program: prompts are not compared with ask's")
class Prompts(unittest.TestCase):
    def test_prompts_are_those_of_ask(self):
        """Text for text by --show-prompt, and token for token by the engine's tokenizer; a tree's branch is what a
        question alone is."""
        from eval.banyan import Engine
        from train.encode import encode_tree

        model, row = str(ROOT / "models" / "banyan-reader-34m.gguf"), rows()[0]
        choice = letter_choice(Lexicon(random.Random(1), TRAIN), "When was the mill built?", "1840", ["1910"])
        options = [line[3:] for line in choice.question.split("\n")[1:3]]
        branches = [Branch(row.asked[0][0], row.asked[0][1], "x"), choice]
        questions = [
            dict(id="0", question=row.asked[0][0]),
            dict(id="1", question="When was the mill built?", choices=options),
        ]
        tok = load_tokenizer(Path(model))
        tree = encode_tree(tok, Sample(DEFAULT_INSTRUCTION, row.text, branches))
        with tempfile.TemporaryDirectory() as folder:
            shown = []
            for q in questions:
                Path(folder, "in.jsonl").write_text(json.dumps(dict(id="a", context=row.text, questions=[q])) + "\n")
                done = subprocess.run(
                    [
                        os.environ["BANYAN"],
                        "ask",
                        "-m",
                        model,
                        f"{folder}/in.jsonl",
                        "--choices",
                        "letter",
                        "--show-prompt",
                    ],
                    check=True,
                    capture_output=True,
                    text=True,
                )
                shown.append(done.stdout.split("\n", 1)[1].rstrip("\n") + "\n")
        want = Engine(os.environ["BANYAN"], model).tokenize(shown)
        for n, b in enumerate(branches, start=1):
            ids = [i for i, branch in zip(tree.ids, tree.branch) if branch in (0, n)]
            self.assertEqual(ids[: len(ids) - len(tok.encode(b.answer))], want[n - 1])


@unittest.skipIf(torch is None, "no PyTorch 2.9 here: pip install torch")
class Legs(unittest.TestCase):
    def setUp(self):
        from train.model import Config, Decoder

        torch.set_num_threads(1)
        stack = contextlib.ExitStack()
        self.folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        self.addCleanup(stack.close)
        config = Config(dim=64, layers=2, heads=3, kv_heads=1, head_dim=32, hidden=96, eps=1e-5)
        model = Decoder(config, seed=3)
        with torch.no_grad():
            for name in ("o", "down"):
                getattr(model, name).normal_(0, 0.1, generator=torch.Generator().manual_seed(5))
            model.embedding.mul_(20)
        self.model = self.folder / "large.gguf"
        write_gguf(
            self.model,
            gguf_metadata(config.as_dict(), Tokenizer.load(TOKENIZER)),
            gguf_tensors(config.as_dict(), {n: p.detach().numpy() for n, p in model.named_parameters()}),
        )
        self.texts = write_rows(self.folder / "texts.jsonl.xz")

    def leg(self, kind: str, *options: object):
        from train.reading_leg import Leg, arguments

        base = [
            "--as",
            kind,
            "--model",
            self.model,
            "--texts",
            self.texts,
            "--out",
            self.folder / kind,
            "--rows",
            1,
            "--length",
            1024,
            "--workers",
            1,
            "--shares",
            0,
            0.1,
            0,
            "--held",
            3,
            "--held-last",
            3,
            "--warmup",
            2,
            "--rank",
            4,
            "--alpha",
            8,
            "--rate",
            0.01,
        ]
        return Leg(arguments().parse_args([str(x) for x in (*base, *options)]))

    def test_an_adapter_is_trained_resumed_and_saved(self):
        from train.large_model import load_large
        from train.reading_held import as_it_runs

        with contextlib.redirect_stdout(io.StringIO()) as out:
            first = self.leg("lora", "--steps", 3)
            first.train()
            again = self.leg("lora", "--steps", 5)
            self.assertEqual(again.step, 3)
            again.train()
            again.finish()
        self.assertEqual(again.step, 5)
        self.assertIn('"resumed_at": 3', out.getvalue())
        merged, trained = load_large(self.model, self.folder / "lora" / "adapter"), as_it_runs(again.model)
        changed = (trained.down - load_large(self.model, None).down.detach()).abs().max().item()
        self.assertGreater(changed, 1e-3)
        for name in ("q", "k", "gate", "down"):
            np.testing.assert_allclose(
                getattr(merged, name).detach().numpy(), getattr(trained, name).numpy(), atol=0.02 * changed + 1e-4
            )
        rows = [json.loads(line) for line in (self.folder / "lora" / "calibration.jsonl").read_text().splitlines()]
        self.assertEqual({r["kind"] for r in rows}, {"squad_train"})
        self.assertEqual(sum(r["answerable"] for r in rows), 2)
        run = json.loads((self.folder / "lora" / "run.json").read_text())
        self.assertEqual((run["steps"], run["tokens"]), (5, 5 * 1024))

    def test_a_small_model_is_trained_against_its_file(self):
        from train.reading_held import as_it_runs

        with contextlib.redirect_stdout(io.StringIO()):
            leg = self.leg("small", "--steps", 3)
            leg.train()
            leg.finish()
        _, tensors = read_gguf(self.folder / "small" / "reader.gguf")
        np.testing.assert_allclose(tensors["blk.1.ffn_down.weight"], as_it_runs(leg.model).down[1].numpy(), atol=1e-5)

    def test_a_run_becomes_a_folder_with_a_card(self):
        from unittest import mock

        from train import reading_card

        with contextlib.redirect_stdout(io.StringIO()):
            leg = self.leg("lora", "--steps", 2)
            leg.train()
            leg.finish()
        table = {
            "`null` to all": dict(questions=4, exact=0.25, f1=0.25),
            "with adapter, --copy": dict(
                questions=4, exact=0.75, f1=0.8, intervals=dict(exact=[0.5, 1.0]), seconds=2.0
            ),
        }
        (self.folder / "ask.json").write_text(json.dumps(dict(natural=table, squad2=table)))
        (self.folder / "texts.json").write_text(
            json.dumps(
                dict(
                    rows={
                        "piaf, train": dict(texts=5, answered=7, null=2),
                        "doqa, held": dict(texts=1, answered=1, null=1),
                    }
                )
            )
        )
        models = self.folder / "models"
        models.mkdir()
        (models / "SHA256SUMS").write_text("0  reader/adapter_config.json\n")
        with (
            mock.patch(
                "sys.argv",
                [
                    "x",
                    "--result",
                    str(self.folder / "lora"),
                    "--texts",
                    str(self.folder / "texts.json"),
                    "--scores",
                    str(self.folder / "ask.json"),
                    "--to",
                    str(models / "reader"),
                ],
            ),
            contextlib.redirect_stdout(io.StringIO()),
        ):
            reading_card.main()
        card = (models / "reader" / "README.md").read_text()
        for part in (
            "Rank 4",
            "| with adapter, --copy | 75.0 (50–100) |",
            "| PIAF, French | MIT; text CC BY-SA | 5 | 7 | 2 |",
            "SQuAD, other articles",
            "DoQA",
        ):
            self.assertIn(part, card)
        self.assertNotIn("0  reader", (models / "SHA256SUMS").read_text()[:3])
        self.assertTrue((models / "reader" / "training.svg").read_text().startswith("<svg"))
        small = reading_card.card(
            (reading_card.CARDS / "banyan-reader-34m.md").read_text(),
            json.loads((self.folder / "lora" / "run.json").read_text()),
            dict(rows={}),
            dict(natural=table),
            19_400_000,
            True,
        )
        self.assertIn("it answers 75 right; `null` to every question gets 25.", small)
        self.assertIn("{context}", small)

    def test_certainties_are_those_of_the_model(self):
        from train.model import dense_mask
        from train.reading_held import HeldQuestion, read

        with contextlib.redirect_stdout(io.StringIO()):
            leg = self.leg("full", "--steps", 1)
        prompt = leg.tok.encode("The mill at Aldham was built")
        row = read(
            leg.model,
            leg.tok,
            [HeldQuestion("x", [], prompt, "", ""), HeldQuestion("x", ["a"], prompt[:3], "", "")],
            torch.float32,
        )[0]
        zero = torch.zeros(1, len(prompt), dtype=torch.int32)
        h = leg.model.hidden(
            torch.tensor([prompt]), torch.arange(len(prompt))[None], dense_mask(zero, zero, zero), torch.float32
        )
        want = (h[0, -1] @ leg.model.embedding.T).log_softmax(-1)[leg.tok.encode("null")[0]].item()
        self.assertAlmostEqual(row["null_logprob"], want, places=3)

    def test_the_large_model_asks_and_answers(self):
        from unittest import mock

        from train import reading_written

        with (
            mock.patch(
                "sys.argv",
                [
                    "x",
                    "--model",
                    str(self.model),
                    "--texts",
                    str(self.texts),
                    "--out",
                    str(self.folder / "written"),
                    "--tune-steps",
                    "2",
                    "--rows",
                    "1",
                    "--length",
                    "1024",
                    "--workers",
                    "1",
                    "--expansions",
                    "2",
                    "--batch",
                    "4",
                    "--questions",
                    "1",
                    "--sure",
                    "0",
                ],
            ),
            contextlib.redirect_stdout(io.StringIO()) as out,
        ):
            reading_written.main()
        self.assertIn('"done": true', out.getvalue())
        with gzip.open(self.folder / "written" / "0.jsonl.gz", "rt") as f:
            self.assertTrue(all(json.loads(line)["source"] == "written" for line in f))


if __name__ == "__main__":
    unittest.main()
