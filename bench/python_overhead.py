"""What a job costs in Python over the command line: processor seconds of both on the same rows.

    python3 -m bench.python_overhead BANYAN MODEL [ROWS.jsonl | --documents 40] [--runs 3]

Without a file the rows have SQuAD 2.0's shape: documents of some 150 words with five questions each. The command line
reads and writes files; Python takes a list of dicts and gives one back, so its reading and writing of JSON counts.
Both load the model; the least of the runs counts, and seconds are of the processor, so that others do not disturb.
"""

import argparse
import json
import pathlib
import random
import resource
import subprocess
import sys
import tempfile

PYTHON = """
import json, sys
import banyan
rows = [json.loads(line) for line in open(sys.argv[1])]
with banyan.Model(sys.argv[2], threads=int(sys.argv[4])) as model:
    found = banyan.ask(rows, model=model, max_new=16)
    count = sum(1 for row in found if row["answer"] is not None)
open(sys.argv[3], "wb").write(b"".join(line + b"\\n" for line in found.lines))
"""


def squad_like(documents: int) -> list[dict]:
    draw = random.Random(5)
    words = (
        "the river harbour council built a new bridge near old mill during long war while its king " "signed treaty"
    ).split()
    return [
        {
            "id": f"d{i}",
            "context": " ".join(draw.choice(words) for _ in range(150)) + ".",
            "questions": [
                {"id": f"q{k}", "question": f"What did the {draw.choice(words)} of the {draw.choice(words)} do?"}
                for k in range(5)
            ],
        }
        for i in range(documents)
    ]


def seconds_of(command: list) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(list(map(str, command)), check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("banyan")
    parser.add_argument("model")
    parser.add_argument("rows", nargs="?")
    parser.add_argument("--documents", type=int, default=40)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        rows = arguments.rows or folder / "in.jsonl"
        if not arguments.rows:
            rows.write_text("".join(json.dumps(row) + "\n" for row in squad_like(arguments.documents)))
        program = [
            arguments.banyan,
            "ask",
            "-m",
            arguments.model,
            rows,
            "-o",
            folder / "program.jsonl",
            "--max-new",
            16,
            "--threads",
            arguments.threads,
            "--quiet",
            "--ordered",
            "--overwrite",
        ]
        package = [sys.executable, "-c", PYTHON, rows, arguments.model, folder / "package.jsonl", arguments.threads]
        start = seconds_of([sys.executable, "-c", "import banyan"])
        times = [(seconds_of(program), seconds_of(package)) for _ in range(arguments.runs)]
        if (folder / "program.jsonl").read_bytes() != (folder / "package.jsonl").read_bytes():
            print("the rows differ")
            return 1
    least = [min(run[side] for run in times) for side in (0, 1)]
    print(
        json.dumps(
            {
                "command_line_seconds": round(least[0], 3),
                "python_seconds": round(least[1], 3),
                "of_it_starting_python": round(start, 3),
                "overhead": round(least[1] / least[0] - 1, 4),
                "overhead_without_starting_python": round((least[1] - start) / least[0] - 1, 4),
                "rows_equal": True,
            }
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
