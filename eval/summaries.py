"""Map-reduce as papers on retrieval have it: a summary of every document, made without the question, then one answer
from all summaries. (`banyan rag --method map-reduce` asks every document the question.)
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from pathlib import Path

INSTRUCTION = "Summarise the text in at most two sentences, with its names, numbers and dates."
QUESTION = "What does the text say?"
TOKENS = 64  # of a summary
# Options of `rag` that say how a model runs: they hold for summaries, too. Each has a value.
OF_ANY_JOB = ("--device", "--precision", "--threads", "--kv-type", "--kv-memory", "--max-streams", "--strategy")


def of_any_job(options: list[str]) -> list[str]:
    """Without those that `ask` does not have, such as --relevance."""
    out: list[str] = []
    for n, word in enumerate(options):
        if word.partition("=")[0] in OF_ANY_JOB:
            out += [word] if "=" in word else options[n : n + 2]
    return out


def summarised(a: argparse.Namespace, rows: list[dict]) -> tuple[list[dict], float]:
    """(rows of `rag` whose documents' texts are their summaries; the seconds that these took). A document that gave
    none keeps no text but its title; `notes` of a row has the summaries by document. `a`: banyan, model, adapter,
    options."""
    texts = list(dict.fromkeys(d["text"] for r in rows for d in r["documents"]))
    with tempfile.TemporaryDirectory() as folder:
        source, target, receipt = (Path(folder, name) for name in ("in.jsonl", "out.jsonl", "receipt.json"))
        asked = [
            dict(id=n, context=text, questions=[dict(id="summary", question=QUESTION)]) for n, text in enumerate(texts)
        ]
        source.write_text("".join(json.dumps(row) + "\n" for row in asked), encoding="utf-8")
        command = [a.banyan, "ask", "-m", a.model, str(source), "-o", str(target), "--receipt", str(receipt), "--quiet"]
        command += ["--adapter", getattr(a, "adapter", "") or "none"]
        command += ["--instruction", INSTRUCTION, "--max-new", str(TOKENS), "--no-copy", "--too-long", "truncate"]
        done = subprocess.run([*command, *of_any_job(a.options)], capture_output=True, text=True)
        if done.returncode not in (0, 1):  # 1: some rows are errors: no note
            raise SystemExit(f"{' '.join(command)}: exit status {done.returncode}: {done.stderr.strip()[-500:]}")
        written = [json.loads(line) for line in target.read_text(encoding="utf-8").splitlines()]
        seconds = json.loads(receipt.read_text())["seconds"]["total"]
    return with_notes(rows, texts, {row["id"]: row.get("answer") for row in written if "error" not in row}), seconds


def with_notes(rows: list[dict], texts: list[str], summaries: dict[int, str | None]) -> list[dict]:
    """Rows over summaries. A question none of whose documents has one keeps a single empty note, so that it is asked."""
    of_text = {text: (summaries.get(n) or "").strip() for n, text in enumerate(texts)}
    out = []
    for r in rows:
        notes = [dict(d, text=of_text[d["text"]]) for d in r["documents"]]
        telling = [d for d in notes if d["text"]] or [dict(notes[0], text="Nothing is known.")]
        out.append(dict(r, documents=telling, notes={str(d["id"]): d["text"] for d in notes}))
    return out
