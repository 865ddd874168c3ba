#!/usr/bin/env python3
"""`banyan model list` and `model path` on caches of every kind. Usage: test_model_list.py BANYAN MODEL"""
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

BANYAN, MODEL = (os.path.abspath(path) for path in sys.argv[1:3])
failures = 0


def check(ok, what):
    global failures
    if not ok:
        failures += 1
        print("FAIL", what)


def safetensors(dtype, width):
    header = json.dumps({"model.norm.weight": {"dtype": dtype, "shape": [4], "data_offsets": [0, 4 * width]}}).encode()
    return struct.pack("<Q", len(header)) + header + bytes(4 * width)


QWEN3 = {"model_type": "qwen3", "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 1,
         "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 32, "vocab_size": 300,
         "max_position_embeddings": 64, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "hidden_act": "silu"}
TOKENIZER = {"version": "1.0", "added_tokens": [], "normalizer": None, "pre_tokenizer": None, "post_processor": None,
             "decoder": None, "model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []}}
CARD = "---\nlanguage: en\nlicense: mit\n---\n# Model\nlicense: not this one\n"

with tempfile.TemporaryDirectory() as temporary:
    folder = pathlib.Path(temporary)
    hub, fetched = folder / "hub", folder / "cache" / "models"
    environment = {**os.environ, "HF_HUB_CACHE": str(hub), "BANYAN_CACHE": str(folder / "cache"),
                   "HOME": str(folder)}
    for name in ("BANYAN_MODEL", "OLLAMA_MODELS", "LLAMA_CACHE", "XDG_CACHE_HOME"):
        environment.pop(name, None)

    def run(*args, **variables):
        return subprocess.run([BANYAN, "model", *args], capture_output=True, text=True, timeout=60,
                              env={**environment, **variables})

    def repository(name, files):
        snapshot = hub / ("models--" + name.replace("/", "--")) / "snapshots" / "abc"
        snapshot.mkdir(parents=True)
        for file, content in files.items():
            if isinstance(content, bytes):
                (snapshot / file).write_bytes(content)
            elif content == MODEL:  # a link to a blob, as the cache has them
                os.symlink(MODEL, snapshot / file)
            else:
                (snapshot / file).write_text(content if isinstance(content, str) else json.dumps(content))
        return snapshot

    # Nothing here: the shipped one, and what can be fetched.
    empty = json.loads(run("list", "--json").stdout)
    check([m["where"] for m in empty] == ["shipped"] + 5 * ["fetchable"], f"empty caches: {empty}")
    licences = {"gemma-3-270m": "gemma"}
    check(all(m["runs"] and m["bytes"] > 1e7 and m["family"] and
              m["licence"] == licences.get(m["name"], "apache-2.0") for m in empty), f"what is known: {empty}")
    check(empty[0]["bytes"] == os.path.getsize(MODEL) and os.path.samefile(empty[0]["path"], MODEL), "the shipped file")
    names = run("get", "nothing")
    check(names.returncode == 2 and all(m["name"] in names.stderr for m in empty[1:]), f"get names them: {names.stderr}")

    # The ladder of readers, from a machine that cannot fetch: what it says was measured.
    nobody = folder / "bin" / "python3"
    nobody.parent.mkdir()
    nobody.write_text("#!/bin/sh\nexit 1\n")
    nobody.chmod(0o755)
    ladder = run("better", PATH=f"{nobody.parent}:{os.environ['PATH']}")
    rows = {line.split()[0]: line for line in ladder.stdout.splitlines() if line}
    check(ladder.returncode == 1 and "pip could not fetch" in ladder.stderr, f"no reader to be had: {ladder}")
    for size, measured in (("shipped", "measured.json"), ("small", "smollm2-reader/measured.json")):
        scores = json.loads((pathlib.Path(MODEL).parent / measured).read_text())["answers"]["natural"][1]
        said = f"{round(scores['exact'] * scores['questions'])} of {scores['questions']} "
        check(said in rows.get(size, ""), f"{size}: expected {said}, found {rows}")
    check({"medium", "large"} <= set(rows), f"sizes: {rows}")
    check(run("better", "--size", "huge").returncode == 2, "a size that is not known")

    good = repository("org/decoder", {"config.json": QWEN3, "model.safetensors": safetensors("F32", 4),
                                      "tokenizer.json": TOKENIZER, "README.md": CARD})
    repository("org/in-eight-bits", {"config.json": QWEN3, "model.safetensors": safetensors("F8_E4M3", 1),
                                     "tokenizer.json": TOKENIZER})
    repository("org/gguf", {"model-Q8_0.gguf": MODEL, "config.json": QWEN3})
    two = repository("org/two", {"model-Q8_0.gguf": MODEL, "model-Q4_0.gguf": MODEL})
    repository("org/state-space", {"config.json": {"model_type": "mamba"}, "model.safetensors": safetensors("F32", 4)})
    repository("org/pickled", {"config.json": QWEN3, "pytorch_model.bin": "x"})
    repository("org/wordless", {"config.json": QWEN3, "model.safetensors": safetensors("F32", 4)})
    repository("org/garbage", {"config.json": QWEN3, "model.safetensors": b"\xff" * 64, "tokenizer.json": TOKENIZER})
    (hub / "models--org--unfinished" / "blobs").mkdir(parents=True)
    (hub / "datasets--org--texts").mkdir()
    (fetched / "all-minilm-l6-v2").mkdir(parents=True)  # broken: still offered
    (fetched / "mine").mkdir()
    os.symlink(MODEL, fetched / "mine" / "model.gguf")
    (fetched / "fetch-abcdef").mkdir()  # a fetch under way

    rows = {(m["where"], m["name"]): m for m in json.loads(run("list", "--json").stdout)}
    runs = {key for key, m in rows.items() if m["runs"]}
    check(runs == {("shipped", "banyan-reader-34m"), ("fetched", "mine"), ("hf-cache", "org/decoder"),
                   ("hf-cache", "org/gguf"), ("hf-cache", "org/two:Q4_0"), ("hf-cache", "org/two:Q8_0"),
                   ("fetchable", "smollm2-135m-instruct"),
                   ("fetchable", "qwen2.5-coder-0.5b-instruct"), ("fetchable", "qwen2.5-coder-1.5b-instruct"),
                   ("fetchable", "gemma-3-270m"), ("fetchable", "all-minilm-l6-v2")}, f"what runs: {sorted(runs)}")
    for name, reason in {"in-eight-bits": "F8_E4M3", "state-space": "mamba",
                         "pickled": "pytorch_model.bin", "wordless": "tokenizer", "garbage": "model.safetensors",
                         "unfinished": "no snapshot"}.items():
        model = rows["hf-cache", "org/" + name]
        check(not model["runs"] and reason in model["reason"] and model["command"] is None, f"{name}: {model}")
    check(("fetched", "all-minilm-l6-v2") in rows and ("fetched", "fetch-abcdef") not in rows, "the model cache")
    check(len(rows) == 18, f"nothing else is listed: {sorted(rows)}")
    decoder = rows["hf-cache", "org/decoder"]
    size = sum((good / f).stat().st_size for f in ("config.json", "model.safetensors", "tokenizer.json"))
    check(decoder["licence"] == "mit" and decoder["family"] == "qwen3" and decoder["bytes"] == size, str(decoder))
    check(decoder["command"] == "ask" and decoder["path"] == str(good), str(decoder))
    check(rows["hf-cache", "org/gguf"]["licence"] == "apache-2.0", "a licence in a GGUF file")

    text = run("list").stdout
    lines = text.splitlines()
    check(lines[0].split() == ["NAME", "WHERE", "ON", "DISK", "FAMILY", "LICENCE", "RUNS", "WITH"], "the table's head")
    check("19.4 MB" in lines[1] and lines[1].endswith("banyan ask"), f"the first row: {lines[1]}")
    check(any(line.startswith("org/state-space cannot run: ") for line in lines), "why it cannot run")
    check("banyan model get NAME" in text and f"Without -m, ask uses {empty[0]['path']}" in text, "what to do next")
    check("Without -m, ask uses org/gguf" in run("list", BANYAN_MODEL="org/gguf").stdout, "BANYAN_MODEL in the list")
    listed = run("list", "--names").stdout.split()
    check(listed == ["banyan-reader-34m", "mine", "org/decoder", "org/gguf", "org/two:Q4_0", "org/two:Q8_0"],
          f"names: {listed}")

    about = run("info", MODEL)
    check(about.returncode == 0 and "runs             yes\n" in about.stdout and "licence " in about.stdout and
          about.stdout.count("\nmemory ") == 4, f"info of a model: {about.stdout}{about.stderr}")
    refused = run("info", "org/state-space")
    check(refused.returncode == 0 and "model_type 'mamba': not supported; supported: llama (" in refused.stdout and
          "\nruns             no: " in refused.stdout, f"info of what cannot run: {refused.stdout}{refused.stderr}")
    check(run("info", "org/nothing").returncode != 0, "info of nothing")

    check(run("path", "org/decoder").stdout == f"{good}\n", "path of a repository")
    check(os.path.samefile(run("path", "org/gguf").stdout.strip(), MODEL), "path of a GGUF file")
    check(run("path", "banyan-reader-34m").stdout == run("path").stdout == empty[0]["path"] + "\n", "path of the shipped")
    check(run("path", BANYAN_MODEL="mine").stdout.strip().endswith("mine/model.gguf"), "path of the default")
    check(run("path", "org/two").stdout.strip() == str(two / "model-Q8_0.gguf"), "the best of several")
    absent = run("path", "org/absent")
    check(absent.returncode == 2 and "org/absent" in absent.stderr, f"absent: {absent}")

print(f"model_list_test: {failures} failed")
sys.exit(1 if failures else 0)
