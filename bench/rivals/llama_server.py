#!/usr/bin/env python3
"""llama.cpp's server and `banyan serve` under the same load, on the same cores and the same weights file.

usage: python3 -m bench.rivals.llama_server MODEL.gguf [--llama PATH/llama-server] [--threads N] [--server-cores 10-13]
       [--client-cores 14-15] [--rounds 5] [--json FILE]

Two loads of streamed chats: all questions over one document, and a document for every question. Each round has new
documents, so that no cache knows them, and asks both servers, one after the other, in turns of who is first; the other
one rests meanwhile. The table has the median of the rounds, ratios are medians of the rounds' ratios.

The rival is at its best: continuous batching, prompt cache, cache reuse, flash attention where it has it, and as many
slots, with one KV buffer for all or one each, as answered that load fastest among `--slots`. Without --llama it is the
server of the package xllamacpp (`pip install xllamacpp`), whose wheels are compiled for any processor of the
architecture; a llama-server that was built with -DGGML_NATIVE=ON on this machine is the fairer one.
"""

import argparse
import http.client
import json
import os
import socket
import statistics
import sys
import time
import typing

from bench import serve_load

# The package's server in a process of its own: MODEL PORT SLOTS CELLS THREADS UNIFIED.
PACKAGED = """
import sys, time
import xllamacpp
settings = xllamacpp.CommonParams()
settings.model.path, settings.port = sys.argv[1], int(sys.argv[2])
settings.n_parallel, settings.n_ctx, threads = int(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5])
settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = threads
settings.kv_unified, settings.cont_batching, settings.n_cache_reuse = sys.argv[6] == "1", True, 64
print(xllamacpp.get_system_info(), flush=True)
server = xllamacpp.Server(settings)
while True:
    time.sleep(1)
"""


class Setting(typing.NamedTuple):
    slots: int
    unified: bool  # one KV buffer for all of them

    def __str__(self) -> str:
        return f"{self.slots} slots, {'one buffer' if self.unified else 'a buffer each'}"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def healthy(port: int) -> bool:
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except OSError:
        return False


def llama(arguments, setting: Setting, cells: int) -> tuple[serve_load.Program, int]:
    """cells: tokens that one slot holds."""
    port, slots, cells = free_port(), setting.slots, cells * setting.slots
    if arguments.llama:
        command = [
            arguments.llama,
            "-m",
            arguments.model,
            "--port",
            port,
            "-np",
            slots,
            "-c",
            cells,
            "-t",
            arguments.threads,
            "-tb",
            arguments.threads,
            "--kv-unified" if setting.unified else "--no-kv-unified",
            "--cont-batching",
            "--cache-reuse",
            64,
            "--no-webui",
        ]
    else:
        command = [
            sys.executable,
            "-c",
            PACKAGED,
            arguments.model,
            port,
            slots,
            cells,
            arguments.threads,
            int(setting.unified),
        ]
    server = serve_load.Program(command, arguments.server_cores)
    server.wait(lambda: healthy(port))
    return server, port


class Loads:
    """The two loads; requests of a round are the same for both servers."""

    def __init__(self, arguments):
        self.arguments = arguments

    def of(self, name: str, seed: int, part: float = 1.0) -> list[dict]:
        a = self.arguments
        count, words = (a.questions, a.words) if name == "shared" else (a.documents, a.unshared_words)
        return serve_load.chats(max(1, round(count * part)), words, a.tokens, name == "shared", seed)

    def cells(self) -> int:
        a = self.arguments
        return max(a.words, a.unshared_words) * 3 // 2 + a.tokens + 256  # nobody waits for room


def best_settings(arguments, loads: Loads) -> dict[str, Setting]:
    """What answers `--pilot` of each load fastest; a tenth as warm-up."""
    found: dict[str, list] = {"shared": [], "unshared": []}
    for number, slots in enumerate(arguments.slots):
        for unified in (True, False) if slots > 1 else (True,):
            setting = Setting(slots, unified)
            server, port = llama(arguments, setting, loads.cells())
            try:
                serve_load.run(port, loads.of("shared", 7, 0.1), arguments.clients)
                for name, rates in found.items():
                    figures = serve_load.run(port, loads.of(name, 1000 + number, arguments.pilot), arguments.clients)
                    rates.append((figures.tokens_per_second, setting))
            finally:
                server.stop()
    for name, rates in found.items():
        print(
            f"llama.cpp, {name}: " + "; ".join(f"{setting} {rate:.0f} tokens/s" for rate, setting in rates), flush=True
        )
    return {name: max(rates)[1] for name, rates in found.items()}


