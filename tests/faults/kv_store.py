"""Kills `banyan kv add` at every kind of moment and looks whether the promises of docs/kv-store.md hold.

kv_store.py [--kills N] [--seed N]: until so many processes were killed. After every few of them: nothing that the
store finds is damaged, answers over it are those without it, and the same command ends with everything there.

REQUIRES: BANYAN, MAKE_TINY_MODEL and FAULT_SHIM in the environment: two programs and the shim's library.
"""
import argparse
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import fault_library  # noqa: E402

BANYAN = os.environ["BANYAN"]


class Broken(Exception):
    """A promise that did not hold."""


class Workshop:
    def __init__(self, root: pathlib.Path):
        self.store, self.input = root / "store", root / "in.jsonl"
        self.model = str(root / "model.gguf")
        subprocess.run([os.environ["MAKE_TINY_MODEL"], self.model, "1024", "1"], check=True)
        rows = [{"id": i, "context": f"Text {i}. " + "Words and words. " * (3 + i), "questions": ["What?"]} for i in range(8)]
        self.input.write_text("".join(json.dumps(row) + "\n" for row in rows))
        self.expected = self.ask()
        self.run(self.command())
        self.segments = self.names()
        self.killed = 0

    def command(self, *more):
        return [BANYAN, "kv", "add", str(self.store), str(self.input), "-m", self.model, "--threads", "1", "--quiet", *more]

    def run(self, command, codes=(0,), **faults):
        env = dict(os.environ)
        if faults:
            env |= {"LD_PRELOAD": fault_library.PATH, "FAULT_UNDER": str(self.store)}
            env |= {f"FAULT_{key.upper()}": str(value) for key, value in faults.items()}
        result = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
        if codes is not None and result.returncode not in codes:
            raise Broken(f"exit {result.returncode}, expected {codes}: {result.stderr}")
        return result

    def ask(self, *more):
        return self.run([BANYAN, "ask", "-m", self.model, str(self.input), "--ordered", "--quiet", "--threads", "1",
                         "--max-new", "2", *more]).stdout

    def names(self):
        text = self.run([BANYAN, "kv", "ls", str(self.store), "--json"]).stdout
        return sorted(json.loads(line)["id"] for line in text.splitlines())

    def calls(self):
        count = self.store.parent / "count"
        shutil.rmtree(self.store, ignore_errors=True)
        self.store.mkdir()
        self.run(self.command(), count=count)
        return int(count.read_text())

    def kill_one(self, generator, calls):
        """Before, after or within a call that changes a file, or at any time."""
        if generator.random() < 0.6:
            kind = generator.choice(["kill", "after", "torn"])
            self.killed += self.run(self.command(), codes=None, at=generator.randint(1, calls), kind=kind).returncode != 0
            return
        process = subprocess.Popen(self.command(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(generator.uniform(0.0, 0.15))
        process.send_signal(signal.SIGKILL)
        self.killed += process.wait() != 0

    def check(self, generator):
        if (self.store / "index.sqlite").exists() and generator.random() < 0.7:
            # As it was left, without anybody having put it in order.
            listed = subprocess.run([BANYAN, "kv", "verify", str(self.store)], capture_output=True, text=True, timeout=120)
            if listed.returncode == 1:
                raise Broken(f"damaged: {listed.stdout}")
            if listed.returncode == 0 and self.ask("--kv-store", str(self.store)) != self.expected:
                raise Broken("other answers over what was left")
        self.run(self.command())
        if self.names() != self.segments:
            raise Broken("other segments than without the kills")
        self.run([BANYAN, "kv", "verify", str(self.store)])
        if self.ask("--kv-store", str(self.store)) != self.expected:
            raise Broken("other answers")
        left = [path.name for path in self.store.rglob("*.new")]
        if left:
            raise Broken(f"left behind: {left}")


def disk_errors(shop, generator):
    shutil.rmtree(shop.store, ignore_errors=True)
    shop.store.mkdir()
    kind = generator.choice(["eio", "enospc", "full"])
    result = shop.run(shop.command(), codes=(0, 2), at=generator.randint(1, 60), kind=kind)
    if result.returncode == 2 and not result.stderr:
        raise Broken("an error without a word")
    shop.check(generator)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory(prefix="banyan-kv-faults-") as root:
        shop = Workshop(pathlib.Path(root))
        calls = shop.calls()
        rounds = 0
        while shop.killed < options.kills:
            generator = random.Random(f"{options.seed} {rounds}")
            rounds += 1
            shutil.rmtree(shop.store, ignore_errors=True)
            shop.store.mkdir()
            try:
                for _ in range(generator.randint(1, 6)):
                    shop.kill_one(generator, calls)
                shop.check(generator)
                if rounds % 4 == 0:
                    disk_errors(shop, generator)
            except (Broken, subprocess.TimeoutExpired) as error:
                print(f"  round {rounds - 1} of seed {options.seed}: {error}")
                failed += 1
        print(f"kv_store: {shop.killed} processes killed in {rounds} rounds, {failed} broken; {calls} calls each")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
