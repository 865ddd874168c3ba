"""Training on skeletons: the rows are what the engine computes, slot by slot; the trainer learns, stops and goes on."""

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

from train import skeleton_data
from train.skeleton_rows import IGNORED, Documents, Row
from train.tests.test_reader import ROOT, tiny_model
from train.tests.torch_here import torch

try:
    import peft
except ImportError:
    peft = None

PAGES = [
    dict(
        id="a",
        text="Kelvora Trail 200 kettle\n\nColour : moss green\nWeight : 3 kg\nThe brand is Kelvora.",
        category="page",
    ),
    dict(id=2, text="A lamp of steel. It weighs 2 kg and is made by Dorvane.", category="page"),
    dict(id="c", text='Price: 40\nThe brand is Bréval "Prime".', category="priced"),
]
SCHEMA = dict(
    categories=dict(
        page=dict(attributes=[dict(name=n) for n in ("brand", "colour", "material", "weight", "warranty")]),
        priced=dict(
            attributes=[
                dict(name="price", type="number"),
                dict(name="brand"),
                dict(name="sizes", type="list", of="text"),
            ]
        ),
    )
)


def visible(row: Row) -> np.ndarray:
    place = np.arange(len(row.ids))
    return (place[None] <= place[:, None]) & (row.step[None] <= row.step[:, None])


class Marks(unittest.TestCase):
    def test_a_value_ends_with_the_token_that_holds_its_end(self):
        texts = ['"x":', ' "', "ab", '",', "\n", " 1", ",", " null"]
        self.assertEqual(skeleton_data.value_tokens([0, 1, 2, 3, 4], 1, 2, texts), [1, 2, 3])
        self.assertEqual(skeleton_data.value_tokens([0, 7, 6, 4], 1, 2, texts), [7])

    def test_values_of_a_sequential_answer_are_marked(self):
        texts = ['{"x":', ' "', "ab", '",', "\n", '"y":', " null", "}"]
        pieces = [dict(text='{"x":'), dict(text=',\n"y":')]
        self.assertEqual(
            skeleton_data.value_marks(list(range(8)), pieces, ['"ab"', "null"], [True, True], texts),
            [0, 1, 1, 1, 0, 0, 1, 0],
        )
        self.assertEqual(
            skeleton_data.value_marks(list(range(8)), pieces, ['"ab"', "null"], [True, False], texts),
            [0, 1, 1, 1, 0, 0, 0, 0],
        )


@unittest.skipUnless(os.environ.get("BANYAN"), "BANYAN names no program: rows are not compared with the engine's")
class Engine(unittest.TestCase):
    def test_rows_have_the_engines_log_probabilities_slot_by_slot(self):
        """The engine writes values; the rows made from them, through the plain reference with the training mask, give
        each value the confidence that the engine has. A wrong position, gap, mask or token in any slot would show."""
        from eval.banyan import Engine as Program
        from train.reference import load_gguf

        model, banyan = ROOT / "models" / "banyan-reader-34m.gguf", os.environ["BANYAN"]
        net, engine = load_gguf(model), Program(banyan, str(model))
        with tempfile.TemporaryDirectory() as folder:
            docs, schema = Path(folder, "docs.jsonl"), Path(folder, "schema.json")
            docs.write_text("".join(json.dumps(p) + "\n" for p in PAGES))
            schema.write_text(json.dumps(SCHEMA))
            for mode in ("skeleton", "sequential"):
                command = [
                    banyan,
                    "extract",
                    "-m",
                    str(model),
                    str(docs),
                    "--schema",
                    str(schema),
                    "--values",
                    mode,
                    "-o",
                    f"{folder}/{mode}.jsonl",
                    "--precision",
                    "f32",
                    "--quiet",
                ]
                subprocess.run(command, check=True)
                written = {
                    json.dumps(o["id"]): o
                    for o in map(json.loads, Path(folder, f"{mode}.jsonl").read_text().splitlines())
                }
                labels = {key: {**o["values"], **o.get("raw", {})} for key, o in written.items()}
                laid = skeleton_data.layouts(engine, docs, schema, [])
                np.savez(f"{folder}/d.npz", **skeleton_data.encode(engine, PAGES, SCHEMA, laid, labels, "null", 0.0))
                documents = Documents(Path(folder, "d.npz"))
                self.assertEqual(len(documents.train), len(PAGES))
                for n, page in enumerate(PAGES):
                    row = documents.skeleton(n) if mode == "skeleton" else documents.sequential(n)
                    self.compare(net, row, written[json.dumps(page["id"])], mode)

    def compare(self, net, row: Row, written: dict, mode: str) -> None:
        logits = net.feed(net.empty(), row.ids, row.pos, ~visible(row)).astype(np.float64)
        at = np.flatnonzero(row.label != IGNORED)
        logprobs = (
            logits[at, row.label[at]]
            - np.log(np.exp(logits[at] - logits[at].max(-1, keepdims=True)).sum(-1))
            - logits[at].max(-1)
        )
        for s, (name, confidence) in enumerate(written["confidence"].items()):
            probability = np.exp(logprobs[row.slot[at] == s].sum())
            self.assertAlmostEqual(
                probability, confidence, delta=3e-3, msg=f"{mode}, {written['id']}, {name}: {written['values'][name]}"
            )


