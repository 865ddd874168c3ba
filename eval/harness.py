"""EleutherAI's lm-eval over Banyan and over Transformers, on two small tasks from generated documents.

    pip install '.[eval]' torch transformers gguf accelerate
    python3 -m eval.harness MODEL.gguf [--documents 24] [--only banyan|transformers] [--out scores.json]

`choice`: which of four options, by log-likelihood. `reading`: a short answer, written greedily, compared
by characters (chrF).
Both backends read the same file: Transformers dequantises the GGUF, Banyan runs it in float32 (--precision f32).
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

PROMPT = "{{context}}\n\nQuestion: {{question}}\nAnswer:"


def write_tasks(folder: pathlib.Path, documents: int) -> None:
    """The documents and the tasks' descriptions."""
    rows: dict[str, list[dict[str, Any]]] = {"choice": [], "reading": []}
    lexicon, tokenizer = Lexicon(random.Random("lm-eval"), HELD), Tokenizer.load(TOKENIZER)
    for record in choices(lexicon, documents):
        for question in record["questions"][:1]:
            rows["choice"].append({"context": record["context"][:1500], "question": question["question"],
                                   "choices": question["choices"], "gold": "ABCDEFGH".index(question["answers"][0])})
    for record in haystacks(lexicon, tokenizer, documents, 60, 200, "reading"):
        for question in [one for one in record["questions"] if one["answers"]][:1]:
            rows["reading"].append({"context": record["context"], "question": question["question"],
                                    "answer": question["answers"][0]})
    shared = {"test_split": "test", "doc_to_text": PROMPT, "dataset_path": "json", "num_fewshot": 0,
              "metadata": {"version": 1}}
    kinds = {
        "choice": {"output_type": "multiple_choice", "doc_to_choice": "{{choices}}", "doc_to_target": "gold",
                   "metric_list": [{"metric": "acc"}, {"metric": "acc_norm"}]},
        "reading": {"output_type": "generate_until", "doc_to_target": "{{answer}}",
                    "generation_kwargs": {"until": ["\n"], "do_sample": False, "max_gen_toks": 16},
                    "metric_list": [{"metric": "chrf"}]}}
    for name, lines in rows.items():
        data = folder / f"{name}.jsonl"
        data.write_text("".join(json.dumps(line) + "\n" for line in lines))
        task = {"task": f"banyan_{name}", **shared, **kinds[name], "dataset_kwargs": {"data_files": {"test": str(data)}}}
        (folder / f"{name}.yaml").write_text(json.dumps(task, indent=1))  # JSON is YAML


def evaluate(model: Any, folder: pathlib.Path) -> dict[str, float]:
    import lm_eval
    from lm_eval.tasks import TaskManager
    tasks = TaskManager(include_path=str(folder), include_defaults=False)
    found = lm_eval.simple_evaluate(model=model, tasks=["banyan_choice", "banyan_reading"], task_manager=tasks,
                                    bootstrap_iters=0)
    return {f"{task} {name.split(',')[0]}": value for task, scores in found["results"].items()
            for name, value in scores.items() if isinstance(value, float) and "stderr" not in name}


def banyan_model(path: str) -> Any:
    from banyan.lm_eval import BanyanLM
    return BanyanLM(path, precision="f32")


def transformers_model(path: str) -> Any:
    import torch
    from lm_eval.models.huggingface import HFLM
    from transformers import AutoModelForCausalLM, AutoTokenizer
    file = pathlib.Path(path)
    loaded = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    return HFLM(pretrained=loaded, tokenizer=tokenizer, batch_size=4)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--documents", type=int, default=24)
    parser.add_argument("--only", choices=("banyan", "transformers"))
    parser.add_argument("--out")
    arguments = parser.parse_args()
    scores: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_tasks(folder, arguments.documents)
        for backend, load in (("banyan", banyan_model), ("transformers", transformers_model)):
            if arguments.only in (None, backend):
                scores[backend] = evaluate(load(arguments.model), folder)
                print(backend, json.dumps(scores[backend]), flush=True)
    if arguments.out:
        pathlib.Path(arguments.out).write_text(json.dumps(scores, indent=1) + "\n")


if __name__ == "__main__":
    main()
