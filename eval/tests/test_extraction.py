"""Everyday documents: frozen, typed by their schema, grounded; foreign documents; what counts as standing in a text."""

from __future__ import annotations

import datetime
import hashlib
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from eval.extraction import SAMPLES, Set, from_nowhere
from eval.foreign import SCHEMA, documents, invented
from eval.grounding import numbers, stands_in

ROOT = Path(__file__).parents[2]
MODEL, BINARY = ROOT / "models" / "banyan-reader-34m.gguf", ROOT / "build" / "release" / "banyan"
FROZEN = (  # of everyday.jsonl and its schema: see eval/samples/README.md before you change it
    "b34eabf08d5309e70e251bca2612a45c1d8277a582215f03c09e579b9f69f67a"
)


def fits(value, attribute: dict) -> bool:
    kind = attribute.get("type", "text")
    if kind == "list":
        return isinstance(value, list) and all(isinstance(v, str) for v in value)
    if isinstance(value, list):  # spellings
        return kind == "text" and len(value) > 0 and all(isinstance(v, str) for v in value)
    if kind == "date":
        return bool(datetime.date.fromisoformat(value))
    wanted = dict(text=str, number=(int, float), integer=int, boolean=bool, enum=str)[kind]
    return (
        isinstance(value, wanted)
        and isinstance(value, bool) == (kind == "boolean")
        and value in attribute.get("values", [value])
    )


class Everyday(unittest.TestCase):
    def sets(self) -> list[Set]:
        return [Set(SAMPLES / f"{n}.jsonl", SAMPLES / f"{n}-schema.json") for n in ("everyday", "everyday-dev")]

    def test_is_frozen(self):
        read = b"".join((SAMPLES / n).read_bytes() for n in ("everyday.jsonl", "everyday-schema.json"))
        self.assertEqual(hashlib.sha256(read).hexdigest(), FROZEN)

    def test_right_values_fit_the_schema_and_stand_in_the_text(self):
        for given in self.sets():
            for row in given.rows:
                attributes = given.attributes(row)
                self.assertEqual([a["name"] for a in attributes], list(row["values"]))
                for attribute in attributes:
                    gold, kind = row["values"][attribute["name"]], attribute.get("type", "text")
                    if gold is None:
                        continue
                    self.assertTrue(fits(gold, attribute), (row["id"], attribute, gold))
                    spellings = gold if isinstance(gold, list) and kind != "list" else [gold]
                    self.assertTrue(
                        any(stands_in(s, row["text"], kind) for s in spellings), (row["id"], attribute, gold)
                    )

    def test_sizes_that_the_readme_states(self):
        frozen, dev = self.sets()
        slots = [v for r in frozen.rows for v in r["values"].values()]
        self.assertEqual((len(frozen.rows), len(slots), slots.count(None)), (28, 280, 43))
        self.assertEqual((len(dev.rows), sum(len(r["values"]) for r in dev.rows)), (8, 56))
        self.assertFalse({r["category"] for r in frozen.rows} & {r["category"] for r in dev.rows})

    def test_values_from_nowhere_are_counted(self):
        given = self.sets()[0]
        right = [
            dict(id=r["id"], values={k: v[0] if isinstance(v, list) else v for k, v in r["values"].items()})
            for r in given.rows
        ]
        self.assertEqual(from_nowhere(given, right), (237, 0))
        right[0]["values"]["seller"] = "Nobody & Sons"
        self.assertEqual(from_nowhere(given, right), (237, 1))