def tiny_documents(path: Path, count: int = 40) -> None:
    """Each value is the prompt's first or second token, then a token that ends it."""
    rng = random.Random(4)
    flat = {name: [] for name in ("prompt", "template", "value", "answer", "answer_label")}
    ends = {name: [0] for name in flat}
    position, slots = [], [0]
    for _ in range(count):
        prompt = [rng.randrange(8, 20) for _ in range(rng.randint(4, 7))]
        values = [[prompt[0], 3], [prompt[1], 3]]
        for name, run in [
            ("prompt", prompt),
            *(("template", [5 + i]) for i in range(2)),
            *(("value", v) for v in values),
            ("answer", [5, *values[0], 6, *values[1]]),
            ("answer_label", [0, 1, 1, 0, 1, 1]),
        ]:
            flat[name] += run
            ends[name].append(len(flat[name]))
        position += [len(prompt), len(prompt) + 9]
        slots.append(len(position))
    np.savez(
        path,
        **{k: np.array(v) for k, v in flat.items()},
        **{k + "_end": np.array(v) for k, v in ends.items() if k != "answer_label"},
        position=np.array(position),
        kept=np.ones(len(position), bool),
        slots=np.array(slots),
        train=np.arange(count) < 36,
    )


class Written(unittest.TestCase):
    """Values that a model writes by itself, with a model that knows the labels."""

    def test_a_value_is_whole_when_its_json_is(self):
        from train.skeleton_score import value_in

        for text, value in (
            (' "a \\" b",', 'a " b'),
            (' "a', ...),
            (" null", None),
            (" true,", True),
            (' ["a, ]", "b"]', ["a, ]", "b"]),
            (' ["a",', ...),
            (" 12", ...),
            (" 12,", 12),
        ):
            self.assertEqual(value_in(text), value, text)

    def test_what_is_written_is_scored_by_type_and_nulls_apart(self):
        from train.skeleton_score import Vocabulary, calibration_row, scores, write_values

        tokens = ["<s>", 'Ġ"', "ab", '",', "Ġnull", "Ġtrue", "x", "y"]
        labels = [[1, 2, 3], [4], [5], [1, 2, 3]]
        flat = dict(prompt=[6, 6, 6, 6, 6, 6], template=[7, 7, 7, 7], value=sum(labels, []))
        with tempfile.TemporaryDirectory() as folder:
            np.savez(
                f"{folder}/d.npz",
                **{k: np.array(v) for k, v in flat.items()},
                prompt_end=np.array([0, 3, 6]),
                template_end=np.arange(5),
                value_end=np.array([0, 3, 4, 5, 8]),
                position=np.array([3, 20, 3, 20]),
                kept=np.ones(4, bool),
                slots=np.array([0, 2, 4]),
                train=np.zeros(2, bool),
                slot_type=np.array([0, 1, 4, 0]),
                source=np.array([0, 1]),
                sources=np.frombuffer(json.dumps(["everyday/x", "titles"]).encode(), np.uint8),
            )
            documents = Documents(Path(folder, "d.npz"))
        steps = []

        def knows(rows, places):
            """The next token of the label; the last slot of the second document is always null."""
            steps.append(len(places))
            out = []
            for row, at in places:
                r = rows[row]
                slot = int((r.ids[: at + 1] == 7).sum()) - 1
                document = row if len(rows) == 2 else 0
                written = int(r.step[at])
                self.assertEqual(int(r.pos[at]), int(documents.data["position"][2 * document + slot]) + written)
                out.append(
                    (
                        (labels[2 * document + slot] if (document, slot) != (1, 1) else [4])[written],
                        -0.5 * (written + 1),
                    )
                )
            return out

        slots = write_values(documents, [0, 1], Vocabulary(tokens), knows)
        self.assertEqual(steps, [4, 1, 1])  # three values are whole after one token
        self.assertEqual(
            [(w.type, w.wanted, w.made, w.right) for w in slots],
            [
                ("text", "ab", "ab", True),
                ("number", None, None, True),
                ("boolean", True, True, True),
                ("text", "ab", None, False),
            ],
        )
        made = scores(slots)
        self.assertEqual(
            (made["all"]["right"], made["all"]["null_precision"], made["all"]["null_recall"], made["all"]["all_null"]),
            (0.75, 0.5, 1.0, 0.25),
        )
        self.assertEqual(made["all"]["f1"], 0.8)
        self.assertEqual(list(made["everyday_by_type"]), ["text", "number"])
        self.assertEqual(
            calibration_row(slots[0]),
            dict(type="text", source="everyday", mean=-1.0, sum=-3.0, first=-0.5, tokens=3, null=False, right=True),
        )


