#!/usr/bin/env python3
"""`banyan ids` as a program: rows in order, error rows, exit codes, messages. Usage: test_ids.py BANYAN TINY_MODEL"""
import json
import subprocess
import sys

BANYAN, MODEL = sys.argv[1:3]
failures = 0


def check(ok: bool, what: str) -> None:
    global failures
    if not ok:
        failures += 1
        print("FAIL", what)


def run(args: list[str], lines: list[str] = ()) -> subprocess.CompletedProcess:
    text = "".join(line + "\n" for line in lines)
    return subprocess.run([BANYAN, *args], input=text, capture_output=True, text=True, timeout=120)


def ids(lines: list[str], *args: str) -> tuple[int, list[dict]]:
    result = run(["ids", "-m", MODEL, *args], lines)
    return result.returncode, [json.loads(line) for line in result.stdout.splitlines()]


greedy = json.dumps({"id": "g", "kind": "greedy", "ids": [1, 2, 3], "max_new": 4, "logprobs": True})

code, rows = ids([greedy])
check(code == 0 and len(rows[0]["tokens"]) == 4 and len(rows[0]["logprobs"]) == 4, "a greedy row")
check(all(x <= 0 for x in rows[0]["logprobs"]), "log-probabilities are not positive")

bad = [
    ('{"id":1,"kind":"greedy","ids":[1,99999999]}', "input", "99999999"),
    ('{"id":1,"kind":"greedy","ids":[-1]}', "input", "-1"),
    ('{"id":1,"kind":"greedy"}', "input", "'ids'"),
    ('{"id":1,"kind":"greedy","ids":[]}', "input", "empty"),
    ('{"id":1,"kind":"greedy","ids":"x"}', "input", "list"),
    ('{"id":1,"kind":"greedy","ids":[1.5]}', "input", "1.5"),
    ('{"id":1,"kind":"greedy","ids":[1],"max_new":-3}', "input", "max_new"),
    ('{"id":1,"kind":"dance"}', "input", "dance"),
    ('{"id":1}', "input", "'kind'"),
    ('not json', "input", "line"),
    ('[1,2]', "input", "object"),
    ('{"id":1,"kind":"stacked","p":[1],"contexts":7}', "input", "contexts"),
    (json.dumps({"id": 1, "kind": "greedy", "ids": [1] * 100000}), "limit", "context"),
    ('{"id":' + "[" * 200000 + "]" * 200000 + ',"kind":"greedy","ids":[1]}', "input", "nests"),
    ('{"id":1,"kind":"greedy","ids":' + "[" * 200000, "input", "nests"),
    ('{"id":1,"kind":"chat","messages":' + '[{"a":' * 300 + "1" + "}]" * 300 + "}", "input", "nests"),
    ('{"id":1,"kind":"mask","ids":[]}', "input", "'regex'"),
    ('{"id":1,"kind":"mask","regex":"a(b","ids":[]}', "input", "character 2"),
    ('{"id":1,"kind":"mask","regex":"(a|b)*a(a|b){24}","ids":[]}', "limit", "states"),
    ('{"id":1,"kind":"mask","regex":"[0-9]","ids":[0]}', "input", "token 0"),
    (json.dumps({"id": 1, "kind": "mask", "schema": '{"type":"string","multipleOf":2}', "ids": []}),
     "unsupported", "#/multipleOf"),
]
for line, kind, word in bad:
    code, rows = ids([line, greedy])
    check(code == 1 and len(rows) == 2, f"exit 1 and two rows for {line[:60]}")
    error = rows[0].get("error", {})
    check(error.get("kind") == kind and word in error.get("message", ""), f"{line[:60]} -> {error}")
    check("tokens" in rows[1], f"the row after {line[:60]} is answered")
code, rows = ids([line for line, _, _ in bad] + [greedy])
check(code == 1 and len(rows) == len(bad) + 1 and "tokens" in rows[-1], "all bad rows in one file")

