"""What questions cost in DuckDB over the command line: processor seconds of both on the same rows.

    python3 -m bench.duckdb_overhead BANYAN MODEL [--documents 400] [--runs 3]

The documents have SQuAD 2.0's shape: some 150 words with five questions each. The command line reads and writes JSONL;
DuckDB reads a Parquet file with a row for every question and writes one with the answers, its cache off, so that every
question is asked. Both load the model; the least of the runs counts. The answers must be the same.
"""

import argparse
import json
import pathlib
import sys
import tempfile

from bench.python_overhead import seconds_of, squad_like

DUCKDB = """
import sys
import banyan, banyan.duckdb, duckdb
con = duckdb.connect()
con.execute("SET threads = 1")
with banyan.Model(sys.argv[2], threads=int(sys.argv[4])) as model:
    banyan.duckdb.register(con, model=model, ask={"max_new": 16}, cache=False)
    asked = f"SELECT n, ask(context, question) AS answer FROM '{sys.argv[1]}'"
    con.execute(f"COPY ({asked}) TO '{sys.argv[3]}' (FORMAT parquet)")
"""


def main() -> int:
    import pyarrow
    import pyarrow.parquet

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("banyan")
    parser.add_argument("model")
    parser.add_argument("--documents", type=int, default=400)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    documents = squad_like(arguments.documents)
    pairs = [
        {"context": one["context"], "question": asked["question"]} for one in documents for asked in one["questions"]
    ]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in documents))
        pyarrow.parquet.write_table(
            pyarrow.Table.from_pylist([{"n": n, **pair} for n, pair in enumerate(pairs)]), folder / "in.parquet"
        )
        program = [
            arguments.banyan,
            "ask",
            "-m",
            arguments.model,
            folder / "in.jsonl",
            "-o",
            folder / "out.jsonl",
            "--max-new",
            16,
            "--threads",
            arguments.threads,
            "--quiet",
            "--ordered",
            "--overwrite",
        ]
        package = [
            sys.executable,
            "-c",
            DUCKDB,
            folder / "in.parquet",
            arguments.model,
            folder / "out.parquet",
            arguments.threads,
        ]
        start = seconds_of([sys.executable, "-c", "import banyan.duckdb, duckdb, pyarrow.parquet"])
        times = [(seconds_of(program), seconds_of(package)) for _ in range(arguments.runs)]
        wanted = [json.loads(line)["answer"] for line in open(folder / "out.jsonl")]
        found = pyarrow.parquet.read_table(folder / "out.parquet").sort_by("n").column("answer").to_pylist()
        if wanted != found:
            print("the answers differ")
            return 1
    least = [min(run[side] for run in times) for side in (0, 1)]
    print(
        json.dumps(
            {
                "rows": len(wanted),
                "command_line_seconds": round(least[0], 3),
                "duckdb_seconds": round(least[1], 3),
                "of_it_starting_python": round(start, 3),
                "overhead": round(least[1] / least[0] - 1, 4),
                "overhead_without_starting_python": round((least[1] - start) / least[0] - 1, 4),
            }
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
