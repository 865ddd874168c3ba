"""What random weights write fits random schemas, every time, by the Python package jsonschema. Skipped without it.

BANYAN_TEST_ROUNDS=N makes N times as many schemas.
"""
import datetime
import os
import random
import sys
import unittest

from harness import ExtractTest, documents

try:
    import jsonschema
except ImportError:
    print("skipped: no jsonschema here: apt-get install python3-jsonschema")
    sys.exit(77)

CHECKER = jsonschema.FormatChecker(formats=[])
CHECKER.checks("date")(lambda v: not isinstance(v, str) or bool(datetime.date.fromisoformat(v)))
NAMES = ["name", "price in €", "quote\"d", "back\\slash", "a/b~c", "line\nbreak", "日本", "x y", "<b>", "z"]


class Attributes:
    """Every type with every keyword, and the JSON Schema that says the same."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)

    def maybe(self) -> bool:
        return self.random.random() < 0.5

    def type(self, depth: int = 0):
        kinds = ["text", "number", "integer", "boolean", "date", "enum"] + (["list"] if depth == 0 else [])
        kind = self.random.choice(kinds)
        ours, theirs = {"type": kind}, {}
        if kind == "text":
            theirs = {"type": "string", "minLength": 1}
            if self.maybe():
                ours["pattern"] = self.random.choice(["[A-Z]{2}-\\d{4}", "(red|dark green) \\w+", "[^a-z]{2,4}", "a|bc"])
                theirs["pattern"] = f"^(?:{ours['pattern']})$"
            elif self.maybe():
                ours["max_length"] = theirs["maxLength"] = self.random.randrange(1, 12)
        elif kind in ("number", "integer"):
            theirs = {"type": kind}
            if self.maybe():
                ours["minimum"] = theirs["minimum"] = self.random.choice([-5, 0, 7])
            if self.maybe():
                ours["maximum"] = theirs["maximum"] = self.random.choice([8, 99, 12345])
            if self.maybe() and len(ours) == 1:
                ours["units"] = ["kg", "m²", "fl. oz"]
                theirs = {"type": "string", "pattern": "^-?\\d+(\\.\\d+)? (kg|m²|fl\\. oz)$"}
            elif self.maybe():
                ours["unit"] = "kg"
        elif kind == "boolean":
            theirs = {"type": "boolean"}
        elif kind == "date":
            theirs = {"type": "string", "format": "date"}
        elif kind == "enum":
            ours["values"] = theirs_values = self.random.sample(["a", "a b", "ab", "\"", "\\n", "日本", "null", "[]"], 4)
            theirs = {"enum": list(theirs_values)}
        else:
            item, item_schema = self.type(1)
            ours.update(of=item, max_items=self.random.randrange(1, 4))
            theirs = {"type": "array", "items": item_schema, "maxItems": ours["max_items"]}
        return ours, theirs

    def schema(self):
        names = self.random.sample(NAMES, self.random.randrange(2, 10))
        attributes, properties = [], {}
        for name in names:
            ours, theirs = self.type()
            ours["name"] = name
            if self.maybe():
                ours["nullable"] = False
            else:
                theirs = {"anyOf": [theirs, {"type": "null"}]}
            if self.maybe():
                ours["max_tokens"] = self.random.randrange(1, 40)
            attributes.append(ours)
            properties[name] = theirs
        return {"attributes": attributes}, {"type": "object", "properties": properties, "required": names,
                                            "additionalProperties": False}


class RandomSchemas(ExtractTest):
    def test_every_row_fits(self):
        rounds = int(os.environ.get("BANYAN_TEST_ROUNDS", "1"))
        values, without = 0, 0
        for seed in range(9 * rounds):
            ours, theirs = Attributes(seed).schema()
            judge = jsonschema.Draft202012Validator(theirs, format_checker=CHECKER)
            mode = ("skeleton", "isolated", "sequential")[seed % 3]
            for row in self.extract(documents(24, 100 * seed), ours, "--values", mode, code=None):
                if "error" in row:  # never a value that does not fit: the document has none, and the row says for which attribute
                    self.assertRegex(row["error"]["message"], "(?s)^attribute '.*' must have a value|nothing in the text that could be copied")
                    without += 1
                    continue
                errors = [e.message for e in judge.iter_errors(row["values"])]
                self.assertEqual(errors, [], f"seed {seed}: {row['values']}")
                values += len(row["values"])
        print(f"{values} values, {without} rows without a value that must be there", file=sys.stderr)
        self.assertGreater(values, 400)

    def test_json_schemas_fit_themselves(self):
        schema = {"type": "object", "title": "shoe", "required": ["brand", "size"], "additionalProperties": False,
                  "properties": {"brand": {"type": "string", "maxLength": 5}, "size": {"$ref": "#/$defs/size"},
                                 "price": {"type": "number", "minimum": 0}, "new": {"type": "boolean"},
                                 "kinds": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 2}},
                  "$defs": {"size": {"type": ["integer", "null"], "minimum": 1}}}
        judge = jsonschema.Draft202012Validator(schema)
        rows = self.extract(documents(30), schema, code=None)
        fitting = [row for row in rows if "error" not in row]
        self.assertGreater(len(fitting), 0)
        for row in fitting:
            self.assertEqual([e.message for e in judge.iter_errors(row["values"])], [])
        for row in rows:
            if "error" in row:
                self.assertIn("attribute 'brand' must have a value", row["error"]["message"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
