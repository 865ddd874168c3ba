"""Trains one LoRA adapter that answers questions, extracts values and reads for `rag`, on any `llama` or `qwen2` GGUF
file with a ChatML template, inside a time limit:

    python3 -m train.adapter --model MODEL.gguf --texts texts.jsonl.xz --documents documents*.jsonl.xz --out OUT
        --seconds 360 [--measured measured.jsonl.xz] [--begin-with ADAPTER]

`texts` comes from `train.reading_texts`, `documents` from `train.task_documents`, `measured` from `train.task_scores`.
The loss is on answers alone; rows are packed, and a row is a pure function of seed and step. The rate rises in the
first steps and falls as a cosine of the share of `--seconds` that is gone, loading and compilation included, scoring
not. The rank is the largest whose file stays within `--megabytes`. OUT gets

    adapter/          as PEFT saves it, bf16
    log.jsonl         losses and rates
    before.json       scores on the frozen sets, with `before-answers.jsonl`; and after.json, after-answers.jsonl
    run.json          settings, time, tokens, scores: what the card says
    checkpoint.pt     the last whole state: the same command goes on from it after an interruption
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import time
from pathlib import Path

import torch

from train.feed import feed
from train.lora_model import LoraModel, Shape, largest_rank, load_adapter, save_adapter
from train.model import Visibility
from train.gguf import read_metadata
from train.reading_mixture import ReadingMixture, train_templates
from train.task_encode import encode_task
from train.task_mixture import TaskMixture
from train.task_scores import load_measured, score
from train.tokenizer import load_tokenizer
from train.trainer import prefetch


def digest(path: Path) -> str:
    with path.open("rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest() if hasattr(hashlib, "file_digest") else hash_of(f)


def hash_of(f) -> str:
    out = hashlib.sha256()
    while block := f.read(1 << 20):
        out.update(block)
    return out.hexdigest()


def cosine(progress: float, least: float = 0.04) -> float:
    return least + (1 - least) * 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))


class Run:
    def __init__(self, a: argparse.Namespace) -> None:
        self.a, self.began, self.step, self.spent, self.first = a, time.time(), 0, 0.0, None
        a.out.mkdir(parents=True, exist_ok=True)
        torch.manual_seed(a.seed)
        self.device = torch.device(a.device or ("cuda" if torch.cuda.is_available() else "cpu"))
        self.rank = a.rank or largest_rank(Shape.of(read_metadata(a.model)), int(a.megabytes * 1e6) - 100_000)
        dtype = torch.bfloat16 if self.device.type == "cuda" else torch.float32
        self.tok = load_tokenizer(a.model)
        self.model = LoraModel(a.model, self.rank, a.alpha or 2 * self.rank, self.device, dtype, a.seed)
        if a.begin_with:
            load_adapter(self.model, a.begin_with)
        if self.device.type == "cuda":
            torch.set_float32_matmul_precision("high")
            self.model.use_flex(not a.eager)
        self.mask = Visibility(a.rows, a.length, self.device)
        self.trained = list(self.model.parameters())
        self.adam = torch.optim.AdamW(
            self.trained, lr=a.rate, betas=(0.9, 0.98), weight_decay=0.0, fused=self.device.type == "cuda"
        )
        self.checkpoint = a.out / "checkpoint.pt"
        if self.checkpoint.exists():
            self.resume()
        self.say(loaded=True, rank=self.rank, parameters=sum(p.numel() for p in self.trained))

    def say(self, **row) -> None:
        row["seconds"] = round(self.gone(), 1)
        print(json.dumps(row), flush=True)
        with (self.a.out / "log.jsonl").open("a") as f:
            f.write(json.dumps(row) + "\n")

    def gone(self) -> float:
        """Seconds of all parts of the run."""
        return self.spent + time.time() - self.began

    def progress(self) -> float:
        return min(1.0, max(self.step / self.a.steps, self.gone() / self.a.seconds))

    def save(self) -> None:
        part = self.checkpoint.with_suffix(".part")
        state = dict(step=self.step, spent=self.gone(), adam=self.adam.state_dict())
        torch.save(state | dict(weights=[p.detach().cpu() for p in self.trained]), part)
        part.replace(self.checkpoint)
        save_adapter(self.model, self.a.out / "adapter", self.a.base_name)

    @torch.no_grad()
    def resume(self) -> None:
        saved = torch.load(self.checkpoint, map_location="cpu", weights_only=True)
        for p, kept in zip(self.trained, saved["weights"]):
            p.copy_(kept)
        self.adam.load_state_dict(saved["adam"])
        self.step, self.spent = saved["step"], saved["spent"]
        self.say(resumed_at=self.step)

    def measure(self, name: str, seconds: float) -> None:
        """Scores on the frozen sets, once; the schedule does not count the time."""
        if not self.a.measured or (self.a.out / f"{name}.json").exists():
            return
        began = time.time()
        rows, shape = load_measured(self.a.measured), (self.a.rows, self.a.length)
        found, made = self.safely(lambda: score(self.model, self.tok, rows, shape, self.mask, seconds))
        with (self.a.out / f"{name}-answers.jsonl").open("w", encoding="utf-8") as f:
            f.writelines(json.dumps(r, ensure_ascii=False) + "\n" for r in made)
        (self.a.out / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n")
        brief = {k: v.get("f1", v.get("right")) for k, v in found.items() if isinstance(v, dict)}
        self.say(measured=name, took=found["seconds"], unsettled=found["unsettled"], **brief)
        self.began += time.time() - began

    def safely(self, work):
        """Where the compiler fails on this device or these shapes, the run goes on without it."""
        try:
            return work()
        except Exception as error:
            if self.mask.flex is None:
                raise
            self.say(without_compiler=f"{type(error).__name__}: {str(error)[:300]}")
        for p in self.trained:
            p.grad = None
        torch.cuda.empty_cache()
        self.model.use_dense()
        self.mask.flex = None
        return work()

    def batches(self):
        a = self.a
        reading = ReadingMixture(
            a.texts, train_templates(a.out), None, tuple(a.shares), two_steps=False, null_weight=a.null_weight
        )
        return prefetch(
            feed(
                max(1, a.steps - self.step),
                a.rows,
                a.seed * 100_000 + self.step,
                (0.0, 1.0),
                a.model,
                a.workers,
                TaskMixture(reading, list(a.documents), a.extraction),
                a.length,
                encoder=encode_task,
                predicted=a.predicted,
            ),
            self.device,
        )

    def update(self, batch: dict) -> torch.Tensor:
        loss, plain = self.model(batch, self.mask(batch))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.trained, 1.0)
        for group in self.adam.param_groups:
            group["lr"] = self.a.rate * min(1.0, (self.step + 1) / self.a.warmup) * cosine(self.progress())
        self.adam.step()
        self.adam.zero_grad(set_to_none=True)
        return plain

    def train(self) -> None:
        a, losses, said, saved, tokens_from = self.a, [], time.time(), time.time(), self.step
        for batch in self.batches():
            losses.append(self.safely(lambda: self.update(batch)) if self.first is None else self.update(batch))
            self.step += 1
            if self.first is None:
                losses[0].item()
                self.first, tokens_from = time.time(), self.step
                self.say(first_step=True)
            if time.time() - said > a.say_every or self.step >= a.steps:
                loss = torch.stack(losses).mean().item()
                losses, said = [], time.time()
                if not math.isfinite(loss):
                    raise RuntimeError(f"the loss is {loss} at step {self.step}; the checkpoint before is good")
                rate = (self.step - tokens_from) * a.rows * a.length / max(1e-9, said - self.first)
                self.say(
                    step=self.step, progress=round(self.progress(), 4), loss=round(loss, 4), tokens_per_s=round(rate)
                )
            if self.progress() >= 1.0:
                break
            if time.time() - saved > a.save_every:
                self.save()
                saved = time.time()
        self.save()

    def finish(self) -> None:
        a = self.a
        size = save_adapter(self.model, a.out / "adapter", a.base_name)
        read = lambda name: json.loads((a.out / name).read_text()) if (a.out / name).exists() else None
        plain = lambda v: str(v) if isinstance(v, Path) else [str(x) for x in v] if isinstance(v, list) else v
        run = dict(
            settings={k: plain(v) for k, v in vars(a).items()} | dict(rank=self.rank),
            files={p.name: digest(p) for p in (a.model, a.texts, *a.documents)},
            device=torch.cuda.get_device_name() if self.device.type == "cuda" else "cpu",
            seconds=round(self.gone()),
            steps=self.step,
            tokens=self.step * a.rows * a.length,
            bytes=size,
            before=read("before.json"),
            after=read("after.json"),
        )
        (a.out / "run.json").write_text(json.dumps(run, indent=1) + "\n")
        self.say(done=True, bytes=size, steps=self.step)


def arguments() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", type=Path, required=True)
    p.add_argument("--texts", type=Path, required=True)
    p.add_argument("--documents", type=Path, nargs="+", required=True)
    p.add_argument("--measured", type=Path, help="frozen sets, scored before and after")
    p.add_argument("--out", type=Path, required=True)
    p.add_argument("--begin-with", type=Path, help="an adapter of the same rank whose training goes on")
    p.add_argument("--base-name", required=True, help="the model's name, for the adapter's configuration")
    p.add_argument("--seconds", type=float, default=360)
    p.add_argument("--steps", type=int, default=100_000, help="at most")
    p.add_argument("--rows", type=int, default=4)
    p.add_argument("--length", type=int, default=4096)
    p.add_argument("--predicted", type=int, default=768, help="labels of a row")
    p.add_argument("--rank", type=int, default=0, help="0: the largest that --megabytes allows")
    p.add_argument("--megabytes", type=float, default=20.0)
    p.add_argument("--alpha", type=float, default=0, help="0: twice the rank")
    p.add_argument("--rate", type=float, default=5e-4)
    p.add_argument("--warmup", type=int, default=40, help="steps")
    p.add_argument("--extraction", type=float, default=0.45, help="share of the samples that are documents with values")
    p.add_argument(
        "--shares",
        type=float,
        nargs=3,
        default=(0.02, 0.2, 0.0),
        help="of generated tasks, templates, written texts among the questions",
    )
    p.add_argument("--null-weight", type=float, default=1.0)
    p.add_argument("--before-seconds", type=float, default=40, help="for the scores before, at most")
    p.add_argument("--save-every", type=float, default=60, help="seconds")
    p.add_argument("--say-every", type=float, default=10, help="seconds")
    p.add_argument("--workers", type=int, default=4)
    p.add_argument("--device", choices=("cuda", "cpu"))
    p.add_argument("--eager", action="store_true", help="compile attention only")
    p.add_argument("--seed", type=int, default=1)
    return p


def main() -> None:
    run = Run(arguments().parse_args())
    run.measure("before", run.a.before_seconds)
    run.train()
    run.measure("after", 120)
    run.finish()


if __name__ == "__main__":
    main()
