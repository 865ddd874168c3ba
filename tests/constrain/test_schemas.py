#!/usr/bin/env python3
"""Random texts of random schemas are valid by the Python package jsonschema, every one.

usage: test_schemas.py CONSTRAIN_SAMPLES [SCHEMAS [TEXTS_PER_SCHEMA [SEED]]]; exit code 77 without jsonschema.
"""
import datetime
import json
import random
import subprocess
import sys

try:
    import jsonschema
except ImportError:
    print("skipped: no jsonschema here: apt-get install python3-jsonschema")
    sys.exit(77)

NAMES = ["name", "price in €", "quote\"d", "back\\slash", "a/b~c", "line\nbreak", "日本", "", "x", "y", "z"]


class Schemas:
    """Every keyword of the subset, in random company."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)

    def text(self) -> str:
        return "".join(self.random.choice("ab\"\\\n\t/é日😀\x01 ") for _ in range(self.random.randrange(5)))

    def string(self) -> dict:
        kind = self.random.randrange(6)
        if kind == 0:
            return {"type": "string", "format": "date"}
        if kind == 1:
            return {"type": "string", "pattern": self.random.choice([
                "^[A-Z]{2}-[0-9]{4}$", "b", "^a|c$", "^[^a-z]{2,4}$", "^(red|dark green)$", "\\d+", "^[\"\\\\\n]*$",
                "^\\S+ \\S+", "^.{1,5}$"])}
        if kind == 2:
            return {"type": "string", "pattern": "^[a-zé😀]+$", "maxLength": 4, "minLength": 2}
        schema = {"type": "string"}
        if self.random.random() < 0.7:
            schema["minLength"] = self.random.randrange(4)
        if self.random.random() < 0.7:
            schema["maxLength"] = self.random.randrange(4, 12)
        return schema

    def number(self) -> dict:
        kind = self.random.choice(["integer", "number"])
        schema = {"type": kind}
        low = self.random.choice([-120, -10, -1, 0, 1, 9, 10, 99, 100, 1234])
        high = low + self.random.choice([1, 2, 9, 10, 11, 90, 1000, 12345])
        if kind == "integer" and self.random.random() < 0.3:
            low, high = low - 0.5, high + 0.25
        if self.random.random() < 0.7:
            schema[self.random.choice(["minimum", "exclusiveMinimum"])] = low
        if self.random.random() < 0.7:
            schema[self.random.choice(["maximum", "exclusiveMaximum"])] = high + 1
        return schema

    def value(self, depth: int) -> object:
        return self.random.choice([None, True, False, 0, -3, 17, 2.5, 1e-7, self.text(), self.text(), [], [1, "x"],
                                   {"k": self.text()}])

    def schema(self, depth: int) -> dict:
        kind = self.random.randrange(8 if depth <= 0 else 14)
        if kind < 3:
            schema = self.string()
        elif kind < 5:
            schema = self.number()
        elif kind == 5:
            schema = {"type": self.random.choice(["null", "boolean", ["boolean", "null"]])}
        elif kind == 6:
            schema = {"enum": [self.value(depth) for _ in range(1 + self.random.randrange(4))]}
        elif kind == 7:
            schema = {"const": self.value(depth)}
        elif kind < 10:
            schema = {"type": "array", "items": self.schema(depth - 1)}
            if self.random.random() < 0.6:
                schema["minItems"] = self.random.randrange(3)
            if self.random.random() < 0.6:
                schema["maxItems"] = self.random.randrange(2, 5)
        elif kind == 10:
            schema = {"anyOf": [self.schema(depth - 1) for _ in range(1 + self.random.randrange(3))]}
        elif kind == 11:
            schema = {"oneOf": [self.string(), self.number(), {"type": "null"},
                                {"type": "object", "properties": {"t": {"const": 1}}, "required": ["t"]},
                                {"type": "object", "properties": {"t": {"enum": [2, "1"]}, "x": self.schema(depth - 1)},
                                 "required": ["t"]}]}
        else:
            names = self.random.sample(NAMES, self.random.randrange(5))
            schema = {"type": "object", "properties": {n: self.schema(depth - 1) for n in names},
                      "required": [n for n in names if self.random.random() < 0.5]}
            if self.random.random() < 0.3:
                schema["additionalProperties"] = False
        return schema

    def document(self) -> dict:
        if self.random.random() < 0.2:
            return {"$defs": {"a b": self.schema(2)}, "type": "array", "items": {"$ref": "#/$defs/a%20b"},
                    "maxItems": 3, "title": "t"}
        return self.schema(3)


def main() -> int:
    program, counts = sys.argv[1], [int(a) for a in sys.argv[2:]] + [300, 40, 1][len(sys.argv) - 2:]
    source = Schemas(counts[2])
    schemas = [source.document() for _ in range(counts[0])]
    result = subprocess.run([program, str(counts[1])], input="".join(json.dumps(s) + "\n" for s in schemas),
                            capture_output=True, text=True, check=True, timeout=300)
    formats = jsonschema.FormatChecker(formats=[])
    formats.checks("date", raises=ValueError)(
        lambda v: not isinstance(v, str) or bool(datetime.date.fromisoformat(v)))
    validators = [jsonschema.Draft202012Validator(s, format_checker=formats) for s in schemas]
    valid, refused, wrong = 0, 0, 0
    for line in result.stdout.rstrip("\n").split("\n"):
        row = json.loads(line)
        schema = schemas[row["schema"]]
        if "error" in row:
            refused += 1
            print("refused:", row["error"], json.dumps(schema)[:300])
            continue
        try:
            value = json.loads(row["text"])
            validators[row["schema"]].validate(value)
            valid += 1
        except (ValueError, jsonschema.ValidationError) as e:
            wrong += 1
            if wrong <= 5:
                print("wrong:", repr(row["text"]), json.dumps(schema)[:300], str(e)[:200])
    print(f"schema_test: {valid} valid, {wrong} not, {refused} of {len(schemas)} schemas refused")
    return 1 if wrong or refused or valid != counts[0] * counts[1] else 0


if __name__ == "__main__":
    sys.exit(main())
