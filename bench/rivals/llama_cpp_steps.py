#!/usr/bin/env python3
"""The steps of `banyan bench step` in llama.cpp on the same weights file, and the ratio of both.

usage: llama_cpp_steps.py MODEL.gguf [--banyan PATH] [--threads N] [--streams 1,32] [--prefix 256,1024,4096]
Needs llama-cpp-python, built for this processor (a wheel for any processor leaves out its dot-product instructions):
  CMAKE_ARGS=-DGGML_NATIVE=ON pip install --no-binary llama-cpp-python llama-cpp-python
Programs run one after the other, each `--rounds` times in turn; the least time of each step counts. llama.cpp has its
own best settings for shared text: one sequence computes the prefix, the others take over its cells, and one batch has a
token of every sequence.
"""
import argparse
import ctypes
import json
import subprocess
import time


def numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


class Llama:
    """One model and context of llama.cpp, by its C functions."""

    def __init__(self, path: str, threads: int, cells: int, sequences: int):
        import llama_cpp

        self.c = llama_cpp
        silent = llama_cpp.llama_log_callback(lambda level, text, data: None)
        llama_cpp.llama_log_set(silent, ctypes.c_void_p(0))
        self.silent = silent  # the library keeps the pointer
        self.model = llama_cpp.llama_model_load_from_file(path.encode(), llama_cpp.llama_model_default_params())
        options = llama_cpp.llama_context_default_params()
        options.n_ctx = cells
        options.n_batch = options.n_ubatch = 512
        options.n_seq_max = sequences
        options.n_threads = options.n_threads_batch = threads
        if hasattr(options, "kv_unified"):
            options.kv_unified = True
        self.context = llama_cpp.llama_init_from_model(self.model, options)
        self.memory = llama_cpp.llama_get_memory(self.context)
        vocabulary = llama_cpp.llama_model_get_vocab(self.model)
        self.tokens = llama_cpp.llama_vocab_n_tokens(vocabulary)
        self.batch = llama_cpp.llama_batch_init(512, 0, 1)

    def clear(self) -> None:
        self.c.llama_memory_clear(self.memory, True)

    def decode(self, rows: list[tuple[int, int, int, bool]]) -> None:
        """rows: (token, position, sequence, whether its logits are wanted)."""
        for i, (token, position, sequence, wanted) in enumerate(rows):
            self.batch.token[i], self.batch.pos[i] = token, position
            self.batch.n_seq_id[i], self.batch.seq_id[i][0] = 1, sequence
            self.batch.logits[i] = wanted
        self.batch.n_tokens = len(rows)
        status = self.c.llama_decode(self.context, self.batch)
        if status != 0:
            raise RuntimeError(f"llama_decode: {status}")

    def best(self, row: int) -> int:
        logits = self.c.llama_get_logits_ith(self.context, row)
        values = (ctypes.c_float * self.tokens).from_address(ctypes.addressof(logits.contents))
        return max(range(self.tokens), key=values.__getitem__)

    def prompt(self, tokens: list[int]) -> float:
        """Computes a prompt in sequence 0 and returns the seconds it took."""
        self.clear()
        start = time.perf_counter()
        for begin in range(0, len(tokens), 512):
            part = tokens[begin:begin + 512]
            last = begin + len(part) == len(tokens)
            self.decode([(t, begin + i, 0, last and i + 1 == len(part)) for i, t in enumerate(part)])
        self.c.llama_synchronize(self.context)
        return time.perf_counter() - start

    def step(self, streams: int, prefix: int, steps: int) -> float:
        """Seconds of a decode step of so many streams on one prefix: the least of some."""
        self.prompt([(i * 7919) % self.tokens for i in range(prefix)])
        for stream in range(1, streams):
            self.c.llama_memory_seq_cp(self.memory, 0, stream, -1, -1)
        least = float("inf")
        for number in range(steps):
            start = time.perf_counter()
            self.decode([((s * 31 + number) % self.tokens, prefix + number, s, True) for s in range(streams)])
            self.c.llama_synchronize(self.context)
            least = min(least, time.perf_counter() - start)
        return least

    def greedy(self, tokens: list[int], count: int) -> list[int]:
        self.prompt(tokens)
        written = []
        row = (len(tokens) - 1) % 512
        for i in range(count):
            written.append(self.best(row))
            self.decode([(written[-1], len(tokens) + i, 0, True)])
            row = 0
        return written


def ours(arguments) -> dict[str, float]:
    """Seconds of each step by name."""
    done = subprocess.run(
        [arguments.banyan, "bench", "step", "-m", arguments.model, "--threads", str(arguments.threads), "--streams",
         arguments.streams, "--prefix", arguments.prefix, "--prompt", "512", "--runs", str(arguments.steps),
         "--json", "-"], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    name = lambda s: "prompt of 512" if s["prefix"] == 0 and s["rows"] > s["streams"] else f"{s['streams']} x {s['prefix']}"
    return {name(s): s["seconds"] for s in found["steps"]}


def theirs(llama: Llama, arguments) -> dict[str, float]:
    prompt = [(i * 7919) % llama.tokens for i in range(512)]
    found = {"prompt of 512": min(llama.prompt(prompt) for _ in range(2))}
    for streams in numbers(arguments.streams):
        for prefix in numbers(arguments.prefix):
            found[f"{streams} x {prefix}"] = llama.step(streams, prefix, arguments.steps)
    return found


def agreement(llama: Llama, arguments, count: int = 16) -> int:
    """Of `count` greedy tokens after one prompt, how many come before the first that differs."""
    prompt = [(i * 7919) % llama.tokens for i in range(40)]
    row = json.dumps({"id": "a", "kind": "greedy", "ids": prompt, "max_new": count})
    done = subprocess.run([arguments.banyan, "ids", "-m", arguments.model, "--precision", "mixed"], input=row + "\n",
                          capture_output=True, text=True, check=True)
    expected = llama.greedy(prompt, count)
    found = json.loads(done.stdout)["tokens"]
    return next((i for i, (a, b) in enumerate(zip(found, expected)) if a != b), count)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--banyan", default="build/release/banyan")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--streams", default="1,32")
    parser.add_argument("--prefix", default="256,1024,4096")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=2)
    arguments = parser.parse_args()
    streams, prefixes = numbers(arguments.streams), numbers(arguments.prefix)
    cells = max(max(prefixes) + max(streams) * (arguments.steps + 1), 1024)
    llama = Llama(arguments.model, arguments.threads, cells, max(streams))
    print(f"greedy tokens before the first that differs: {agreement(llama, arguments)} of 16", flush=True)
    banyan, rival = {}, {}
    for _ in range(arguments.rounds):
        for kept, found in ((banyan, ours(arguments)), (rival, theirs(llama, arguments))):
            for name, seconds in found.items():
                kept[name] = min(seconds, kept.get(name, seconds))
    print("| step | banyan ms | llama.cpp ms | ratio |\n|---|---|---|---|")
    for name, seconds in rival.items():
        print(f"| {name} | {banyan[name] * 1e3:.1f} | {seconds * 1e3:.1f} | {seconds / banyan[name]:.2f} |")


if __name__ == "__main__":
    main()
