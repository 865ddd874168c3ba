#!/usr/bin/env python3
"""One model in several shards (--tensor-parallel): every number of every answer is that of one. Logits, greedy answers,
stacked contexts, experts and adapters of small models of many families, on cpu and reference, in both
precisions; keys and values stored by one division and read by another. With `cuda`: on a GPU, each family in one
precision. Usage: test_shards.py BANYAN [cuda]"""
import concurrent.futures
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

BANYAN = sys.argv[1]
DEVICE = sys.argv[2] if len(sys.argv) > 2 else "cpu"
ORACLES = Path(__file__).resolve().parents[1] / "oracles"
SHIPPED = Path(__file__).resolve().parents[2] / "models" / "banyan-reader-34m.gguf"
failures = checks = 0


def check(ok: bool, what: str) -> None:
    global failures, checks
    checks += 1
    if not ok:
        failures += 1
        print("FAIL", what)


def run(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess:
    return subprocess.run([BANYAN, *arguments], input=stdin, capture_output=True, text=True, timeout=280)


def rows_of(golden: dict) -> str:
    rows = []
    for i, prompt in enumerate(golden["prompts"][:3]):
        rows.append({"id": f"l{i}", "kind": "logits", "ids": prompt["ids"]})
        rows.append({"id": f"g{i}", "kind": "greedy", "ids": prompt["ids"], "max_new": 6, "logprobs": True})
    if "stacked" in golden:
        s = golden["stacked"]
        contexts = [{"c": c["c"], "questions": [{"x": q["x"]} for q in c["questions"]]} for c in s["contexts"]]
        rows.append({"id": "s", "kind": "stacked", "p": s["p"], "contexts": contexts, "max_new": 4})
    if "experts" in golden:
        e = golden["experts"]
        rows.append({"id": "e", "kind": "experts", "system": e["system"], "documents": e["documents"],
                     "question": e["question"], "r": e["r"], "max_new": 4, "logprobs": True})
    return "".join(json.dumps(row) + "\n" for row in rows)


def answers(model: Path, text: str, *options: str) -> str:
    done = run("ids", "-m", str(model), "--kv-memory", "64M", *options, stdin=text)
    check(done.returncode == 0, f"{model.name} {options}: exit {done.returncode}: {done.stderr[-300:]}")
    return done.stdout


def families_on_cuda(folders: list) -> None:
    """One precision and number of shards for each family, side by side: starting a program takes most of the time."""
    def compare(i: int) -> None:
        text = rows_of(json.loads((folders[i] / "golden.json").read_text()))
        options = ("--device", DEVICE, "--precision", ("f32", "mixed", "w8a8")[i % 3])
        shards = "2348"[i // 3 % 4]
        alone, divided = (answers(folders[i], text, *options, "--tensor-parallel", n) for n in ("1", shards))
        check(divided == alone != "", f"{folders[i].name} {options}: {shards} shards differ from one")

    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        list(pool.map(compare, range(len(folders))))


def families() -> None:
    folders = sorted(p.parent for group in ("models", "families", "hybrids") for p in ORACLES.glob(f"{group}/*/golden.json"))
    check(len(folders) >= 15, f"{len(folders)} models")
    if DEVICE == "cuda":
        return families_on_cuda(folders)
    for i, folder in enumerate(folders):
        text = rows_of(json.loads((folder / "golden.json").read_text()))
        for device, precision in (("cpu", "f32"), ("cpu", "mixed"), ("reference", "f32")):
            options = ("--device", device, "--precision", precision)
            alone = answers(folder, text, *options)
            # All numbers of shards over the models; each model has one below and one above its key heads.
            for shards in {2, (3, 4, 8)[i % 3]} if device != "reference" else {(2, 3)[i % 2]}:
                divided = answers(folder, text, *options, "--tensor-parallel", str(shards))
                check(divided == alone and divided != "", f"{folder.name} {options}: {shards} shards differ from one")


def shipped() -> None:
    """Quantised weights, a tied embedding, a whole job with copying."""
    job = "".join(json.dumps({"id": n, "context": f"The ferry number {n} leaves at {n + 3}:45 from Lisbon.",
                              "questions": ["When does it leave?", "From where?"]}) + "\n" for n in range(6))
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "in.jsonl")
        source.write_text(job)
        common = ("ask", str(source), "-m", str(SHIPPED), "--quiet", "--ordered", "--device", DEVICE, "--kv-memory", "256M")
        alone = run(*common)
        check(alone.returncode == 0 and alone.stdout.count("\n") == 12, alone.stderr)
        for shards in "235":
            divided = run(*common, "--tensor-parallel", shards)
            check(divided.stdout == alone.stdout, f"ask: {shards} shards differ from one: {divided.stderr[-200:]}")
        # What one division stores another one reads.
        store = str(Path(folder, "kv"))
        added = run("kv", "add", store, str(source), "-m", str(SHIPPED), "--tensor-parallel", "3", "--device", DEVICE)
        check(added.returncode == 0, added.stderr[-300:])
        for shards in "12":
            again = run(*(word for word in common if word != "--quiet"), "--verbose", "--kv-store", store,
                        "--tensor-parallel", shards)
            check(again.stdout == alone.stdout, f"keys and values stored by 3 shards, read by {shards}")
            check(bool(re.search(r"kv store +[1-9][0-9]* tokens loaded", again.stderr)),
                  f"nothing was loaded: {again.stderr[-400:]}")


def adapters() -> None:
    """Merged into the weights; those kept apart are in adapters_apart_test.cc."""
    for adapter in ("llama-tied", "phi3", "qwen3"):
        text = json.dumps({"id": "g", "kind": "greedy", "ids": [3, 5, 7, 9], "max_new": 6, "logprobs": True}) + "\n"
        options = ("--adapter", str(ORACLES / "lora" / adapter), "--device", DEVICE)
        divided, alone = (answers(ORACLES / "models" / adapter, text, *options, "--tensor-parallel", n) for n in "21")
        check(divided == alone != "", f"{adapter}: an adapter differs in two shards")


def refusals() -> None:
    def refused(expected: str, *options: str) -> None:
        done = run("ids", "-m", str(SHIPPED), *options)
        check(done.returncode == 2 and expected in done.stderr, f"{options}: {done.returncode} {done.stderr}")

    for shards in ("-1", "65", "two"):
        refused("--tensor-parallel", "--tensor-parallel", shards)
    refused("one device or a multiple of 2, found 3", "--tensor-parallel", "2", "--device", "cpu,cpu,cpu")
    if DEVICE == "cuda":
        refused("--fast with --tensor-parallel 2", "--tensor-parallel", "2", "--device", "cuda", "--precision", "mixed", "--fast")


def devices() -> None:
    """Places that compute a model together, and what is predicted of them."""
    job = "".join(json.dumps({"id": n, "context": f"The ferry number {n} leaves at {n + 3}:45 from Lisbon.",
                              "question": "When does it leave?"}) + "\n" for n in range(8))
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "in.jsonl")
        source.write_text(job)
        common = ("ask", str(source), "-m", str(SHIPPED), "--quiet", "--ordered")
        alone = run(*common).stdout
        check(alone.count("\n") == 8, "eight rows")
        for places, shards, names in (("cpu,cpu", "2", ["cpu#1+2"]), ("cpu,cpu,cpu,cpu", "2", ["cpu#1+2", "cpu#3+4"]),
                                      ("cpu,cpu", "0", ["cpu#1", "cpu#2"])):
            receipt = Path(folder, "receipt.json")
            divided = run(*common, "--device", places, "--tensor-parallel", shards, "--receipt", str(receipt))
            check(divided.stdout == alone, f"{places} in {shards}: {divided.stderr[-300:]}")
            found = [device["name"] for device in json.loads(receipt.read_text())["devices"]]
            check(found == names, f"{places} in {shards}: devices {found}")
            receipt.unlink()
        explained = run(*common[:-2], "--explain", "--overwrite", "-o", str(Path(folder, "out.jsonl"))).stderr
        lines = re.findall(r"^ +([0-9]+) +([0-9.e-]+) s +(-|[0-9.e-]+ s) +[0-9]+ MiB +(-|[0-9]+ MiB)$", explained, re.M)
        check([line[0] for line in lines] == ["1", "2", "4", "8"], f"--explain: {explained}")
        check("a whole model on cpu; predicted" in explained and "(assumed)" in explained, f"--explain: {explained}")
        if len(lines) == 4:
            check(float(lines[0][1]) > float(lines[1][1]) > float(lines[3][1]) > 0, f"--explain: {lines}")
        dry = run(*common[:-2], "--dry-run")
        told = json.loads(dry.stdout)["predictions"]
        check([p["devices"] for p in told] == [2, 4, 8], f"--dry-run: {told}")
        check(told[0]["seconds_by_document"] > told[2]["seconds_by_document"] > 0, f"--dry-run: {told}")
        check(told[0]["shard_bytes"] > told[2]["shard_bytes"] > 0, f"--dry-run: {told}")


families()
shipped()
adapters()
refusals()
if DEVICE == "cpu":
    devices()
print(f"{checks - failures} of {checks} hold")
sys.exit(failures > 0)
