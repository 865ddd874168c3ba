"""What annoyed people in their first hour, each as they met it."""
import pathlib
import re
import subprocess
import unittest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]


class Names(unittest.TestCase):
    """`banyan` on the public index is a stranger's package."""

    def test_no_page_and_no_message_installs_it(self):
        files = subprocess.run(["git", "ls-files"], cwd=REPOSITORY, capture_output=True, text=True)
        if files.returncode != 0:
            self.skipTest("no repository here")
        old = re.compile(r"pip3? install [^\n`]*?(?<![\w./-])banyan(?=['\"\[`=<>\s]|$)(?!-)")
        self.assertRegex("pip install 'banyan[arrow]'", old)
        found = []
        for name in files.stdout.split("\n"):
            path = REPOSITORY / name
            if not name or path.suffix in (".gguf", ".safetensors", ".png") or path == pathlib.Path(__file__).resolve() or not path.is_file():
                continue
            text = path.read_text(encoding="utf-8", errors="ignore")
            found += [f"{name}: {match[0]}" for match in old.finditer(text)]
        self.assertEqual(found, [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
