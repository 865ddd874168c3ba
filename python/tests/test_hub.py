"""Models by the names of a hub, from a stand-in of it, in a process of their own."""
from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "hub"))
from stand_in import Repository, StandIn  # noqa: E402

ASKS = """import json, sys, banyan
rows = banyan.ask([{"context": "Anna steers the ferry."}], "Who?", model=sys.argv[1], max_new=4)
print(json.dumps([row["answer"] for row in rows]))
"""


class Hub(unittest.TestCase):
    def test_a_name_is_fetched_once_and_answers_as_its_file_does(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "tiny-Q4_0.gguf")
            subprocess.run([os.environ["MAKE_TINY_MODEL"], file, "1024", "2", "0"], check=True)
            kept = {name: value for name, value in os.environ.items()
                    if not name.startswith("HF_") and not name.lower().endswith("_proxy")}
            with StandIn({"org/model": Repository({file.name: file.read_bytes()})}) as hub:
                environment = {**kept, "HF_ENDPOINT": hub.url, "HF_HUB_CACHE": os.path.join(folder, "hub")}

                def answers(model: str, **more: str) -> object:
                    done = subprocess.run([sys.executable, "-c", ASKS, model], env={**environment, **more},
                                          capture_output=True, text=True, timeout=280)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    return json.loads(done.stdout)

                by_file = answers(str(file))
                self.assertEqual(answers("org/model:Q4_0"), by_file)
            self.assertEqual(answers("org/model:Q4_0", HF_HUB_OFFLINE="1"), by_file)  # the stand-in is gone
            wrong = subprocess.run([sys.executable, "-c", ASKS, "org/other"], env={**environment, "HF_HUB_OFFLINE": "1"},
                                   capture_output=True, text=True, timeout=280)
            self.assertIn("banyan._errors.Error", wrong.stderr)
            self.assertIn("org/other", wrong.stderr)


if __name__ == "__main__":
    unittest.main()
