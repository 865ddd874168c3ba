"""The hash of a folder's sources: another for every change of a source, the same for all else.

Usage: test_source_hash.py CMAKE SCRIPT
"""
import os
import pathlib
import subprocess
import sys
import tempfile

CMAKE, SCRIPT = sys.argv[1:]
failures = 0


def check(condition, what):
    global failures
    if not condition:
        failures += 1
        print("FAILED:", what)


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name, "sources")
    folder.mkdir()
    header = pathlib.Path(name, "deep", "hash.h")

    def hashed(beside="nvcc 13"):
        subprocess.run([CMAKE, f"-DFOLDER={folder}", f"-DBESIDE={beside}", f"-DOUTPUT={header}", "-P", SCRIPT],
                       check=True)
        return header.read_text()

    for source in ("a.cc", "b.cu", "c.cuh", "d.h"):
        (folder / source).write_text(f"// {source}\n")
    first = hashed()
    check('kSourceHash = "' in first, f"a header: {first}")
    os.utime(folder / "a.cc", (1, 1))
    os.utime(header, (1, 1))
    check(hashed() == first, "times do not count")
    check(header.stat().st_mtime == 1, "an equal header is not written again")
    (folder / "a_test.cc").write_text("// a test")
    (folder / "notes.txt").write_text("notes")
    check(hashed() == first, "tests and other files do not count")
    seen = {first, hashed("nvcc 14")}
    check(len(seen) == 2, "the compiler counts")
    for source in ("a.cc", "b.cu", "c.cuh", "d.h"):
        before = (folder / source).read_text()
        (folder / source).write_text(before.replace("//", "/ /"))
        seen.add(hashed())
        (folder / source).write_text(before)
    check(len(seen) == 6, "every source counts")
    (folder / "a.cc").rename(folder / "e.cc")
    seen.add(hashed())
    check(len(seen) == 7, "names count")

print(f"source_hash_test: {failures} failed")
sys.exit(1 if failures else 0)