# Ids that no double holds come back as they were written.
for number in ("123456789012345678901234567890", "-98765432109876543210", "1.10", "7"):
    line = '{"a":[{"id":1.5}],"id":%s,"kind":"greedy","ids":[1],"max_new":1,"b":{"id":2.5}}' % number
    out = run(["ids", "-m", MODEL], [line]).stdout
    check(f'"id":{number},' in out, f"the id {number} comes back as {out!r}")

stacked = {"id": "s", "kind": "stacked", "p": [5, 6], "max_new": 6, "logprobs": True,
           "contexts": [{"c": [7, 8, 9], "questions": [{"x": [1]}, {"x": []}, {"x": [2, 3]}]},
                        {"c": [], "questions": [{"x": [4]}]}]}
alone = []
for context in stacked["contexts"]:
    for question in context["questions"]:
        alone.append(json.dumps({"id": len(alone), "kind": "greedy", "logprobs": True, "max_new": 6,
                                 "ids": stacked["p"] + context["c"] + question["x"]}))
_, separate = ids(alone, "--one-by-one")
for strategy in ("flat", "paged", "stacked", "tree", "auto"):
    code, rows = ids([json.dumps(stacked)], "--strategy", strategy)
    flat = [answer for context in rows[0]["answers"] for answer in context]
    check(code == 0 and flat == [row["tokens"] for row in separate], f"stacked under {strategy}")
code, rows = ids([json.dumps({"id": 0, "kind": "stacked", "p": [], "contexts": []})])
check(code == 0 and rows[0]["answers"] == [], "no contexts: no answers")
# Rows come in the order of the input, however long each takes.
lines = [json.dumps({"id": i, "kind": "greedy", "ids": [1 + i % 7], "max_new": 1 + 5 * (i % 3)}) for i in range(50)]
code, rows = ids(lines)
check([row["id"] for row in rows] == list(range(50)), "rows in order")

_, rows = ids([json.dumps({"id": i, "kind": "tokenize", "text": t}) for i, t in enumerate(["8", "4"])])
digits = [row["ids"][-1] for row in rows]
_, rows = ids([json.dumps({"id": i, "kind": "mask", "regex": "[0-9]{1,2}", "ids": digits[:i]}) for i in range(3)])
check([row["end"] for row in rows] == [False, True, True], f"masks end where the text matches: {rows}")
check(digits[0] in rows[0]["tokens"] and rows[2]["allowed"] == 0 and rows[2]["tokens"] == [], "masks of digits")
_, rows = ids([json.dumps({"id": 0, "kind": "mask", "schema": '{"type":"integer","minimum":1}', "ids": digits})])
check(rows[0]["end"] is True and rows[0]["allowed"] > 1, "masks of a schema")

for args, word in [
    ([], "Usage: banyan"),
    (["dance"], "Try 'banyan --help'"),
    (["ids", "--bogus"], "--bogus"),
    (["ids"], "-m"),
    (["ids", "-m", "no/such-model"], "no/such-model"),
    (["ids", "-m", MODEL, "--strategy", "x"], "stacked"),
    (["ids", "-m", MODEL, "--precision", "f64"], "f32, mixed"),
    (["ids", "-m", MODEL, "--device", "abacus"], "abacus"),
    (["ids", "-m", MODEL, "--kv-memory", "lots"], "512M"),
    (["ids", "-m", MODEL, "--kv-memory", "1"], "pages"),
    (["ids", "-m", MODEL, "/no/such/file"], "/no/such/file"),
    (["model", "show", "/no/such/model.gguf"], "/no/such/model.gguf"),
]:
    result = run(args)
    check(result.returncode == 2 and word in result.stderr and result.stdout == "",
          f"{args}: {result.returncode} {result.stderr.strip()[:100]}")
for args in (["--help"], ["ids", "--help"], ["model", "--help"], ["bench", "forest", "--help"], ["--version"]):
    result = run(args)
    check(result.returncode == 0 and result.stdout, f"{args} prints help")
result = run(["model", "show", MODEL])
check(result.returncode == 0 and "architecture" in result.stdout, "model show")

print(f"{'ids_test'}: {failures} failed")
sys.exit(1 if failures else 0)
