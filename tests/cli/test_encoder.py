#!/usr/bin/env python3
"""The program on encoders: `embed`, `ids` kinds embed and rerank, what is refused. Usage: test_encoder.py BANYAN DECODER"""
import json
import math
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

BANYAN, DECODER = sys.argv[1:3]
HIDDEN, FFN, VOCAB, CONTEXT = 16, 32, 40, 50
failures = 0


def check(ok: bool, what: str) -> None:
    global failures
    if not ok:
        failures += 1
        print("FAIL", what)


def ids(model: str, lines: list[dict], *args: str) -> tuple[int, list[dict]]:
    text = "".join(json.dumps(line) + "\n" for line in lines)
    done = subprocess.run([BANYAN, "ids", "-m", str(model), *args], input=text, capture_output=True, text=True,
                          timeout=120)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


def write_safetensors(path: pathlib.Path, tensors: dict[str, list[int]], seed: int = 7) -> None:
    """Random float32 values, the same on every run."""
    generator, header, data = random.Random(seed), {}, b""
    for name, shape in tensors.items():
        values = [generator.gauss(0, 0.3) for _ in range(math.prod(shape))]
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + 4 * len(values)]}
        data += struct.pack(f"<{len(values)}f", *values)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def network(prefix: str = "") -> dict[str, list[int]]:
    tensors: dict[str, list[int]] = {}

    def linear(name: str, outputs: int, inputs: int) -> None:
        tensors[f"{prefix}{name}.weight"] = [outputs, inputs]
        tensors[f"{prefix}{name}.bias"] = [outputs]

    def norm(name: str) -> None:
        tensors[f"{prefix}{name}.weight"] = tensors[f"{prefix}{name}.bias"] = [HIDDEN]

    for name, rows in (("word", VOCAB), ("position", CONTEXT + 2), ("token_type", 1)):
        tensors[f"{prefix}embeddings.{name}_embeddings.weight"] = [rows, HIDDEN]
    norm("embeddings.LayerNorm")
    layer = "encoder.layer.0."
    for name in ("self.query", "self.key", "self.value", "output.dense"):
        linear(layer + "attention." + name, HIDDEN, HIDDEN)
    norm(layer + "attention.output.LayerNorm")
    linear(layer + "intermediate.dense", FFN, HIDDEN)
    linear(layer + "output.dense", HIDDEN, FFN)
    norm(layer + "output.LayerNorm")
    return tensors


def write_tokenizer(folder: pathlib.Path) -> None:
    words = ["[CLS]", "[PAD]", "[SEP]", "[UNK]"] + [f"w{i}" for i in range(VOCAB - 4)]
    special = [{"id": i, "content": words[i], "single_word": False, "lstrip": False, "rstrip": False,
                "normalized": False, "special": True} for i in range(4)]
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "added_tokens": special,
        "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "lowercase": True},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                       {"SpecialToken": {"id": "[SEP]", "type_id": 0}}],
            "pair": [],
            "special_tokens": {word: {"id": word, "ids": [i], "tokens": [word]} for i, word in ((0, "[CLS]"), (2, "[SEP]"))}},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                  "max_input_chars_per_word": 100, "vocab": {word: i for i, word in enumerate(words)}}}))


def write_model(folder: pathlib.Path, architecture: str, tensors: dict[str, list[int]]) -> None:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({
        "architectures": [architecture], "model_type": "xlm-roberta", "vocab_size": VOCAB, "hidden_size": HIDDEN,
        "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": FFN, "pad_token_id": 1,
        "bos_token_id": 0, "eos_token_id": 2, "max_position_embeddings": CONTEXT + 2}))
    write_safetensors(folder / "model.safetensors", tensors)


