"""Many questions of a document in one prompt, as SeqBatch has it, beside `banyan ask`, which asks them at once and
apart:

    python3 -m eval.seqbatch FILE.jsonl -m MODEL [--adapter DIR] [--batch 1,4,8] [--limit N] [--json FILE] [-- --threads
        2]

FILE has rows of {"id","context","questions":[{"id","question","answers"}]}. SeqBatch numbers the questions of a prompt,
and the model writes numbered answers one after the other; here up to --batch of them are in a prompt. An answer is what
stands behind its number, up to the next number. A number that is not there, or comes twice, is a failure: its question
has no answer, which is wrong. With one question a prompt it is the same instruction with one number. `apart` is `banyan
ask` with its own instruction, every question a branch of the document. Exact match and F1 are SQuAD's; a question
without an answer wants `null`. Tokens and seconds are the receipt's, without loading; runs take turns, and of --repeat
runs the fastest counts.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from eval.reading import answers_of, intervals, judge, means

INSTRUCTION = (
    "Answer the numbered questions from the text, as short as possible, with words of the text. Write every answer on a"
    " line of its own after the number of its question. Write null where the text does not say."
)
NUMBERED = re.compile(r"(?m)^[ \t]*(?:Q|A|Answer)?[ \t]*(\d+)[.):][ \t]*(.*)$")
TOKENS_OF_AN_ANSWER = 32


def batches(records: list[dict], most: int) -> list[dict]:
    """Rows for `banyan ask`: one question that holds up to `most` numbered ones; `asked` says which."""
    rows = []
    for record in records:
        for begin in range(0, len(record["questions"]), most):
            asked = record["questions"][begin : begin + most]
            text = "\n".join(f"{n}. {q['question']}" for n, q in enumerate(asked, 1))
            rows.append(
                dict(
                    id=f"{record['id']}#{begin}",
                    context=record["context"],
                    questions=[dict(id="all", question=text)],
                    asked=[(record["id"], q["id"]) for q in asked],
                )
            )
    return rows


def parse(text: str, count: int) -> list[str | None]:
    """The answers to questions 1 to `count`; None for one whose number is missing or comes twice."""
    found: dict[int, list[str]] = {}
    for number, answer in NUMBERED.findall(text):
        found.setdefault(int(number), []).append(answer.strip())
    return [found[n][0] if len(found.get(n, [])) == 1 and found[n][0] else None for n in range(1, count + 1)]


def take_limit(options: list[str]) -> int:
    """Takes `--max-new N` out of options for the program; 0: it is not there. SeqBatch has it for each answer."""
    for n, word in enumerate(options):
        name, equals, value = word.partition("=")
        if name == "--max-new" and (equals or n + 1 < len(options)):
            value = value if equals else options[n + 1]
            del options[n : n + (1 if equals else 2)]
            return int(value)
    return 0


def arguments(parser: argparse.ArgumentParser, words: list[str] | None = None) -> argparse.Namespace:
    """The parser's own words; `options` has those after `--`, which are for the program."""
    words = sys.argv[1:] if words is None else words
    own = words[: words.index("--")] if "--" in words else words
    return argparse.Namespace(**dict(vars(parser.parse_args(own)), options=words[len(own) + 1 :]))


def with_given(usual: list[str], given: list[str]) -> list[str]:
    """Options of a way, then those of the command line, which replace a way's of the same name."""
    names = {word.split("=")[0] for word in given if word.startswith("--")}
    kept, drop = [], False
    for word in usual:
        drop = word in names if word.startswith("--") else drop
        if not drop:
            kept.append(word)
    return [*kept, *given]