def measure(arguments, loads: Loads, settings: dict[str, Setting]) -> dict[str, list]:
    """For each load a list of rounds, each a pair of figures: ours, the rival's."""
    ours, our_port = serve_load.banyan(arguments.banyan, arguments.model, arguments.threads, arguments.server_cores)
    rivals = {setting: llama(arguments, setting, loads.cells()) for setting in set(settings.values())}
    rounds: dict[str, list] = {name: [] for name in settings}
    end = time.monotonic() + arguments.seconds
    try:
        for port in [our_port] + [port for _, port in rivals.values()]:
            serve_load.run(port, loads.of("shared", 8, 0.1), arguments.clients)
        for number in range(arguments.rounds):
            for name, of_load in rounds.items():
                if time.monotonic() > end and of_load:
                    continue
                bodies = loads.of(name, number * 2 + (name == "shared"))
                ports = [our_port, rivals[settings[name]][1]]
                pair = {}
                for side in ((0, 1) if number % 2 == 0 else (1, 0)):
                    pair[side] = serve_load.run(ports[side], bodies, arguments.clients)
                of_load.append((pair[0], pair[1]))
    finally:
        ours.stop()
        for server, _ in rivals.values():
            server.stop()
    return rounds


def report(rounds: dict[str, list], settings: dict[str, Setting]) -> dict:
    print(
        "| load | rounds | llama.cpp has | banyan tokens/s | llama.cpp tokens/s | ratio (least to most) | banyan first"
        " token s | llama.cpp first token s | ratio | equal answers |\n|---|---|---|---|---|---|---|---|---|---|"
    )
    found = {}
    median = statistics.median
    for name, pairs in rounds.items():
        rates = [a.tokens_per_second / b.tokens_per_second for a, b in pairs]
        firsts = [b.first_seconds / a.first_seconds for a, b in pairs]
        sides = list(zip(*pairs))
        speed = [median(f.tokens_per_second for f in side) for side in sides]
        first = [median(f.first_seconds for f in side) for side in sides]
        answers = [[answer for figures in side for answer in figures.answers] for side in sides]
        equal = sum(a.text == b.text for a, b in zip(*answers))
        prompts = [sum(answer.prompt_tokens for answer in side) for side in answers]
        found[name] = {
            "rounds": len(pairs),
            "setting": str(settings[name]),
            "tokens_per_second": speed,
            "first_seconds": first,
            "ratio": median(rates),
            "ratios": rates,
            "first_ratio": median(firsts),
            "equal_answers": equal,
            "answers": len(answers[0]),
            "prompt_tokens": prompts,
            "tokens": [sum(answer.tokens for answer in side) for side in answers],
        }
        print(
            f"| {name} | {len(pairs)} | {settings[name]} | {speed[0]:.0f} | {speed[1]:.0f} | **{median(rates):.2f}** "
            f"({min(rates):.2f} to {max(rates):.2f}) | {first[0]:.2f} | {first[1]:.2f} | **{median(firsts):.2f}** | "
            f"{equal} of {len(answers[0])} |"
        )
    for name, figures in found.items():
        print(
            f"{name}: prompt tokens {figures['prompt_tokens']}, answer tokens {figures['tokens']} (banyan, llama.cpp)"
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--banyan", default="build/release/banyan")
    parser.add_argument("--llama", help="a llama-server; without it xllamacpp's")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--server-cores", default="")
    parser.add_argument("--client-cores", default="")
    parser.add_argument("--slots", type=lambda text: [int(n) for n in text.split(",")], default=[1, 8, 32])
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--questions", type=int, default=32)
    parser.add_argument("--words", type=int, default=400, help="of the shared document")
    parser.add_argument("--documents", type=int, default=16)
    parser.add_argument("--unshared-words", type=int, default=150, help="of each document of the unshared load")
    parser.add_argument("--tokens", type=int, default=32, help="of an answer")
    parser.add_argument(
        "--pilot", type=float, default=0.6, help="the part of a load that every number of slots answers first"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=600, help="no round begins later")
    parser.add_argument("--json")
    arguments = parser.parse_args()
    if arguments.client_cores:
        low, _, high = arguments.client_cores.partition("-")
        os.sched_setaffinity(0, range(int(low), int(high or low) + 1))
    loads = Loads(arguments)
    settings = best_settings(arguments, loads)
    found = report(measure(arguments, loads, settings), settings)
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(found, file, indent=1)


if __name__ == "__main__":
    main()
