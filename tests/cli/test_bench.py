#!/usr/bin/env python3
"""`banyan bench` as a program, on a tiny random model: jobs, grids, literals, messages. Usage: test_bench.py BANYAN"""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

BANYAN = sys.argv[1]
failures = 0


def check(ok: bool, what: str) -> None:
    global failures
    if not ok:
        failures += 1
        print("FAIL", what)


def bench(*args: str) -> subprocess.CompletedProcess:
    return subprocess.run([BANYAN, "bench", *args], capture_output=True, text=True, timeout=120)


def figures(*args: str):
    done = bench(*args, "--json", "-")
    check(done.returncode == 0, f"{args}: exit code {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)


JOBS = {"squad2": ([1, 2, 9], [47, 178, 13], 4), "narrativeqa": ([1, 2, 30], [2754, 737, 12], 6),
        "race": ([1, 2, 4], [40, 344, 40], 1), "longhealth": ([1, 2, 20], [73, 11720, 73], 1)}
for name, (branches, lengths, new) in JOBS.items():
    if name == "longhealth":  # its prompts are long: the names and counts are enough
        check("11720" in bench(name, "--help").stdout or "11720" in bench("--help").stdout, "longhealth's counts")
        continue
    found = figures(name, "--shape", "tiny", "--random", "--documents", "2", "--strategies", "auto,flat,no-attention")
    check((found["branches"], found["lengths"], found["max_new"]) == (branches, lengths, new), f"{name}: its counts")
    streams = branches[1] * branches[2]
    auto, flat, ceiling = found["strategies"]
    check(auto["streams"] == streams and ceiling["streams"] == streams, f"{name}: all streams")
    check(1 <= flat["streams"] <= streams and flat["prompt_tokens"] <= 2000 + sum(lengths), f"{name}: flat runs some")
    check(auto["generated_tokens"] == streams * new, f"{name}: every answer has its length")
    check(auto["prefilled_tokens"] == lengths[0] + 2 * lengths[1] + streams * lengths[2], f"{name}: shared once")

for literal, branches, lengths in [("2 documents x 3 questions | 8, 40, 5 tokens", [1, 2, 3], [8, 40, 5]),
                                   ("2 documents \u00d7 3 questions | 8, 40, 5", [1, 2, 3], [8, 40, 5]),
                                   ("4 streams | 30 tokens", [4], [30]), ("2x3|8/40", [2, 3], [8, 40])]:
    found = figures("tree", literal, "--shape", "tiny", "--max-new", "2", "--strategies", "tree,flat")
    check((found["branches"], found["lengths"]) == (branches, lengths), f"literal {literal}")
for literal in ["8 documents 64", "a | 3", "2 x 3 | 4", "2 x 3 | 4, 5, 6, 7", "0 x 3 | 3, 4", "2 x | 3, 4", "2 y 3 | 3, 4",
                "2 | 99999999999999999999", "", "|", "2 | 3,"]:
    done = bench("tree", literal, "--shape", "tiny")
    check(done.returncode == 2 and "banyan: " in done.stderr, f"literal {literal!r} is refused: {done.stderr}")

# Many benchmarks in one process: a reply for each, what they print on stderr, and the next goes on after an error.
LINES = [["tree", "3 streams | 30 tokens", "--shape", "tiny", "--max-new", "2", "--strategies", "tree", "--json", "-"],
         ["squad2", "--nonsense"], ["race", "--shape", "tiny", "--documents", "1", "--strategies", "auto"]]
for more, status in (([], [0, 2, 0]), (["--check"], [0, 2, 0])):
    done = subprocess.run([BANYAN, "bench", "lines", *more], capture_output=True, text=True, timeout=120,
                          input="".join(json.dumps(words) + "\n" for words in LINES))
    replies = [json.loads(line) for line in done.stdout.splitlines()]
    check(replies == [{"line": n, "exit": e} for n, e in enumerate(status, 1)], f"lines {more}: {done.stdout}")
    check(done.returncode == 1 and "no option '--nonsense'" in done.stderr, f"lines {more}: {done.stderr}")
    check(('"branches"' in done.stderr) == (more == []), f"lines {more}: what is run, and where it prints")
for wrong in ("squad2", "[]", "[1]", '{"a": 1}'):
    done = subprocess.run([BANYAN, "bench", "lines"], capture_output=True, text=True, timeout=120, input=wrong + "\n")
    check(done.returncode == 2 and "line 1: expected the words" in done.stderr, f"lines {wrong}: {done.stderr}")

found = figures("rag", "--shape", "tiny", "--documents", "3", "--document-tokens", "60", "--max-new", "3", "--threads", "1", "--repeat", "2")
kinds = ("experts, documents computed", "experts, documents in memory", "one prompt")
check(all(0 < found[kind]["first_token_seconds"] <= found[kind]["seconds"] for kind in kinds), "waits over documents")
check(found["first_token_gain"] > 0 and found["gain"] > 0, "gains over one prompt")

found = figures("step", "--shape", "tiny", "--streams", "1,3", "--prefix", "20", "--prompt", "7", "--runs", "1")
check([(s["streams"], s["rows"], s["prefix"]) for s in found["steps"]] == [(1, 7, 0), (1, 1, 20), (3, 3, 20)], "steps")
for step in found["steps"]:
    parts = {part["name"]: part for part in step["operations"]}
    check({"qkv", "attention", "output", "gate, up", "down", "logits", "choice"} <= parts.keys(), "a step's operations")
    check(all(part["seconds"] > 0 for part in parts.values()) and step["seconds"] > 0, "times of a step")
    check(parts["down"]["flops"] == 2 * 2 * 64 * 160 * step["rows"], "flops of two layers' down projections")
done = bench("ops", "--shape", "tiny", "--weights", "q4_0", "--streams", "2", "--prefix", "0", "--prompt", "5", "--runs", "1")
check(done.returncode == 0 and "| gate, up |" in done.stdout and "2 x 0: " in done.stdout, f"operations: {done.stderr}")
done = bench("step", "--shape", "tiny", "--prefix", "99999999")
check(done.returncode == 2 and "within a context of" in done.stderr, "a prefix beyond the context")

with tempfile.NamedTemporaryFile("r", suffix=".json") as file:
    done = bench("shared", "--shape", "tiny", "--streams", "1,5", "--prefix", "40,70", "--max-new", "4", "--json", file.name)
    with open(file.name, encoding="utf-8") as written:  # the file is replaced as a whole
        cells = json.load(written)
check(done.returncode == 0 and done.stdout.startswith("shared: ") and "| 5 | 70 | auto |" in done.stdout, "a grid")
check([(c["streams"], c["lengths"][0]) for c in cells] == [(1, 40), (1, 70), (5, 40), (5, 70)], "a grid's cells")
check(cells[3]["strategies"][0]["decode_steps"] == 3, "streams of a cell run together")

done = bench("attention", "--only", "documents x 9", "--heads", "2", "--kv-heads", "1", "--head-dim", "16", "--runs", "1")
check(done.returncode == 0 and "32 documents x 9" in done.stdout and "prefill" not in done.stdout.split("\n\n")[1],
      f"attention alone: {done.stdout}{done.stderr}")

done = bench("attention", "3 streams | 40, 8 tokens", "--costs", "--heads", "2", "--kv-heads", "1", "--head-dim", "16", "--runs", "1")
check(done.returncode == 0 and "\ncosts: step " in done.stdout and "| predicted |" in done.stdout, f"costs of attention: {done.stdout}{done.stderr}")

found = figures("grid", "--shape", "tiny", "--forests", "5", "--minutes", "0.2", "--no-measure-costs")
check(0 < found["measured"] <= found["forests"] == 5 and len(found["cells"]) == found["measured"], f"a grid of forests: {found}")
for cell in found["cells"]:
    check(set(cell["seconds"]) == {"auto", "tree", "paged"} and cell["best"] in ("tree", "paged"), f"a forest's strategies: {cell}")
    check(cell["rounds"] >= 1 and cell["auto_over_best"] > 0 and cell["steps_apart"] <= cell["steps"], f"a forest's figures: {cell}")
    check(cell["predicted_seconds"] > 0, f"a prediction: {cell}")
check(found["worst"] == max(cell["auto_over_best"] for cell in found["cells"]), "the worst of a grid")
done = bench("grid", "--shape", "tiny", "--forests", "1", "--minutes", "0.05", "--strategies", "tree")
check(done.returncode == 0 and "1 of 1 forests; auto / best fixed at worst " in done.stdout, f"a grid's summary: {done.stdout}{done.stderr}")
done = bench("grid", "--shape", "tiny", "--strategies", "auto")
check(done.returncode == 2 and "no fixed one" in done.stderr, f"a grid without fixed strategies: {done.stderr}")

root = pathlib.Path(__file__).resolve().parents[2]
with tempfile.NamedTemporaryFile("wb", suffix=".txt") as file:
    file.write("The ferry leaves at 7:45.\n\nÉté in Paris\n".encode())
    file.flush()
    given = {"--tokenizer": str(root / "tests/data/tokenizers/byte_level_bpe.json"), "-m": str(root / "models/banyan-reader-34m.gguf")}
    for option, path in given.items():
        found = figures("text", option, path, file.name, "--runs", "2")
        check((found["documents"]["texts"], found["whole"]["texts"]) == (2, 1), f"text {option}: lines and file")
        check((found["documents"]["bytes"], found["whole"]["bytes"]) == (39, 42), f"text {option}: bytes")
        check(found["whole"]["decoded_bytes"] == 42, f"text {option}: decodes to what it was")
        one = json.dumps({"id": 1, "kind": "tokenize", "text": "The ferry leaves at 7:45."}), json.dumps({"id": 2, "kind": "tokenize", "text": "Été in Paris"})
        value = 0xCBF29CE484222325
        if option == "-m":
            rows = subprocess.run([BANYAN, "ids", option, path], input="\n".join(one), capture_output=True, text=True, timeout=60)
            for line in rows.stdout.splitlines():
                for token in json.loads(line)["ids"]:
                    value = ((value ^ token) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
            check(found["documents"]["ids_hash"] == f"{value:016x}", "text: the hash of the ids")
    done = bench("text", "--tokenizer", given["--tokenizer"], file.name)
    check(done.returncode == 0 and "| encode | lines | 2 |" in done.stdout and "ids: lines " in done.stdout, f"text: {done.stdout}")

# Guesses never change a token, or the command fails; the words of the question and the text are found again.
with tempfile.TemporaryDirectory() as folder:
    pages, schema = pathlib.Path(folder, "pages.jsonl"), pathlib.Path(folder, "schema.json")
    pages.write_text('{"id":1,"text":"Kelvora Trail kettle. Brand: Kelvora. Colour: moss green."}\n')
    schema.write_text('{"attributes":[{"name":"brand"},{"name":"colour"}]}')
    asked = pathlib.Path(folder, "asked.jsonl")
    asked.write_text('{"id":1,"context":"Anna Walker steers the ferry Marigold.","questions":[{"question":"Who steers the ferry Marigold?"}]}\n')
    model = str(root / "models/banyan-reader-34m.gguf")
    ways = {w["way"]: w for w in figures("draft", str(pages), "--schema", str(schema), "-m", model, "--draft-model", model)["ways"]}
    check(list(ways) == ["skeleton", "isolated", "sequential", "sequential, plain steps", "sequential, template known", "sequential, prompt lookup",
                         "sequential, draft model"], f"draft: ways {list(ways)}")
    plain, known, itself = (ways[f"sequential, {name}"] for name in ("plain steps", "template known", "draft model"))
    check(plain["guessed"] == 0 and plain["tokens_per_turn"] == 1, f"draft: no guesses: {plain}")
    check(known["kept"] == known["known"] == known["guessed"] > 5, f"draft: what the template says is right: {known}")
    check(itself["kept"] == itself["guessed"] and itself["steps"] < known["steps"] < plain["steps"], f"draft: the model itself is right: {itself}")
    ways = {w["way"]: w for w in figures("draft", str(asked), "-m", model)["ways"]}
    check(list(ways) == ["engine", "engine, plain steps", "engine, prompt lookup"] and ways["engine, prompt lookup"]["tokens"] == ways["engine"]["tokens"], f"draft: {ways}")

# Values of documents: every stack with every batch, and the rivals once for each batch. A batch ends before the next begins.
found = figures("extract", "--shape", "tiny", "--documents", "4", "--attributes", "2", "--lengths", "8,8,2", "--value-lengths", "2,2",
                "--stack", "2,4", "--batch", "1,2")
cells = {(m["values"], m["stack"], m["batch"]): m for m in found["modes"]}
check(len(found["modes"]) == 10 and {c[1:] for c in cells if c[0] == "skeleton, stacked"} == {(s, b) for s in (2, 4) for b in (1, 2)}, f"extract: {list(cells)}")
check(all(cells["sequential", 1, b]["times_sequential"] == 1 for b in (1, 2)), "extract: sequential values of the same batch are the measure")
check(cells["skeleton", 1, 2]["steps"] < cells["skeleton", 1, 1]["steps"], "extract: prompts of a batch share their steps")
check(cells["skeleton, stacked", 4, 1]["steps"] < cells["skeleton", 1, 1]["steps"], "extract: documents of a stack share their steps")
found = figures("hydragen", "--shape", "tiny", "--streams", "2", "--prefix", "20", "--max-new", "3")
check([s["strategy"] for s in found[0]["strategies"]] == ["auto", "paged", "flat", "no-attention"], "hydragen: prefix caching beside it")
shapes = bench("shared", "--shape", "nope").stderr
check(all(name in shapes for name in ("codellama-13b", "codellama-34b", "yi-6b", "llama-160m", "sheared-llama-1.3b")), f"shapes of the papers: {shapes}")

compare = pathlib.Path(__file__).resolve().parents[2] / "bench" / "compare.py"
done = subprocess.run([sys.executable, "-B", compare, "--banyan", BANYAN, "--shape", "tiny", "--rival", "none",
                       "tree '2 x 2 | 9, 5, 3 tokens' --max-new 2", "shared --streams 2 --prefix 20 --max-new 3"],
                      capture_output=True, text=True, timeout=120)
check(done.returncode == 0 and "| shared, 2 streams on 20 | decode tok/s |" in done.stdout and "| tree |" in done.stdout,
      f"compare.py: {done.stdout}{done.stderr}")

for args, words in [(["squad2"], "--shape"), (["squad2", "--random", "-m", "x"], "--shape"),
                    (["squad2", "--shape", "nope"], "qwen3-8b"), (["shared", "--shape", "tiny", "--strategies", "a"], "paged"),
                    (["attention", "--heads", "3"], "divide"), (["forest", "--shape", "tiny", "--weights", "q2"], "bf16"),
                    (["draft", "/no/such/file.jsonl", "-m", str(root / "models/banyan-reader-34m.gguf")], "/no/such/file.jsonl"),
                    (["text", "x.txt"], "--tokenizer"), (["text", "--tokenizer", "/no/such/file", "x.txt"], "/no/such/file"),
                    (["race", "--shape", "tiny", "--kv-memory", "64K"], "KV memory"),
                    (["forest", "--shape", "tiny", "--json", "/no/such/folder/x"], "/no/such/folder/x")]:
    done = bench(*args)
    check(done.returncode == 2 and words in done.stderr, f"{args}: {done.returncode} {done.stderr}")

# The program that has no benchmarks itself names them all.
shown = re.findall(r"^  (\w\S*)", bench("--help").stdout.split("Commands:\n")[1], re.MULTILINE)
page = subprocess.run([BANYAN, "man", "banyan-bench"], capture_output=True, text=True, timeout=60).stdout
named = next(line for line in page.splitlines() if line.startswith("What to measure"))
check(len(shown) > 10 and all(name in re.split(r"[^\w]+", named) for name in shown), f"{shown} and {named}")
with tempfile.TemporaryDirectory() as folder:
    alone = shutil.copy(BANYAN, folder)
    missing = subprocess.run([alone, "bench", "forest"], capture_output=True, text=True, timeout=60, env={"PATH": "/nowhere"})
    check(missing.returncode == 2 and "banyan-bench" in missing.stderr and folder in missing.stderr, missing.stderr)

print(f"bench_test: {failures} wrong")
sys.exit(1 if failures else 0)