class Grounding(unittest.TestCase):
    def test_numbers_in_any_notation(self):
        for value, text in (
            (2131.2, "£2,131.20"),
            (1480, "1.480 kg"),
            (1.48, "1.480 kg"),
            (449000, "449 000 €"),
            (500, "0.5 kg"),
            (8.5, "8,50 Euro"),
            (3, "three months"),
            (24, "deux ans"),
            (2, "zwei Zimmer"),
            (0, "0 points"),
        ):
            self.assertTrue(stands_in(value, text, "number"), (value, text))
        for value, text in ((7, "no number"), (0, "none"), (2131.3, "£2,131.20"), (1, "un chat"), (0, "null")):
            self.assertFalse(stands_in(value, text, "number"), (value, text))
        self.assertFalse(stands_in(500, "0.5 kg", "number", [1.0]))

    def test_dates_and_texts(self):
        for text in ("4 March 2024", "04.03.2024", "2024-03-04", "4. März 2024", "le 4 mars 2024", "3/4/24"):
            self.assertTrue(stands_in("2024-03-04", text, "date"), text)
        for text in ("4 May 2024", "March 2024", "4 March"):
            self.assertFalse(stands_in("2024-03-04", text, "date"), text)
        self.assertTrue(stands_in(["Masks", "gloves"], "masks  and\ngloves", "list"))
        self.assertFalse(stands_in("boots", "masks", "text"))
        self.assertTrue(
            stands_in("green", "forest", "enum") and stands_in(True, "x", "boolean") and stands_in(None, "x", "text")
        )


class Foreign(unittest.TestCase):
    def test_documents_have_no_number_and_are_the_same_every_time(self):
        docs = documents(1000)
        self.assertEqual(docs, documents(1000))
        self.assertFalse([d for d in docs if numbers(d["text"])])
        self.assertGreater(len({d["text"] for d in docs}), 300)
        self.assertIn("", {d["text"] for d in docs})

    def test_invented_values_are_counted(self):
        docs = [
            dict(id=1, text="It weighs 12 g."),
            dict(id=2, text="nothing"),
            dict(id=3, text=""),
            dict(id=4, text="x"),
        ]
        rows = [
            dict(id=1, values=dict(weight=12, year=1200)),
            dict(id=2, values={"date": "2024-01-01", "price": 1.5}),
            dict(id=3, error={}),
        ]
        found = invented(docs, rows)
        self.assertEqual(
            [found[k] for k in ("documents", "errors", "without_row", "in_the_text", "invented")], [4, 1, 1, 1, 3]
        )
        self.assertEqual(found["slots"], 2 * len(SCHEMA["attributes"]))


@unittest.skipUnless(BINARY.exists() and MODEL.exists(), "needs the engine and the shipped model")
class WholeTable(unittest.TestCase):
    def test_one_set_in_three_ways(self):
        with tempfile.TemporaryDirectory() as folder:
            docs, schema = Path(folder, "kettles.jsonl"), Path(folder, "schema.json")
            docs.write_text(
                json.dumps(
                    dict(
                        id="k",
                        text="Colour : moss green\nThe brand is Kelvora.",
                        values=dict(brand="Kelvora", colour="moss green", warranty=None),
                    )
                )
                + "\n"
            )
            schema.write_text(json.dumps(dict(attributes=[dict(name=n) for n in ("brand", "colour", "warranty")])))
            command = [
                sys.executable,
                "-m",
                "eval.extraction",
                "-m",
                str(MODEL),
                "--banyan",
                str(BINARY),
                "--no-everyday",
                "--set",
                f"{docs}={schema}",
                "--one-by-one",
                "1",
                "--foreign",
                "3",
                "--price-per-hour",
                "1",
                "--out",
                f"{folder}/out",
            ]
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            table = json.loads(Path(folder, "out", "table.json").read_text())["sets"]
            self.assertEqual(list(table["kettles"]), ["skeleton", "isolated", "sequential"])
            for row in table["kettles"].values():
                self.assertEqual(row["score"]["all"]["slots"], 3)
                self.assertGreater(row["one_by_one"], 0)
                self.assertIn("cost_per_1000", row["score"])
            self.assertEqual(table["kettles"]["skeleton"]["score"]["all"]["correct"], 2)
            self.assertEqual(table["foreign"]["skeleton"]["slots"], 3 * len(SCHEMA["attributes"]))
            text = Path(folder, "out", "table.md").read_text()
            self.assertIn("## kettles: 1 documents, 3 slots, 2 with a value", text)
            self.assertIn("| null everywhere | 0.000 |", text)


if __name__ == "__main__":
    unittest.main()
