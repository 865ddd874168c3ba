#!/usr/bin/env python3
"""Says which tests skipped themselves and what each would need, from CTest's log of a run.

usage: skipped.py LastTest.log [--self-test]

A whole test skips with exit code 77 and a line `skipped: REASON`; single cases skip as GoogleTest and unittest print
them. Reasons name what to install. REQUIRES: ctest ran with --test-output-size-passed large enough for whole outputs.
"""

import collections
import pathlib
import re
import sys

GTEST = re.compile(r"^\S+:\d+: Skipped\n(.*?)\n+\[  SKIPPED \] (\S+)", re.MULTILINE | re.DOTALL)
UNITTEST = re.compile(r"^(\w+) \([^)]*\)(?:\n[^\n]*?)?? \.\.\. skipped (['\"])([^\n]*)\2$", re.MULTILINE)


def skips(log: str):
    """(test, case or None, reason) of everything that was skipped."""
    for part in re.split(r"^\d+/\d+ Testing: ", log, flags=re.MULTILINE)[1:]:
        name, _, text = part.partition("\n")
        output = text.partition("Output:\n")[2].partition("<end of output>")[0]
        for reason, case in GTEST.findall(output):
            yield name, case, reason.strip().splitlines()[0]
        for case, _, reason in UNITTEST.findall(output):
            yield name, case, reason
        if re.search(r"^Test Skipped\.|^Test not run", text, re.MULTILINE) and not GTEST.search(output):
            said = re.findall(r"^skipped: (.*)$", output, re.MULTILINE)
            yield name, None, said[-1] if said else "it does not say why"


def report(log: str) -> str:
    by_reason = collections.defaultdict(list)
    for test, case, reason in skips(log):
        by_reason[reason].append(test if case is None else f"{test}: {case}")
    if not by_reason:
        return "no test skipped itself"
    count = sum(map(len, by_reason.values()))
    lines = [f"{count} {'test or case' if count == 1 else 'tests and cases'} skipped, which is not a pass:"]
    for reason, names in sorted(by_reason.items(), key=lambda item: -len(item[1])):
        shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        lines.append(f"  {len(names):3} × {reason}\n        {shown}")
    return "\n".join(lines)


def self_test():
    log = """1/4 Testing: browser_page
1/4 Test: browser_page
Output:
----------------------------------------------------------
skipped: no Chromium here: apt-get install chromium
<end of output>
Test time =   0.05 sec
Test Skipped.
2/4 Testing: model
Output:
----------------------------------------------------------
[ RUN      ] Forward.Families
src/model/forward_test.cc:142: Skipped
no oracles at tests/oracles

[  SKIPPED ] Forward.Families (0 ms)
[ RUN      ] Forward.Other
[       OK ] Forward.Other (0 ms)
<end of output>
Test Passed.
3/4 Testing: ask_rows
Output:
----------------------------------------------------------
test_a (__main__.Rows.test_a) ... ok
test_zstd (__main__.Rows.test_zstd) ... skipped 'no zstd here: apt-get install zstd'
test_b (__main__.Rows.test_b)
Its docstring. ... skipped "it's another"
<end of output>
Test Passed.
4/4 Testing: golden_bits_i8mm
Output:
----------------------------------------------------------
src/model/golden_bits_test.cc:236: Skipped
this processor has no i8mm

[  SKIPPED ] GoldenBits.Cpu (0 ms)
<end of output>
Test Skipped.
"""
    found = list(skips(log))
    assert found == [
        ("browser_page", None, "no Chromium here: apt-get install chromium"),
        ("model", "Forward.Families", "no oracles at tests/oracles"),
        ("ask_rows", "test_zstd", "no zstd here: apt-get install zstd"),
        ("ask_rows", "test_b", "it's another"),
        ("golden_bits_i8mm", "GoldenBits.Cpu", "this processor has no i8mm"),
    ], found
    assert report(log).startswith("5 tests and cases skipped, which is not a pass:"), report(log)
    assert report("") == "no test skipped itself"


if __name__ == "__main__":
    if sys.argv[1:] == ["--self-test"]:
        self_test()
    else:
        print(report(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8", errors="replace")))