def run(a: argparse.Namespace, rows: list[dict], options: list[str]) -> tuple[list[dict], dict]:
    """(rows, receipt) of `banyan ask`."""
    with tempfile.TemporaryDirectory() as folder:
        source, target, receipt = Path(folder, "in.jsonl"), Path(folder, "out.jsonl"), Path(folder, "receipt.json")
        source.write_text(
            "".join(json.dumps({k: v for k, v in r.items() if k != "asked"}) + "\n" for r in rows), encoding="utf-8"
        )
        command = [
            a.banyan,
            "ask",
            "-m",
            a.model,
            str(source),
            "-o",
            str(target),
            "--receipt",
            str(receipt),
            "--quiet",
            "--adapter",
            a.adapter or "none",
            *with_given(options, a.options),
        ]
        done = subprocess.run(command)
        if done.returncode not in (0, 1):  # 1: some rows are errors
            raise SystemExit(f"{' '.join(command)}: exit status {done.returncode}")
        return [json.loads(line) for line in target.read_text(encoding="utf-8").splitlines()], json.loads(
            receipt.read_text()
        )


def seqbatch(a: argparse.Namespace, records: list[dict], most: int) -> tuple[dict, int, dict]:
    """(answers by question, None where none is readable; how many those are; receipt)"""
    rows = batches(records, most)
    written, receipt = run(
        a, rows, ["--instruction", INSTRUCTION, "--max-new", str(min(most * a.max_new, 2048)), "--no-copy"]
    )
    texts = {row["id"]: row.get("answer") or "" for row in written}
    found, failed = {}, 0
    for row in rows:
        for question, answer in zip(row["asked"], parse(texts.get(row["id"], ""), len(row["asked"]))):
            failed += answer is None
            found[question] = answer
    return found, failed, receipt


def apart(a: argparse.Namespace, records: list[dict]) -> tuple[dict, int, dict]:
    written, receipt = run(a, records, ["--max-new", str(a.max_new), "--no-copy"])
    return answers_of(written), sum("error" in r for r in written), receipt


def table(rows: dict[str, dict]) -> str:
    lines = [
        "| questions in a prompt | exact | F1 | no readable answer | tokens in | tokens out | s |",
        "|---" * 7 + "|",
    ]
    for name, r in rows.items():
        low, high = r["intervals"]["f1"]
        times = f"{r['prefilled']} | {r['generated']} | {r['seconds']:.1f}" if "seconds" in r else " | | "
        lines.append(
            f"| {name} | {100 * r['exact']:.1f} % | {r['f1']:.3f} ({low:.2f} to {high:.2f}) | {r['failed']} of"
            f" {r['questions']} | {times} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("file", type=Path)
    p.add_argument("-m", "--model", required=True)
    p.add_argument("--adapter", default="")
    p.add_argument("--batch", default="1,4,8", help="questions in a prompt, at most")
    p.add_argument("--limit", type=int, default=0, help="documents; 0: all")
    p.add_argument("--max-new", type=int, default=TOKENS_OF_AN_ANSWER, help="tokens of an answer")
    p.add_argument("--repeat", type=int, default=1)
    p.add_argument("--draws", type=int, default=1000, help="of the bootstrap")
    p.add_argument("--banyan", default="build/release/banyan")
    p.add_argument("--json", type=Path)
    a = arguments(p)
    a.max_new = take_limit(a.options) or a.max_new
    records = [json.loads(line) for line in a.file.open(encoding="utf-8")][: a.limit or None]
    ways = {"apart (`banyan ask`)": lambda: apart(a, records)} | {
        f"{n} (SeqBatch)": lambda n=n: seqbatch(a, records, n) for n in map(int, a.batch.split(","))
    }
    rows: dict[str, dict] = {}
    nothing = {(r["id"], q["id"]): "null" for r in records for q in r["questions"]}
    judged = judge(records, nothing)
    rows["null to all"] = dict(means(judged), intervals=intervals(judged, a.draws), failed=0)
    for _ in range(a.repeat):
        for name, way in ways.items():
            found, failed, receipt = way()
            seconds = receipt["seconds"]["total"]
            if name in rows and rows[name]["seconds"] <= seconds:
                continue
            judged = judge(records, found)
            rows[name] = dict(
                means(judged),
                intervals=intervals(judged, a.draws),
                failed=failed,
                seconds=seconds,
                prefilled=receipt["prefilled_tokens"],
                generated=receipt["generated_tokens"],
            )
    print(table(rows))
    if a.json:
        a.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
