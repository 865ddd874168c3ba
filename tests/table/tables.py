"""Tables for the tests of `banyan map` and `banyan filter`."""
import json
import os
import random
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "ask"))
from harness import AskTest, BANYAN, tiny_model  # noqa: E402,F401 (tests take it from here)

PRODUCTS = ["a kettle of brushed steel with a long handle", "a lamp", "a garden hose of forty metres, green"]
CITIES = ["Lisbon on the Tagus river", "Porto", "Faro", "Braga in the north"]


def reviews(count, seed=1):
    """Rows with columns that repeat: three products, four cities, few texts; some rows are equal."""
    draw = random.Random(seed)
    return [{"id": f"r{i}", "number": i, "product": draw.choice(PRODUCTS), "city": draw.choice(CITIES),
             "review": f"It was {draw.choice(['good', 'broken', 'late'])} {draw.randrange(5)} times."}
            for i in range(count)]


class TableTest(AskTest):
    def table(self, *arguments, code=0, stdin=None):
        """Runs `banyan map …` or `banyan filter …`."""
        name, *rest = arguments
        result = subprocess.run([BANYAN, name, *map(str, rest), "-m", self.model, "--threads", "1"], input=stdin,
                                capture_output=True, timeout=300)
        result.stderr = result.stderr.decode(errors="replace")
        self.assertEqual(result.returncode, code, result.stderr)
        return result

    def printed(self, *arguments, code=0, stdin=None):
        """The rows on standard output."""
        result = self.table(*arguments, "--quiet", code=code, stdin=stdin)
        return [json.loads(line) for line in result.stdout.splitlines()]