@unittest.skipIf(peft is None or torch is None, "no PyTorch and PEFT here: pip install torch peft")
class Trainer(unittest.TestCase):
    def run_trainer(self, folder: str, *options: str):
        from train.skeleton_lora import Run, arguments

        torch.set_num_threads(1)
        base = [
            "--model",
            f"{folder}/m.gguf",
            "--data",
            f"{folder}/d.npz",
            "--device",
            "cpu",
            "--rank",
            "4",
            "--alpha",
            "8",
            "--dropout",
            "0",
            "--rate",
            "0.02",
            "--batch-tokens",
            "120",
            "--epochs",
            "5",
            "--say-every",
            "1000",
        ]
        with contextlib.redirect_stdout(io.StringIO()):
            run = Run(arguments().parse_args([*base, *options]), torch)
        run.say = lambda **row: None
        return run

    def test_it_learns_in_both_forms(self):
        with tempfile.TemporaryDirectory() as folder:
            tiny_model(Path(folder, "m.gguf"))
            tiny_documents(Path(folder, "d.npz"))
            for mode in ("skeleton", "sequential"):
                run = self.run_trainer(folder, "--out", f"{folder}/{mode}", "--values", mode)
                before = run.score()
                run.train()
                self.assertLess(run.score()["loss"], 0.7 * before["loss"])
                self.assertEqual(before["values"], 8)
                self.assertTrue((run.write() / "adapter_config.json").exists())

    def test_a_resumed_run_goes_on(self):
        with tempfile.TemporaryDirectory() as folder:
            tiny_model(Path(folder, "m.gguf"))
            tiny_documents(Path(folder, "d.npz"))
            whole = self.run_trainer(folder, "--out", f"{folder}/whole", "--steps", "8")
            whole.rate = lambda: 0.01
            whole.train()
            part = self.run_trainer(folder, "--out", f"{folder}/part", "--steps", "8")
            plan, part.plan = part.plan, part.plan[:4]
            part.rate = whole.rate
            part.train()
            rest = self.run_trainer(folder, "--out", f"{folder}/part", "--steps", "8", "--resume")
            self.assertEqual((rest.step, len(plan)), (4, 8))
            rest.rate = whole.rate
            rest.train()
            for a, b in zip(whole.trained, rest.trained):
                np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), atol=2e-3)

    def test_the_best_weights_are_kept(self):
        with tempfile.TemporaryDirectory() as folder:
            tiny_model(Path(folder, "m.gguf"))
            tiny_documents(Path(folder, "d.npz"))
            run = self.run_trainer(folder, "--out", f"{folder}/o", "--steps", "3")
            made = iter((0.5, 0.9, 0.4))
            run.score = lambda: dict(values=1, exact=next(made), loss=1.0)
            for step in range(3):
                with torch.no_grad():
                    run.trained[0].fill_(step)
                run.keep_if_best()
            run.take_best()
            self.assertEqual(run.trained[0].detach().flatten()[0].item(), 1.0)

    def test_a_whole_run_leaves_scores_a_curve_and_lines_for_a_calibration(self):
        import sys
        from unittest import mock

        from train import skeleton_lora

        with tempfile.TemporaryDirectory() as folder:
            tiny_model(Path(folder, "m.gguf"))
            for name in "de":
                tiny_documents(Path(folder, f"{name}.npz"))
            options = [
                "--model",
                f"{folder}/m.gguf",
                "--data",
                f"{folder}/d.npz",
                f"{folder}/e.npz",
                "--out",
                f"{folder}/o",
                "--device",
                "cpu",
                "--rank",
                "4",
                "--steps",
                "4",
                "--values",
                "mixed",
                "--batch-tokens",
                "120",
                "--score-every",
                "0.001",
                "--write-limit",
                "4",
            ]
            with mock.patch.object(sys, "argv", ["skeleton_lora", *options]), contextlib.redirect_stdout(io.StringIO()):
                skeleton_lora.main()
            result = json.loads(Path(folder, "o/scores.json").read_text())
            self.assertEqual(
                (result["documents"], result["after"]["values"], result["written"]["all"]["slots"]), (72, 16, 8)
            )
            lines = [json.loads(line) for line in Path(folder, "o/calibration.jsonl").read_text().splitlines()]
            self.assertEqual(len(lines), 8)
            self.assertTrue(all(r["sum"] <= r["first"] <= 0 for r in lines))
            self.assertIn("polyline", Path(folder, "o/curve.svg").read_text())

    def test_next_tokens_are_the_likeliest_of_their_places(self):
        from train.skeleton_lora import logits_of

        with tempfile.TemporaryDirectory() as folder:
            tiny_model(Path(folder, "m.gguf"))
            tiny_documents(Path(folder, "d.npz"))
            run = self.run_trainer(folder, "--out", f"{folder}/o")
            run.model.eval()
            rows = [Documents(Path(folder, "d.npz")).skeleton(n) for n in range(3)]
            places = [(n, int(i)) for n, r in enumerate(rows) for i in np.flatnonzero(r.label != IGNORED)]
            expected = [
                t
                for r in rows
                for t in torch.log_softmax(logits_of(run.model, torch, [r], "cpu")[0], -1).max(-1).indices.tolist()
            ]
            self.assertEqual([token for token, _ in run.next_logprobs(rows, places)], expected)

    def test_a_row_sees_what_the_mask_says(self):
        from train.skeleton_lora import tensors

        with tempfile.TemporaryDirectory() as folder:
            tiny_documents(Path(folder, "d.npz"))
            documents = Documents(Path(folder, "d.npz"))
            rows = [documents.skeleton(0), documents.skeleton(1)]
            mask = tensors(torch, rows, "cpu")[3].numpy()[:, 0]
            for row, seen in zip(rows, mask):
                size = len(row.ids)
                np.testing.assert_array_equal(seen[:size, :size], visible(row))
                self.assertFalse(seen[:size, size:].any())

    def test_the_network_keeps_to_the_mask_and_the_positions(self):
        from train.skeleton_lora import logits_of

        with tempfile.TemporaryDirectory() as folder:
            tiny_model(Path(folder, "m.gguf"))
            tiny_documents(Path(folder, "d.npz"))
            run = self.run_trainer(folder, "--out", f"{folder}/o")
            logits = (
                lambda row: logits_of(run.model, torch, [row], "cpu")[0].detach().numpy()
            )  # of v1, its end, v2, its end
            row = Documents(Path(folder, "d.npz")).skeleton(0)
            first = logits(row)
            first_value = np.flatnonzero(row.step == 1)[0]
            row.ids[first_value] += 1
            other = logits(row)
            np.testing.assert_array_equal(first[0], other[0])
            np.testing.assert_allclose(first[2], other[2], atol=1e-5)  # the template sees no value
            self.assertGreater(np.abs(first[3] - other[3]).max(), 1e-3)  # a value's token sees those above it
            row.pos[row.slot == 1] += 5
            self.assertGreater(np.abs(logits(row)[2] - other[2]).max(), 1e-3)

    def test_full_training_writes_the_model(self):
        from train.gguf import read_gguf

        with tempfile.TemporaryDirectory() as folder:
            tiny_model(Path(folder, "m.gguf"))
            tiny_documents(Path(folder, "d.npz"))
            run = self.run_trainer(folder, "--out", f"{folder}/full", "--full", "--steps", "2", "--rate", "0")
            run.rate = lambda: 0.0
            run.train()
            metadata, weights = read_gguf(run.write())
            old_metadata, old = read_gguf(Path(folder, "m.gguf"))
            self.assertEqual((metadata, list(weights)), (old_metadata, list(old)))
            for name, x in weights.items():
                np.testing.assert_allclose(x, old[name], atol=0.02 * np.abs(old[name]).max(), err_msg=name)


if __name__ == "__main__":
    unittest.main()
