"""EleutherAI's lm-eval over Banyan and over Transformers, on two small tasks from generated documents.

    pip install '.[eval]' torch transformers gguf accelerate
    python3 -m eval.harness MODEL.gguf [--documents 24] [--threads N] [--only banyan|transformers] [--out scores.json]

`choice`: which of four options, by log-likelihood (acc, acc_norm). `reading`: a short answer, written greedily,
compared as a whole (exact_match, without case and punctuation) and by characters (chrF). Both backends read the same
file: Transformers dequantises the GGUF, Banyan runs it in float32 (--precision f32). The table has the scores with
lm-eval's standard errors, and how far single answers differ.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import random
import tempfile
from typing import Any

from eval.sets import TOKENIZER, choices, haystacks
from train.lexicon import HELD, Lexicon
from train.tokenizer import Tokenizer

# One example shows a small model how short an answer is.
EXAMPLE = "Text: The gate was opened in 1932. Question: When was the gate opened? Answer: 1932\n\n"
PROMPT = "Text: {{context}} Question: {{question}} Answer:"
LONGEST = 1000  # characters of a document: the tasks run in minutes on two cores


def write_tasks(folder: pathlib.Path, documents: int) -> None:
    """The documents and the tasks' descriptions."""
    rows: dict[str, list[dict[str, Any]]] = {"choice": [], "reading": []}
    lexicon, tokenizer = Lexicon(random.Random("lm-eval"), HELD), Tokenizer.load(TOKENIZER)
    while len(rows["choice"]) < documents:
        record = choices(lexicon, 1)[0]
        question = record["questions"][0]
        if len(record["context"]) <= LONGEST:
            rows["choice"].append(
                {
                    "context": record["context"],
                    "question": question["question"],
                    "choices": question["choices"],
                    "gold": "ABCDEFGH".index(question["answers"][0]),
                }
            )
    while len(rows["reading"]) < documents:
        record = haystacks(lexicon, tokenizer, 1, 60, 120, "reading")[0]
        answered = [one for one in record["questions"] if one["answers"]]
        if answered:
            rows["reading"].append(
                {"context": record["context"], "question": answered[0]["question"], "answer": answered[0]["answers"][0]}
            )
    shared = {
        "test_split": "test",
        "doc_to_text": EXAMPLE + PROMPT,
        "dataset_path": "json",
        "num_fewshot": 0,
        "metadata": {"version": 1},
    }
    kinds = {
        "choice": {
            "output_type": "multiple_choice",
            "doc_to_choice": "{{choices}}",
            "doc_to_target": "gold",
            "metric_list": [{"metric": "acc"}, {"metric": "acc_norm"}],
        },
        "reading": {
            "output_type": "generate_until",
            "doc_to_target": "{{answer}}",
            "generation_kwargs": {"until": ["\n"], "do_sample": False, "max_gen_toks": 16},
            "filter_list": [
                {"name": "stripped", "filter": [{"function": "remove_whitespace"}, {"function": "take_first"}]}
            ],
            "metric_list": [
                {
                    "metric": "exact_match",
                    "aggregation": "mean",
                    "higher_is_better": True,
                    "ignore_case": True,
                    "ignore_punctuation": True,
                },
                {"metric": "chrf"},
            ],
        },
    }
    for name, lines in rows.items():
        data = folder / f"{name}.jsonl"
        data.write_text("".join(json.dumps(line) + "\n" for line in lines))
        task = {
            "task": f"banyan_{name}",
            **shared,
            **kinds[name],
            "dataset_kwargs": {"data_files": {"test": str(data)}},
        }
        (folder / f"{name}.yaml").write_text(json.dumps(task, indent=1))  # JSON is YAML


def evaluate(model: Any, folder: pathlib.Path, names: list[str]) -> dict[str, Any]:
    """Scores as {"task metric": [score, standard error]}, and every answer: log-likelihoods of options, or a text."""
    import lm_eval
    from lm_eval.tasks import TaskManager

    tasks = TaskManager(include_path=str(folder), include_defaults=False)
    found = lm_eval.simple_evaluate(
        model=model,
        tasks=[f"banyan_{name}" for name in names],
        task_manager=tasks,
        bootstrap_iters=200,
        log_samples=True,
    )
    scores = {}
    for task, values in found["results"].items():
        for name, value in values.items():
            metric = name.split(",")[0]
            if isinstance(value, float) and "stderr" not in metric:
                error = values.get(name.replace(metric, f"{metric}_stderr"))
                scores[f"{task.removeprefix('banyan_')} {metric}"] = [
                    value,
                    error if isinstance(error, float) else None,
                ]
    answers = {
        task.removeprefix("banyan_"): [_answer(sample["filtered_resps"]) for sample in samples]
        for task, samples in found["samples"].items()
    }
    return {"scores": scores, "answers": answers}


def _answer(responses: list[Any]) -> Any:
    first = responses[0]
    return first if isinstance(first, str) else [float(one[0]) for one in responses]


def compare(ours: dict[str, Any], theirs: dict[str, Any]) -> str:
    """The table of docs/results.md."""
    lines = ["| task | metric | Banyan | Transformers |", "|---|---|---|---|"]
    for name, (score, error) in ours["scores"].items():
        other, other_error = theirs["scores"][name]
        task, metric = name.split(" ", 1)
        cells = [
            f"{value:.3f}" + (f" ± {width:.3f}" if width is not None else "")
            for value, width in ((score, error), (other, other_error))
        ]
        lines.append(f"| {task} | {metric} | {cells[0]} | {cells[1]} |")
    lines.append("")
    if "choice" in ours["answers"]:
        options = [
            (a, b)
            for one, other in zip(ours["answers"]["choice"], theirs["answers"]["choice"])
            for a, b in zip(one, other)
        ]
        lines.append(
            f"Log-likelihoods of {len(options)} options differ by {max(abs(a - b) for a, b in options):.2g} at most."
        )
    if "reading" in ours["answers"]:
        texts = list(zip(ours["answers"]["reading"], theirs["answers"]["reading"]))
        lines.append(f"{sum(a == b for a, b in texts)} of {len(texts)} written answers are the same text.")
    return "\n".join(lines)


def banyan_model(path: str, threads: int) -> Any:
    from banyan.lm_eval import BanyanLM

    return BanyanLM(path, precision="f32", threads=threads)


def transformers_model(path: str, threads: int) -> Any:
    import torch
    from lm_eval.models.huggingface import HFLM
    from transformers import AutoModelForCausalLM, AutoTokenizer

    if threads:
        torch.set_num_threads(threads)
    file = pathlib.Path(path)
    loaded = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    return HFLM(pretrained=loaded, tokenizer=tokenizer, batch_size=4)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--documents", type=int, default=24)
    parser.add_argument("--threads", type=int, default=0, help="0: as many as there are cores")
    parser.add_argument("--tasks", nargs="+", choices=("choice", "reading"), default=["choice", "reading"])
    parser.add_argument("--only", choices=("banyan", "transformers"))
    parser.add_argument("--out")
    arguments = parser.parse_args()
    scores: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_tasks(folder, arguments.documents)
        for backend, load in (("banyan", banyan_model), ("transformers", transformers_model)):
            if arguments.only in (None, backend):
                scores[backend] = evaluate(load(arguments.model, arguments.threads), folder, arguments.tasks)
                print(backend, json.dumps(scores[backend]["scores"]), flush=True)
    if len(scores) == 2:
        print(compare(scores["banyan"], scores["transformers"]))
    if arguments.out:
        pathlib.Path(arguments.out).write_text(json.dumps(scores, indent=1) + "\n")


if __name__ == "__main__":
    main()
