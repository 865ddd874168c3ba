"""The extraction adapter's training set: values stand in the documents, the layout is the engine's, no evaluation text
is in it."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import tempfile
import unittest
from pathlib import Path


from train import everyday, extract_layout, extract_mix, extract_real
from train.extract_records import Attribute, Record, everyday_record, everyday_stack, style_name
from train.lexicon import TRAIN, Lexicon
from train.overlap import Excluded
from train.tests.test_reader import ROOT

SHARED = (
    ROOT / ".." / ".." / "shared"
)  # real sets are not part of the repository: tests that need them are skipped without


class Everyday(unittest.TestCase):
    def test_values_are_spans_of_the_document(self):
        rng = random.Random(1)
        nulls = slots = 0
        for kind in everyday.kinds():
            for n in range(12):
                r = everyday_record(Lexicon(rng, TRAIN), kind, str(n))
                for a, v in zip(r.attributes, r.values):
                    slots, nulls = slots + 1, nulls + (v is None)
                    if a.type == "enum":
                        self.assertIn(v, [None, *a.words.removeprefix("one of ").split(", ")])
                    elif a.type == "boolean":
                        self.assertIn(v, [None, True, False])
                    else:
                        for span in v if isinstance(v, list) else [v] if isinstance(v, str) else []:
                            self.assertIn(span, r.text, f"{kind.name}, {a.name}")
                for item in r.items:
                    self.assertTrue(all(part in r.text for part in item))
                for a in r.attributes:
                    for example in a.examples:
                        self.assertFalse(
                            any(e in r.text for e in (example if isinstance(example, list) else [example]))
                        )
        self.assertTrue(0.15 < nulls / slots < 0.4, nulls / slots)

    def test_there_are_many_kinds_and_all_have_what_they_need(self):
        kinds = everyday.kinds()
        self.assertGreaterEqual(len(kinds), 40)
        self.assertEqual(len({k.name for k in kinds}), len(kinds))
        self.assertLessEqual(set(everyday.HELD_KINDS), {k.name for k in kinds})
        for k in kinds:
            for f in k.fields:
                said = (
                    f.true and f.false
                    if f.type == "boolean"
                    else f.type == "items" or all("{v}" in s for s in f.say) and f.say
                )
                self.assertTrue(
                    said
                    and f.names
                    and f.type in ("text", "number", "integer", "date", "boolean", "enum", "list", "items"),
                    f"{k.name}, {f.key}",
                )

    def test_sentences_say_several_fields_and_amounts_grow_as_the_kind_says(self):
        for k in everyday.kinds():
            types = {f.key: f.type for f in k.fields}
            for sentence in k.pairs:
                keys = re.findall(r"\{=(\w+)\}", sentence)
                self.assertTrue(
                    len(set(keys)) == len(keys) > 1
                    and all(types.get(x, "list") not in ("list", "boolean", "items") for x in keys),
                    f"{k.name}: {sentence}",
                )
            self.assertTrue(all(x in types for keys in k.orders for x in keys), k.name)
        text = (
            "# k | en | T\n<: a b\nP: From {=a} to {=b}.\n@ a | integer | int 1-900 | a | A | a\nS: A {v}.\n@ b |"
            " integer | int 1-900 | b | B | b\nS: B {v}.\n"
        )
        kind, together, lex = everyday.parse(text, {})[0], 0, Lexicon(random.Random(5), TRAIN)
        for _ in range(60):
            d = everyday.document(lex, kind, missing=0.0)
            a, b = (int(s.value) for s in d.said)
            self.assertLessEqual(a, b)
            together += f"From {a} to {b}." in d.text
        self.assertGreater(together, 15)

    def test_names_have_styles(self):
        lex = Lexicon(random.Random(1), TRAIN)
        made = [style_name(lex, "total_price", s) for s in ("snake", "camel", "title", "spaces", "kebab", "upper")]
        self.assertEqual(
            made, ["total_price", "totalPrice", "Total Price", "total price", "total-price", "TOTAL_PRICE"]
        )


class Layout(unittest.TestCase):
    def test_pieces_of_nested_objects(self):
        made = extract_layout.pieces(
            [
                Attribute("name"),
                Attribute("address.street", nested=True),
                Attribute("address.city", nested=True),
                Attribute("phone"),
            ]
        )
        self.assertEqual([p for p, _ in made], ['{"name":', ',\n"address": {"street":', ',\n"city":', '},\n"phone":'])
        self.assertEqual([after for _, after in made], [",\n", ",\n", "},\n", "}"])

    def test_answers_are_json(self):
        attributes = [
            Attribute("a.x", nested=True),
            Attribute("b.y", nested=True),
            Attribute("c"),
            Attribute("d.z", nested=True),
        ]
        r = Record("1", "s", "t", attributes, ['q"', None, True, ["m", "n"]])
        self.assertEqual(
            json.loads(extract_layout.answer(r)),
            {"a": {"x": 'q"'}, "b": {"y": None}, "c": True, "d": {"z": ["m", "n"]}},
        )
        stack = extract_layout.lay_stack([r, r])
        text = "".join(s.piece + " " + s.value for s in stack.slots) + stack.slots[-1].after
        self.assertEqual(
            json.loads(text), {"1": json.loads(extract_layout.answer(r)), "2": json.loads(extract_layout.answer(r))}
        )

    def test_objects_of_a_list_have_a_skeleton_each(self):
        parts = [
            Attribute("description"),
            Attribute("quantity", "integer", "integer"),
            Attribute("price", "number", "number in EUR"),
        ]
        r = Record(
            "1",
            "s",
            "t",
            [Attribute("items", "items", "list of objects", parts=parts)],
            [["Desk lamp", "Chair"]],
            items=[["Desk lamp", "2", "30 EUR"], ["Chair", "1", "45 EUR"]],
        )
        first, second = extract_layout.lay_items(r)
        self.assertEqual(
            [s.piece for s in first.slots], ['{"items": [{"description": "Desk lamp",\n"quantity":', ',\n"price":']
        )
        self.assertEqual([s.value for s in second.slots], ['"1"', '"45 EUR"'])


def engine_attribute(a: Attribute) -> dict:
    """As a schema of the engine has it, with the words that the engine has for its type."""
    out = dict(name=a.name, type="text" if a.type == "items" else a.type)
    if a.type == "enum":
        out["values"] = a.words.removeprefix("one of ").split(", ")
    if a.type == "list":
        out["of"] = "text"
    if " in " in a.words and a.type in ("number", "integer"):
        out["unit"] = a.words.split(" in ", 1)[1]
    return (
        out
        | ({"description": a.description} if a.description else {})
        | ({"examples": a.examples} if a.examples else {})
    )


@unittest.skipUnless(os.environ.get("BANYAN"), "BANYAN names no program: layouts are not compared with the engine's")
class Engine(unittest.TestCase):
    def compare(self, records: list[Record], laid: extract_layout.Laid, stack: int) -> None:
        from eval.banyan import Engine as Program

        model, banyan = str(ROOT / "models" / "banyan-reader-34m.gguf"), os.environ["BANYAN"]
        r = records[0]
        with tempfile.TemporaryDirectory() as folder:
            docs, schema = Path(folder, "docs.jsonl"), Path(folder, "schema.json")
            docs.write_text("".join(json.dumps(dict(id=n, text=x.text)) + "\n" for n, x in enumerate(records)))
            category = (
                dict(attributes=[engine_attribute(a) for a in r.attributes])
                | (dict(category=r.category) if r.category else {})
                | (dict(description=r.about) if r.about else {})
            )
            schema.write_text(json.dumps(category))
            command = [
                banyan,
                "extract",
                "-m",
                model,
                str(docs),
                "--schema",
                str(schema),
                "--layout",
                "--quiet",
                *(["--stack", str(stack)] if stack > 1 else []),
            ]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            theirs = json.loads(done.stdout.splitlines()[0])
        engine = Program(banyan, model)
        prompt, *pieces = engine.tokenize([laid.prompt, *(s.piece for s in laid.slots)])
        self.assertEqual(theirs["prompt"], prompt)
        self.assertEqual([p["text"] for p in theirs["pieces"]], [s.piece for s in laid.slots])
        self.assertEqual([s["tokens"] for s in theirs["slots"]], pieces)
        self.assertEqual(
            [s["max_tokens"] for s in theirs["slots"]], [extract_layout.TOKENS[s.type] for s in laid.slots]
        )

    def plain(self, r: Record) -> bool:
        return not (
            r.shots
            or any(
                a.nested
                or a.type == "items"
                or a.words in ("integer", "boolean", "date")
                or a.words.startswith("integer")
                for a in r.attributes
            )
        )

    def test_prompts_and_pieces_are_the_engines(self):
        rng, done = random.Random(2), 0
        for n in range(400):
            r = everyday_record(Lexicon(rng, TRAIN), rng.choice(everyday.kinds()), str(n))
            if self.plain(r):
                self.compare([r], extract_layout.lay(r), 1)
                done += 1
            if done == 5:
                break

    def test_stacks_are_the_engines(self):
        rng, done = random.Random(3), 0
        for n in range(400):
            records = everyday_stack(Lexicon(rng, TRAIN), rng.choice(everyday.kinds()), str(n), 3)
            if self.plain(records[0]):
                self.compare(records, extract_layout.lay_stack(records), 3)
                done += 1
            if done == 3:
                break


class Overlap(unittest.TestCase):
    def test_texts_and_long_quotations_are_found(self):
        with tempfile.TemporaryDirectory() as folder:
            words = [f"word{n}" for n in range(30)]
            Path(folder, "set.jsonl").write_text(
                json.dumps(dict(id="1", context=" ".join(words), more=[dict(text="Red Patent Shoe, 14 M US")])) + "\n"
            )
            excluded = Excluded([Path(folder)])
        self.assertIn("red patent shoe 14 m us", excluded)
        self.assertIn("Before. " + " ".join(words[5:18]) + " after", excluded)
        self.assertNotIn(" ".join(words[5:17]) + " after", excluded)
        self.assertNotIn("a text of its own", excluded)

    @unittest.skipUnless(
        (SHARED / "data" / "oa_mine.jsonl").exists() and (SHARED / "train").exists(), "the real sets are not here"
    )
    def test_nothing_of_the_evaluation_is_in_the_records(self):
        excluded = Excluded([SHARED / "data", ROOT / "eval" / "samples"])
        rng = random.Random(4)
        records = extract_real.labelled_records(rng, SHARED / "train", 1) + extract_real.question_records(
            rng, SHARED / "train"
        )
        found = [r.id for r in records if r.text in excluded]
        self.assertLess(len(found), 0.01 * len(records))
        kept = extract_mix.fresh([extract_layout.lay(r) for r in records], excluded)
        self.assertEqual(len(kept), len(records) - len(found))
        self.assertFalse([x.id for x in kept if x.text in excluded])


if __name__ == "__main__":
    unittest.main()
