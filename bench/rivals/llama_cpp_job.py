#!/usr/bin/env python3
"""Questions on pages in Banyan and in llama.cpp: one job as token ids, the answers compared, questions a second.

usage: llama_cpp_job.py PAGES.jsonl --model MODEL.gguf [--pages 16] [--questions 6] > JOB.jsonl
writes the job: one line of kind "stacked" for `banyan ids` (rows of PAGES have "context" and "questions", as those of
`banyan ask`). `llama_cpp_steps.py --job JOB.jsonl` runs it. llama.cpp answers it in two ways: at its best, it computes
the instruction once, every page once, and writes the answers to as many pages at once as it has sequences; as
llama-cpp-python is used, it answers question by question and keeps what begins as the one before.
"""

import argparse
import json
import subprocess
import tempfile
import time

INSTRUCTION = "<|im_start|>system\nAnswer the question with a few words of the text.<|im_end|>\n" "<|im_start|>user\n"


def tokenize(banyan: str, model: str, texts: list[str]) -> list[list[int]]:
    lines = "".join(json.dumps({"kind": "tokenize", "text": text}) + "\n" for text in texts)
    done = subprocess.run([banyan, "ids", "-m", model], input=lines, capture_output=True, text=True, check=True)
    return [json.loads(line)["ids"] for line in done.stdout.splitlines()]


def make_job(arguments) -> dict:
    with open(arguments.pages_file, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    rows = [row for row in rows if len(row["questions"]) >= arguments.questions][: arguments.pages]
    contexts = []
    for row in rows:
        asked = [q["question"] if isinstance(q, dict) else q for q in row["questions"][: arguments.questions]]
        texts = [row["context"] + "\n"] + [f"{q}<|im_end|>\n<|im_start|>assistant\n" for q in asked]
        page, *questions = tokenize(arguments.banyan, arguments.model, texts)
        contexts.append({"c": page, "questions": [{"x": ids} for ids in questions]})
    instruction, stop = tokenize(arguments.banyan, arguments.model, [INSTRUCTION, "<|im_end|>"])
    return {"id": "job", "kind": "stacked", "p": instruction, "contexts": contexts, "max_new": 16, "stop": stop[0]}


def run_banyan(job: dict, banyan: str, model: str, threads: int) -> tuple[float, list[list[int]]]:
    """Seconds without those of loading the model, and the answers' tokens."""

    def timed(line: dict) -> tuple[float, str]:
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
            file.write(json.dumps(line) + "\n")
            file.flush()
            start = time.perf_counter()
            done = subprocess.run(
                [banyan, "ids", "-m", model, "--precision", "mixed", "--threads", str(threads), file.name],
                capture_output=True,
                text=True,
                check=True,
            )
            return time.perf_counter() - start, done.stdout

    least, answers = float("inf"), []
    for _ in range(2):
        loading, _ = timed({"id": "short", "kind": "greedy", "ids": job["p"][:1], "max_new": 1})
        whole, output = timed(job)
        least = min(least, whole - loading)
        answers = [
            answer["tokens"] if isinstance(answer, dict) else answer
            for page in json.loads(output)["answers"]
            for answer in page
        ]
    return least, answers


def run_llama(llama, job: dict, sequences: int) -> tuple[float, list[list[int]]]:
    """The same in llama.cpp, whose sequence `sequences` has the instruction."""
    start = time.perf_counter()
    llama.clear()
    llama.prompt(job["p"], sequences)
    together = max(1, sequences // len(job["contexts"][0]["questions"]))
    answers = []
    for begin in range(0, len(job["contexts"]), together):
        pages, written, rows = job["contexts"][begin : begin + together], {}, []
        for page in pages:
            first = len(written)
            llama.share(sequences, first)
            offset = len(job["p"])
            llama.feed([(t, offset + i, first, False) for i, t in enumerate(page["c"])])
            offset += len(page["c"])
            for s, question in enumerate(page["questions"], first):
                if s > first:
                    llama.share(first, s)
                written[s] = []
                last = len(question["x"]) - 1
                rows += [(t, offset + i, s, i == last) for i, t in enumerate(question["x"])]
        ends = {row[2]: row[1] for row in rows}  # the last position of each
        while rows:
            rows_next = []
            for s, token in llama.feed(rows).items():
                written[s].append(token)
                ends[s] += 1
                if token != job["stop"] and len(written[s]) < job["max_new"]:
                    rows_next.append((token, ends[s], s, True))
            rows = rows_next
        answers += [written[s] for s in sorted(written)]
        for s in written:
            llama.forget(s)
    return time.perf_counter() - start, answers


def run_llama_one_by_one(llama, job: dict) -> tuple[float, list[list[int]]]:
    """One sequence, in which a prompt finds what it has in common with the one before."""
    start = time.perf_counter()
    llama.clear()
    kept, answers = [], []
    for page in job["contexts"]:
        for question in page["questions"]:
            prompt = job["p"] + page["c"] + question["x"]
            common = next((i for i, (a, b) in enumerate(zip(kept, prompt)) if a != b), min(len(kept), len(prompt) - 1))
            llama.forget(0, common)
            rows = [(t, i, 0, i + 1 == len(prompt)) for i, t in enumerate(prompt)][common:]
            written = []
            while True:
                written.append(llama.feed(rows)[0])
                if written[-1] == job["stop"] or len(written) == job["max_new"]:
                    break
                rows = [(written[-1], len(prompt) + len(written) - 1, 0, True)]
            kept = prompt + written[:-1]
            answers.append(written)
    return time.perf_counter() - start, answers


def compare_job(llama, path: str, banyan: str, model: str, threads: int, sequences: int) -> None:
    with open(path, encoding="utf-8") as file:
        job = json.load(file)
    ours, our_answers = run_banyan(job, banyan, model, threads)
    count = len(our_answers)
    print(f"{len(job['contexts'])} pages, {count} questions: banyan {count / ours:.2f} questions/s")
    without_stop = lambda tokens: [t for t in tokens if t != job["stop"]]
    for name, (theirs, answers) in (
        ("pages together", run_llama(llama, job, sequences)),
        ("one by one", run_llama_one_by_one(llama, job)),
    ):
        same = sum(without_stop(a) == without_stop(b) for a, b in zip(our_answers, answers))
        print(
            f"llama.cpp, {name}: {count / theirs:.2f} questions/s, ratio {theirs / ours:.2f}; {same} answers the same",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages_file")
    parser.add_argument("--model", required=True)
    parser.add_argument("--banyan", default="build/release/banyan")
    parser.add_argument("--pages", type=int, default=16)
    parser.add_argument("--questions", type=int, default=6)
    print(json.dumps(make_job(parser.parse_args())))


if __name__ == "__main__":
    main()
