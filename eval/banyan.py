"""Drives the engine: text in, answers out, through `banyan ids` (or `banyan ask`), one process per call."""

from __future__ import annotations

import json
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from train.sample import DEFAULT_INSTRUCTION, IM_END, with_choices

_CONTEXT, _QUESTION = "@@context@@", "@@question@@"  # cut marks put through the chat template


@dataclass
class Engine:
    binary: str
    model: str
    options: tuple[str, ...] = ()  # such as --precision mixed

    def ids(self, rows: list[dict]) -> list[dict]:
        """One output row per input row, in the same order; any error row stops the evaluation."""
        lines = "".join(json.dumps(dict(r, id=str(n))) + "\n" for n, r in enumerate(rows))
        done = subprocess.run(
            [self.binary, "ids", "-m", self.model, *self.options], input=lines, capture_output=True, text=True
        )
        out = {o["id"]: o for o in map(json.loads, done.stdout.splitlines())}
        bad = next((o for o in out.values() if "error" in o), None)
        if bad or len(out) != len(rows):
            raise RuntimeError(
                f"banyan ids answered {len(out)} of {len(rows)} rows, exit code {done.returncode}:"
                f" {bad or done.stderr[-500:]}"
            )
        return [out[str(n)] for n in range(len(rows))]

    def tokenize(self, texts: list[str]) -> list[list[int]]:
        return [o["ids"] for o in self.ids([dict(kind="tokenize", text=t, add_special=False) for t in texts])]

    def detokenize(self, ids: list[list[int]]) -> list[str]:
        return [o["text"] for o in self.ids([dict(kind="detokenize", ids=i) for i in ids])]

    def prompt_parts(self, systems: list[str]) -> list[tuple[str, str, str]]:
        """The chat template cut at context and question: (before, between, after) for each system message."""
        content = f"{_CONTEXT}\n\nQuestion: {_QUESTION}"
        messages = [[dict(role="system", content=s), dict(role="user", content=content)] for s in systems]
        texts = [
            o["text"] for o in self.ids([dict(kind="chat", messages=m, add_generation_prompt=True) for m in messages])
        ]
        out = []
        for text in texts:
            before, rest = text.split(_CONTEXT)
            between, after = rest.split(_QUESTION)
            out.append((before, between, after))
        return out

    def answer_ids(self, records: list[dict], max_new: int) -> list[list[str]]:
        """`ask` records through kind `stacked`: instruction, context and questions as segments of one tree."""
        systems = [r.get("instruction", DEFAULT_INSTRUCTION) for r in records]
        parts = dict(zip(systems, self.prompt_parts(systems)))
        texts: list[str] = [IM_END]
        for r, s in zip(records, systems):
            before, between, after = parts[s]
            questions = [
                with_choices(q["question"], q["choices"]) if "choices" in q else q["question"] for q in r["questions"]
            ]
            texts += [before, r["context"], *(between + q + after for q in questions)]
        runs = iter(self.tokenize(texts))
        stop, rows = next(runs), []
        for r in records:
            p, c = next(runs), next(runs)
            rows.append(
                dict(
                    kind="stacked",
                    p=p,
                    contexts=[dict(c=c, questions=[dict(x=next(runs)) for _ in r["questions"]])],
                    max_new=max_new,
                    stop=stop,
                )
            )
        tokens = [a for o in self.ids(rows) for a in o["answers"][0]]
        texts_out = iter(self.detokenize([t[:-1] if t[-1:] == stop else t for t in tokens]))
        return [[next(texts_out) for _ in r["questions"]] for r in records]

    def answer_ask(self, records: list[dict], max_new: int) -> list[list[str]]:
        """The same through `banyan ask`, as a user would."""
        with tempfile.TemporaryDirectory() as folder:
            source, target = Path(folder, "in.jsonl"), Path(folder, "out.jsonl")
            source.write_text(
                "".join(
                    json.dumps(dict(r, instruction=r.get("instruction", DEFAULT_INSTRUCTION))) + "\n" for r in records
                )
            )
            command = [
                self.binary,
                "ask",
                "-m",
                self.model,
                str(source),
                "-o",
                str(target),
                "--overwrite",
                "--max-new",
                str(max_new),
                "--choices",
                "letter",
                *self.options,
            ]
            subprocess.run(command, check=True, capture_output=True)
            rows = [json.loads(line) for line in target.read_text().splitlines()]
        found = {(o["id"], o["question_id"]): o.get("letter", o.get("answer") or "null") for o in rows}
        return [[found[r["id"], q["id"]] for q in r["questions"]] for r in records]

    def complete(self, prompts: list[tuple[str, str]], max_new: int) -> list[str]:
        """Greedy answers to (system, user) messages."""
        messages = [[dict(role="system", content=s), dict(role="user", content=u)] for s, u in prompts]
        texts = [
            o["text"] for o in self.ids([dict(kind="chat", messages=m, add_generation_prompt=True) for m in messages])
        ]
        stop, *runs = self.tokenize([IM_END, *texts])
        tokens = [o["tokens"] for o in self.ids([dict(kind="greedy", ids=r, max_new=max_new, stop=stop) for r in runs])]
        return self.detokenize([t[:-1] if t[-1:] == stop else t for t in tokens])

    def score_values(self, records: list[dict], values: list[dict]) -> dict:
        """Counts of slots and F1 by `banyan eval extract`; `values` of a record by attribute, None or absent: null."""
        with tempfile.TemporaryDirectory() as folder:
            gold, given = Path(folder, "gold.jsonl"), Path(folder, "given.jsonl")
            gold.write_text("".join(json.dumps(dict(id=n, values=r["values"])) + "\n" for n, r in enumerate(records)))
            given.write_text("".join(json.dumps(dict(id=n, values=v)) + "\n" for n, v in enumerate(values)))
            done = subprocess.run(
                [self.binary, "eval", "extract", str(gold), str(given), "--bootstrap", "0", "--json"],
                check=True,
                capture_output=True,
                text=True,
            )
        return json.loads(done.stdout)["all"]
