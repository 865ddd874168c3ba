"""The cache is the one that huggingface_hub has: each reads what the other wrote, and the files are the same.

REQUIRES: BANYAN in the environment. Exits with 77 where the package is not installed and pip cannot get it.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "serve")]
import client_packages  # noqa: E402
from stand_in import Repository, StandIn  # noqa: E402

BANYAN = os.environ["BANYAN"]
WRITES = """import sys, huggingface_hub as hub
for name in ("README.md", "sub/m-Q8_0.gguf"):
    print(hub.hf_hub_download("org/model", name, revision=sys.argv[1]))"""
READS = """import sys, huggingface_hub as hub
print(hub.hf_hub_download("org/model", "sub/m-Q8_0.gguf", local_files_only=True))
found = hub.scan_cache_dir()
assert not found.warnings, found.warnings
repo, = found.repos
assert (repo.repo_id, len(repo.revisions)) == ("org/model", 1), repo
print(sum(1 for revision in repo.revisions for _ in revision.files), ",".join(sorted(repo.refs)))"""


def tree(folder: pathlib.Path) -> dict[str, str]:
    """Links with where they lead, files with their bytes; not what is each program's own."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = os.readlink(path)
        elif path.is_file() and not name.startswith((".locks", "CACHEDIR.TAG", "version")) and "/.no_exist/" not in f"/{name}":
            found[name] = repr(path.read_bytes())
    return found


class SharedCache(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="banyan-shared-"))
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.repository = Repository({"sub/m-Q8_0.gguf": os.urandom(100_000), "README.md": b"---\nlicense: mit\n---\n"})
        self.hub = StandIn({"org/model": self.repository})
        self.hub.__enter__()
        self.addCleanup(self.hub.__exit__)

    def run_words(self, words, cache, **more):
        environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        environment |= {"HF_ENDPOINT": self.hub.url, "HF_HUB_CACHE": str(self.folder / cache), "HF_HUB_DISABLE_XET": "1",
                        "HF_HUB_OFFLINE": "0", "HF_HUB_DISABLE_TELEMETRY": "1", "HOME": str(self.folder),
                        "BANYAN_CACHE": str(self.folder / "banyan"), "PYTHONPATH": os.pathsep.join(sys.path)} | more
        done = subprocess.run(words, capture_output=True, text=True, env=environment, timeout=280)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_it_reads_what_we_wrote_and_has_the_same_files(self):
        for cache, revision in (("main", "main"), ("commit", self.repository.commit)):
            ours, theirs = f"{cache}-ours", f"{cache}-theirs"
            name = "org/model" if revision == "main" else f"org/model@{revision}"
            path = self.run_words([BANYAN, "model", "get", name], ours).strip()
            self.run_words([sys.executable, "-c", WRITES, revision], theirs)
            self.assertEqual(tree(self.folder / ours), tree(self.folder / theirs))
            if revision == "main":
                read = self.run_words([sys.executable, "-c", READS], ours, HF_HUB_OFFLINE="1").splitlines()
                self.assertEqual(read, [path, "2 main"])

    def test_we_read_what_it_wrote(self):
        written = self.run_words([sys.executable, "-c", WRITES, "main"], "theirs").strip().splitlines()[-1]
        path = self.run_words([BANYAN, "model", "path", "org/model:Q8_0"], "theirs", HF_HUB_OFFLINE="1").strip()
        self.assertEqual(path, written)
        before = sum(self.hub.counts[where] for where in ("file", "large"))
        self.run_words([BANYAN, "model", "get", "org/model"], "theirs")
        self.assertEqual(sum(self.hub.counts[where] for where in ("file", "large")), before, "nothing is fetched again")


if __name__ == "__main__":
    client_packages.need(["huggingface_hub"], "huggingface_hub==2.4.0")
    unittest.main()