with tempfile.TemporaryDirectory() as name:
    embedder, reranker = pathlib.Path(name) / "embedder", pathlib.Path(name) / "reranker"
    write_model(embedder, "XLMRobertaModel", network())
    write_safetensors(embedder / "heads.safetensors", {
        "sparse_linear.weight": [1, HIDDEN], "sparse_linear.bias": [1],
        "colbert_linear.weight": [HIDDEN, HIDDEN], "colbert_linear.bias": [HIDDEN]}, seed=8)
    head = {"classifier.dense.weight": [HIDDEN, HIDDEN], "classifier.dense.bias": [HIDDEN],
            "classifier.out_proj.weight": [1, HIDDEN], "classifier.out_proj.bias": [1]}
    write_model(reranker, "XLMRobertaForSequenceClassification", {**network("roberta."), **head})

    texts = [[0] + [3 + (7 * i + j) % (VOCAB - 3) for j in range(1 + i)] + [2] for i in range(40)]
    embed = [{"id": i, "kind": "embed", "ids": text} for i, text in enumerate(texts)]
    code, rows = ids(embedder, embed)
    check(code == 0 and [row["id"] for row in rows] == list(range(len(texts))), "embeddings in order")
    for row, text in zip(rows, texts):
        check(abs(sum(x * x for x in row["dense"]) - 1) < 1e-5, "a vector of length 1")
        check(len(row["colbert"]) == len(text) - 1, "a vector for every token but the first")
        check(set(map(int, row["sparse"])) <= set(text) - {0, 1, 2}, "weights of the text's own tokens")
        check(all(weight > 0 for weight in row["sparse"].values()), "weights above 0")
    check(any(row["sparse"] for row in rows), "some weights")
    for args in (["--one-by-one"], ["--batch-rows", "30"], ["--threads", "1"], ["--strategy", "flat"]):
        check(ids(embedder, embed, *args) == (0, rows), f"the same bits with {args}")

    rerank = [dict(line, kind="rerank") for line in embed]
    code, logits = ids(reranker, rerank)
    check(code == 0 and len({row["logit"] for row in logits}) > 30, "a logit for every pair")
    check(ids(reranker, rerank, "--one-by-one") == (0, logits), "the same bits alone")

    good = {"id": "good", "kind": "embed", "ids": [0, 5, 2]}
    for line, kind, word in [
        ({"kind": "embed", "ids": []}, "input", "empty"),
        ({"kind": "embed", "ids": [VOCAB]}, "input", str(VOCAB)),
        ({"kind": "embed", "ids": [0] * (CONTEXT + 1)}, "limit", "context"),
        ({"kind": "embed"}, "input", "'ids'"),
        ({"kind": "rerank", "ids": [0, 2]}, "unsupported", "no reranker"),
        ({"kind": "greedy", "ids": [1]}, "unsupported", "encoder"),
        ({"kind": "logits", "ids": [1]}, "unsupported", "encoder"),
    ]:
        code, rows = ids(embedder, [dict(line, id="bad"), good])
        error = rows[0].get("error", {})
        check(code == 1 and error.get("kind") == kind and word in error["message"], f"{line}: {error}")
        check("dense" in rows[1], f"the row after {line} is answered")
    _, rows = ids(reranker, [good])
    check("reranker" in rows[0]["error"]["message"], "a reranker has no vectors")
    for kind in ("embed", "rerank"):
        code, rows = ids(DECODER, [{"id": 1, "kind": kind, "ids": [1, 2]}])
        check(code == 1 and "encoder" in rows[0]["error"]["message"], f"{kind} on a decoder")

    write_tokenizer(embedder)
    lines = [{"id": i, "text": " ".join(f"w{(5 * i + j) % 30}" for j in range(i))} for i in range(CONTEXT + 4)]

    def run_embed(lines: list, *args: str) -> subprocess.CompletedProcess:
        text = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
        return subprocess.run([BANYAN, "embed", "-m", embedder, *args], input=text, capture_output=True, text=True,
                              timeout=120)

    done = run_embed(lines)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    check(done.returncode == 0 and [row["id"] for row in rows] == list(range(len(lines))), "embed: rows in order")
    short = [line for line in lines if line["id"] <= CONTEXT - 2]
    _, tokens = ids(embedder, [dict(line, kind="tokenize", add_special=True) for line in short])
    _, expected = ids(embedder, [{"id": row["id"], "kind": "embed", "ids": row["ids"]} for row in tokens])
    check(all(row["ids"][0] == 0 and row["ids"][-1] == 2 for row in tokens), "texts between their special tokens")
    for row, wanted in zip(rows, expected):
        check(row == {"id": row["id"], "dense": wanted["dense"]}, f"embed {row['id']} is ids' vector of its tokens")
    check([row["id"] for row in rows if row.get("truncated")] == list(range(CONTEXT - 1, CONTEXT + 4)),
          "long texts are cut, and say so")
    cut = [0] + tokens[-1]["ids"][1:8] + [2]
    _, wanted = ids(embedder, [{"id": 0, "kind": "embed", "ids": cut}])
    found = [json.loads(line) for line in run_embed([short[-1]], "--max-tokens", "9").stdout.splitlines()]
    check(found[0]["dense"] == wanted[0]["dense"] and found[0]["truncated"], "a cut text keeps its end token")

    (embedder / "sentence_bert_config.json").write_text('{"max_seq_length":9}')
    found = [json.loads(line) for line in run_embed([short[-1]]).stdout.splitlines()]
    check(found[0]["dense"] == wanted[0]["dense"] and found[0]["truncated"], "texts end where the model's files say")
    (embedder / "sentence_bert_config.json").unlink()

    out = pathlib.Path(name) / "out.jsonl"
    (pathlib.Path(name) / "in.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = subprocess.run([BANYAN, "embed", "-m", embedder, pathlib.Path(name) / "in.jsonl", "-o", out, "--batch-rows", "7"],
                          capture_output=True, text=True, timeout=120)
    check(done.returncode == 0 and done.stdout == "", "embed from and to files")
    check([json.loads(line) for line in out.read_text().splitlines()] == rows, "the same bits in other passes")

    bad = ["nonsense", [1], {"id": "x"}, {"id": "y", "text": 7}]
    done = run_embed(bad + [lines[3]], "--input-format", "jsonl")
    found = [json.loads(line) for line in done.stdout.splitlines()]
    check(done.returncode == 1 and [row["id"] for row in found] == [None, None, "x", "y", 3], "embed: error rows")
    check(all(row["error"]["kind"] == "input" for row in found[:4]) and found[4] == rows[3], "embed goes on after them")
    # A file of text is a text; tables and folders are read as everywhere else.
    folder = pathlib.Path(name) / "texts"
    folder.mkdir()
    (folder / "a.txt").write_text(lines[3]["text"])
    (folder / "b.csv").write_text(f"nr,body\n7,{lines[4]['text']}\n")
    done = subprocess.run([BANYAN, "embed", "-m", embedder, folder, "--field", "text=body", "--field", "id=nr", "--quiet"],
                          capture_output=True, text=True, timeout=120)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    check(done.returncode == 0 and done.stderr == "", f"embed of a folder: {done.stderr}")
    check([row["id"] for row in found] == [str(folder / "a.txt"), "7"], f"embed of a folder: {found}")
    check([row["dense"] for row in found] == [rows[3]["dense"], rows[4]["dense"]], "files give the vectors of their texts")
    array = pathlib.Path(name) / "bad.npy"
    done = run_embed([lines[3], "nonsense"], "-o", str(array))
    check(done.returncode == 2 and "line 2" in done.stderr and not array.exists(), f"no array with errors: {done.stderr}")
    check(not list(array.parent.glob("*.part")), "nothing half written stays")
    done = run_embed([lines[3], "nonsense"], "--strict")
    check(done.returncode == 2 and "line 2" in done.stderr and "--strict" in done.stderr, f"strict: {done.stderr}")

    for args, word in [(["-m", str(reranker)], "tokenizer"), (["-m", DECODER], "no encoder"), ([], "-m"),
                       (["-m", str(embedder), "--device", "cuda"], "cuda"), (["-m", str(embedder), "/no/such"], "/no/such")]:
        done = subprocess.run([BANYAN, "embed", *args], input="", capture_output=True, text=True, timeout=120)
        check(done.returncode == 2 and word in done.stderr and done.stdout == "", f"embed {args}: {done.stderr.strip()}")

    done = subprocess.run([BANYAN, "ask", "-m", embedder, "-"], input="", capture_output=True, text=True, timeout=120)
    check(done.returncode == 2 and "is an encoder" in done.stderr, "ask on an encoder")

print(f"encoder_test: {failures} failed")
sys.exit(1 if failures else 0)
