"""The folder of an adapter that ships, from a run's own files."""

from __future__ import annotations

import hashlib
import json
import random
import tempfile
import unittest
from pathlib import Path

import numpy as np

from train import adapter_card
from train.adapter_card import arguments, by_set, f1_with, left_out_errors, null_bias, points_of, write


def asked(name: str, text: int, n: int, sure: float, right: bool, null: bool = False, known: bool = True) -> dict:
    logprob = float(np.log(sure))
    return dict(
        set=name, id=f"{name}-{text}", question=str(n), answer="null" if null else "red", f1=float(right),
        exact=float(right), null=null, known=known, logprob=logprob, first=logprob, null_first=float(np.log1p(-sure)),
    )  # fmt: skip


def slot(name: str, text: int, kind: str, sure: float, right: bool, null: bool = False, known: bool = True) -> dict:
    logprob = float(np.log(sure))
    return dict(
        set=name, id=f"{name}-{text}", slot="a", type=kind, answer=None if null else "x", right=right, null=null,
        known=known, logprob=logprob, first=logprob,
    )  # fmt: skip


def honest(name: str, make, seed: int, count: int = 400) -> list[dict]:
    """Answers that are right as often as the model is sure."""
    rng = random.Random(seed)
    return [make(name, n // 4, n, p, rng.random() < p) for n in range(count) for p in [rng.uniform(0.05, 0.99)]]


def summary(rows: list[dict]) -> dict:
    """As `train.task_scores` writes it, without PyTorch."""
    out = {}
    for name in dict.fromkeys(r["set"] for r in rows):
        some = [r for r in rows if r["set"] == name]
        key = "f1" if "question" in some[0] else "right"
        mean = round(sum(r[key] for r in some) / len(some), 4)
        out[name] = {key: mean, "all_null": 0.0, "null_where_none": 0.25, "null_where_answer": 0.5}
    return out


class Confidence(unittest.TestCase):
    def test_a_set_is_judged_by_a_fit_without_it(self):
        sets = {n: honest(n, asked, seed) for seed, n in enumerate(("squad2", "natural", "hops"))}
        self.assertLess(left_out_errors(sets)[""], 0.05)
        # One that is always wrong where it is sure: the fit on the others cannot know, and the error says so.
        sets["odd"] = [asked("odd", n, 0, 0.97, False) for n in range(200)]
        found = left_out_errors(sets)
        self.assertGreater(found["odd"], 0.8)
        self.assertLess(found["natural"], 0.4)

    def test_one_set_cannot_be_left_out(self):
        with self.assertRaisesRegex(ValueError, "at least two sets of a task, found squad2"):
            left_out_errors({"squad2": [asked("squad2", 1, 0, 0.5, True)]})

    def test_titles_count_where_they_are_labelled(self):
        rows = [slot("titles", 1, "text", 0.5, False, known=False), slot("titles", 1, "text", 0.5, False, null=True)]
        self.assertEqual(points_of(rows), [])
        rows = [slot("everyday", 1, "date", 0.5, True), slot("titles", 1, "text", 0.5, True)]
        self.assertEqual([p[0] for p in points_of(rows)], ["date", "text"])


class NullBias(unittest.TestCase):
    def test_is_chosen_on_one_half_and_reported_on_the_other(self):
        # Where it is unsure there is no answer: null is better there, in both halves.
        rows = [asked("squad2", n, 0, 0.95, True) for n in range(60)]
        rows += [asked("squad2", n, 1, 0.55, False, known=False) for n in range(60)]
        found = null_bias(by_set(rows))
        self.assertEqual(found["bias"], 0.25)  # log-odds of 0.55 are 0.2
        self.assertEqual(found["chosen_on"]["questions"] + found["reported_on"]["questions"], 120)
        self.assertEqual((found["reported_on"]["plain"], found["reported_on"]["tried"]), (0.5, 1.0))

    def test_what_other_texts_lose_counts(self):
        rows = [asked("squad2", n, 1, 0.55, False, known=False) for n in range(60)]
        self.assertEqual(null_bias(by_set(rows))["bias"], 0.25)
        rows += [asked("english", n, 0, 0.55, True) for n in range(60)]
        self.assertEqual(null_bias(by_set(rows))["bias"], 0.0)

    def test_without_a_gain_it_is_0(self):
        rows = [asked("squad2", n, 0, 0.55, True) for n in range(60)]
        self.assertEqual(null_bias(by_set(rows))["bias"], 0.0)
        self.assertEqual(f1_with(rows, 0.0), 1.0)
        self.assertEqual(f1_with(rows, 1.0), 0.0)


class Folder(unittest.TestCase):
    def run_folder(self, folder: Path, size: int = 100) -> list[str]:
        run = folder / "run"
        (run / "adapter").mkdir(parents=True)
        (run / "adapter" / "adapter_model.safetensors").write_bytes(b"w" * size)
        (run / "adapter" / "adapter_config.json").write_text("{}")
        rows = honest("squad2", asked, 1) + honest("natural", asked, 2)
        rows += [
            slot(name, n // 4, "text", p, rng.random() < p)
            for name, rng in (("everyday", random.Random(3)), ("everyday-dev", random.Random(4)))
            for n in range(300)
            for p in [rng.uniform(0.05, 0.99)]
        ]
        (run / "after-answers.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
        scores = summary(rows)
        (run / "after.json").write_text(json.dumps(scores | dict(seconds=1, skipped=0, unsettled=0)))
        better = {n: dict(s) for n, s in scores.items()}
        better["everyday"]["right"] = 0.999
        (run / "before.json").write_text(json.dumps(better | dict(seconds=1, skipped=0, unsettled=7)))
        settings = dict(base_name="Maker/Base-1B", rank=8, rate=0.0004, extraction=0.45, null_weight=1.5, seed=9)
        ran = dict(settings=settings, files={"b.gguf": "ab12"}, device="a GPU", seconds=300, steps=12, tokens=4_000_000)
        (run / "run.json").write_text(json.dumps(ran))
        (run / "log.jsonl").write_text('{"step": 1}\n{"step": 2}\n')
        counts = {"squad_train, train": dict(texts=3, answered=4, null=5)}
        (folder / "texts.json").write_text(json.dumps(dict(rows=counts)))
        documents = dict(documents={"everyday stack": 6, "held everyday": 1}, held_kinds=["recette"])
        (folder / "documents.json").write_text(json.dumps(documents))
        lines = [dict(split="train", text="one two three four"), dict(split="held", text="five six seven eight")]
        (folder / "texts.jsonl").write_text("".join(json.dumps(r) + "\n" for r in lines))
        return [
            "--run", str(run), "--to", str(folder / "models" / "base-reader"), "--model", "base-1b", "--texts",
            str(folder / "texts.json"), "--documents", str(folder / "documents.json"), "--trained",
            str(folder / "texts.jsonl"),
        ]  # fmt: skip

    def test_has_card_hashes_and_scores(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            found = write(arguments().parse_args(self.run_folder(folder)))
            made = folder / "models" / "base-reader"
            card = json.loads((made / "banyan.json").read_text())
            self.assertEqual((card["copies"], card["null_text"], card["model"]), (True, "null", "base-1b"))
            self.assertEqual(set(card["confidence"]), {"ask", "extract"})
            self.assertIn("scale", card["confidence"]["ask"]["answer"])
            self.assertEqual(card["null_bias"], found["null_bias"]["bias"])
            self.assertEqual(card["trained_on"], {"file": "trained-on.bin", "texts": 1})
            page = (made / "README.md").read_text()
            for part in (
                "Maker/Base-1B",
                "seed 9",
                "`ab12`",
                "everyday documents (0.999 →",
                "several in a prompt | Apa",
            ):
                self.assertIn(part, page)
            self.assertIn(f"`extract` {found['calibration_error']['extract']['']:.3f} of all", " ".join(page.split()))
            self.assertFalse([line for line in page.splitlines() if len(line) > 120 and "|" not in line])
            listed = dict(reversed(line.split()) for line in (folder / "models/SHA256SUMS").read_text().splitlines())
            weights = hashlib.sha256((made / "adapter_model.safetensors").read_bytes()).hexdigest()
            self.assertEqual(listed["base-reader/adapter_model.safetensors"], weights)

    def test_more_than_20_megabytes_are_refused(self):
        with tempfile.TemporaryDirectory() as name:
            given = arguments().parse_args(self.run_folder(Path(name), adapter_card.MOST_BYTES + 1))
            with self.assertRaisesRegex(SystemExit, "expected at most 20000000 bytes, found 20000001"):
                write(given)
            self.assertFalse(given.to.exists())


if __name__ == "__main__":
    unittest.main()
