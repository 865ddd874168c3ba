#!/usr/bin/env python3
"""Hugging Face `tokenizers` and `banyan bench text` on the same text, one thread each, one call per document; ids are
compared first.

usage: tokenizers_text.py [--banyan FILE] [--runs N] TOKENIZER TEXT [TEXT ...]
TOKENIZER is a tokenizer.json, a directory that holds one, or a GGUF file with a byte-level BPE, of which the rival's
tokenizer is built. A TEXT is a file whose lines are the documents, plain or .gz, or a .jsonl file of records with
context and questions. Needs `pip install tokenizers`.
"""

import argparse
import gzip
import json
import os
import pathlib
import statistics
import struct
import subprocess
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"
import tokenizers  # noqa: E402  (the settings above come first)
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers  # noqa: E402

CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|" + REST
QWEN2 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|" + REST


def read_gguf(path: pathlib.Path) -> dict:
    """The metadata of a GGUF file: key -> value."""
    sizes = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
    with path.open("rb") as file:

        def number(code: str):
            return struct.unpack("<" + code, file.read(struct.calcsize("<" + code)))[0]

        def value(kind: int):
            if kind == 8:
                return file.read(number("Q")).decode("utf-8", "replace")
            if kind == 9:
                inner, count = number("I"), number("Q")
                return [value(inner) for _ in range(count)]
            return number(sizes[kind])

        if file.read(4) != b"GGUF":
            raise SystemExit(f"{path}: not a GGUF file")
        number("I"), number("Q")
        pairs = number("Q")
        result = {}
        for _ in range(pairs):
            key = value(8)
            result[key] = value(number("I"))
        return result


def tokenizer_of_gguf(path: pathlib.Path) -> Tokenizer:
    data = read_gguf(path)
    pre = data.get("tokenizer.ggml.pre", "default")
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    known = {
        "smollm": [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ],
        "gpt-2": [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)],
        "llama-bpe": [pre_tokenizers.Split(Regex(LLAMA3), "isolated"), byte_level],
        "qwen2": [pre_tokenizers.Split(Regex(QWEN2), "isolated"), byte_level],
    }
    if data.get("tokenizer.ggml.model") != "gpt2" or pre not in known:
        raise SystemExit(f"{path}: expected a byte-level BPE of {', '.join(known)}, found {pre}")
    tokens = data["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ", 1)) for merge in data["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(
        models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=merges, ignore_merges=pre == "llama-bpe")
    )
    if pre == "qwen2":
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(known[pre])
    tokenizer.decoder = decoders.ByteLevel()
    control = [t for t, kind in zip(tokens, data["tokenizer.ggml.token_type"]) if kind in (2, 3)]
    user = [t for t, kind in zip(tokens, data["tokenizer.ggml.token_type"]) if kind == 4]
    tokenizer.add_special_tokens([AddedToken(t, normalized=False) for t in control])
    tokenizer.add_tokens([AddedToken(t, normalized=False) for t in user])
    return tokenizer


def load(path: pathlib.Path) -> Tokenizer:
    if path.is_dir():
        path = path / "tokenizer.json"
    with path.open("rb") as file:
        if file.read(4) == b"GGUF":
            return tokenizer_of_gguf(path)
    return Tokenizer.from_file(str(path))


def read_text(path: pathlib.Path) -> str:
    if path.suffix == ".gz":
        return gzip.decompress(path.read_bytes()).decode()
    text = path.read_bytes().decode()  # read_text would change line ends
    if path.suffix != ".jsonl":
        return text
    lines = []
    for record in map(json.loads, text.splitlines()):
        lines += [record["context"]] + [question["question"] for question in record["questions"]]
    return "".join(" ".join(line.split("\n")) + "\n" for line in lines)


def ids_hash(lists: list[list[int]]) -> str:
    value = 0xCBF29CE484222325
    for ids in lists:
        for token in ids:
            value = ((value ^ token) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def measure(runs: int, body) -> tuple[float, list]:
    seconds = []
    for _ in range(runs):
        begin = time.thread_time()  # processor time, as `banyan bench text` takes it
        result = body()
        seconds.append(time.thread_time() - begin)
    return statistics.median(seconds), result


def compare(tokenizer: Tokenizer, ours: dict, texts: list[str], runs: int) -> dict:
    """The rival's times beside `ours`, and their ratios. The rival's `encode` makes an Encoding, from which ids are
    then taken."""
    encode_seconds, ids = measure(
        runs, lambda: [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
    )
    decode_seconds, _ = measure(runs, lambda: [tokenizer.decode(list_, skip_special_tokens=False) for list_ in ids])
    size = sum(len(text.encode()) for text in texts)
    equal = ids_hash(ids) == ours["ids_hash"] and sum(map(len, ids)) == ours["tokens"]
    return {
        "equal": equal,
        "mb": size / 1e6,
        "encode": size / 1e6 / encode_seconds,
        "decode": size / 1e6 / decode_seconds,
        "ours_encode": ours["encode"]["mb_per_second"],
        "ours_decode": ours["decode"]["mb_per_second"],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--banyan", default="build/release/banyan")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("tokenizer", type=pathlib.Path)
    parser.add_argument("text", type=pathlib.Path, nargs="+")
    args = parser.parse_args()
    tokenizer = load(args.tokenizer)
    unequal = 0
    print(
        f"tokenizers {tokenizers.__version__} and banyan | {args.tokenizer.name} | one thread, median of {args.runs}"
        " runs, MB/s\n"
    )
    print(
        "| text | calls | encode | banyan | ratio | decode | banyan | ratio | ids"
        " |\n|---|---|---|---|---|---|---|---|---|"
    )
    for path in args.text:
        text = read_text(path)
        with tempfile.NamedTemporaryFile("wb", suffix=".txt") as file:
            file.write(text.encode())
            file.flush()
            done = subprocess.run(
                [
                    args.banyan,
                    "bench",
                    "text",
                    "--tokenizer",
                    str(args.tokenizer),
                    file.name,
                    "--runs",
                    str(args.runs),
                    "--json",
                    "-",
                ],
                capture_output=True,
                text=True,
            )
        if done.returncode != 0:
            raise SystemExit(done.stderr)
        ours = json.loads(done.stdout)
        for name, texts in (("documents", [line for line in text.split("\n") if line]), ("whole", [text])):
            found = compare(tokenizer, ours[name], texts, args.runs)
            unequal += not found["equal"]
            print(
                f"| {path.name} | {len(texts)} | {found['encode']:.2f} | {found['ours_encode']:.2f} "
                f"| {found['ours_encode'] / found['encode']:.2f} | {found['decode']:.2f} | {found['ours_decode']:.2f} "
                f"| {found['ours_decode'] / found['decode']:.2f} | {'equal' if found['equal'] else 'DIFFER'} |",
                flush=True,
            )
    return 1 if unequal else 0


if __name__ == "__main__":
    sys.exit(main())
