"""What a job takes at most: the program, the weights, the KV in use, and little more."""
import pathlib
import re
import unittest

from harness import AskTest

READER = str(pathlib.Path(__file__).resolve().parents[2] / "models" / "banyan-reader-34m.gguf")
MIB = 1 << 20
# Its code, its libraries and what its kernels keep: 19.3 to 20.2 MiB with AVX-512.
PROGRAM = 22 * MIB


def pages(count: int) -> list[dict]:
    """Pages of about 200 tokens with six questions each."""
    def fact(page: int, line: int) -> str:
        return f"In the year {1400 + 17 * line + page} the harbour of town {page} had {page * 31 + line * 7} ships."
    return [{"id": f"page{page}", "context": " ".join(fact(page, line) for line in range(10)),
             "questions": [f"How many ships had town {page} in {1400 + 17 * k + page}?" for k in range(6)]}
            for page in range(count)]


class Memory(AskTest):
    def peak(self, rows: list[dict]) -> tuple[int, int, int]:
        """Bytes at most, of weights and of KV, as the receipt has them. The automata that answers are copied by come on top of these: a few
        hundred KiB for every document under way."""
        result = self.ask(self.write("in.jsonl", rows), "--max-new", "16", "--no-copy", "--verbose",
                          "-o", self.path("out.jsonl"), "--overwrite", model=READER)
        found = re.search(r"memory +(\S+ \S+) at most: weights (\S+ \S+), KV (\S+ \S+) of", result.stderr)
        self.assertTrue(found, result.stderr)
        units = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
        return tuple(int(float(number) * units[unit]) for number, unit in (part.split() for part in found.groups()))

    def test_a_job_takes_its_weights_and_kv_and_15_percent(self):
        peak, weights, kv = self.peak(pages(14))
        self.assertGreater(kv, 2 * weights)
        allowed = PROGRAM + 1.15 * (weights + kv)
        self.assertLess(peak, allowed, [size // MIB for size in (peak, weights, kv)])

    def test_a_short_job_takes_little_beside_them(self):
        peak, weights, kv = self.peak(pages(1))
        # Text tables, activations of a short step, what threads keep.
        self.assertLess(peak - PROGRAM - weights - kv, 16 * MIB)


if __name__ == "__main__":
    unittest.main(verbosity=2)
