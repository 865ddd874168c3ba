"""One leg of training: from bf16 weights (or none) to bf16 weights, inside a time limit.

    python3 -m train.leg --out train/runs/a --to 0.5 --steps 6000 --seconds 520
    python3 -m train.leg --in train/runs/a --out train/runs/b --steps 6000 --seconds 520

`progress` runs from 0 to 1 over all legs and drives both the curriculum and the warm-up / stable / decay schedule. A leg
starts its optimisers afresh, with a short warm-up of its own. Writes weights with losses and held-out scores, every `--save-every` seconds and at the end.

The second edition starts from a pruned model, reads a mixture of its own, and trains against its Q4_0 values from `--quantize-from` on
(`train/reader2.sh`):

    python3 -m train.leg --in train/runs/pruned --out train/runs/reader --tokenizer train/tokenizer8k --examples FILE.jsonl.gz \\
        --written FOLDER --steps 12000 --seconds 900 --lr 0.008 --quantize-from 0.4 --z-from 0.5
"""
from __future__ import annotations

import argparse
import json
import math
import os
import queue
import threading
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
import torch

from train import weights
from train.feed import feed
from train.lexicon import HELD
from train.mixture import make_sample
from train.model import Config, Decoder, Visibility, matrix_shapes
from train.muon import Muon
from train.pack import ROW, Rows, pack_rows
from train.reader_mixture import Mixture
from train.tokenizer import Tokenizer

_WIDE = {"ids": torch.int32, "pos": torch.int32, "doc": torch.int32, "branch": torch.int32, "step": torch.int32, "at": torch.int64, "label": torch.int64, "weight": torch.float32}


def to_batch(rows: Rows, device: torch.device, columns: int = 0) -> dict[str, torch.Tensor]:
    """Small integers travel, wide ones are made on the device. With `columns` predictions that weigh nothing are left out, in steps of so many of a row."""
    out = {}
    used = rows.at.shape[1]
    if columns:
        weighed = np.flatnonzero((rows.weight > 0).any(axis=0))
        used = min(used, -(-(int(weighed[-1]) + 1 if len(weighed) else 1) // columns) * columns)
    for name, dtype in _WIDE.items():
        values = getattr(rows, name)
        t = torch.from_numpy(np.ascontiguousarray(values[:, :used]) if name in ("at", "label", "weight") else values)
        if device.type == "cuda":
            t = t.pin_memory()
        out[name] = t.to(device, non_blocking=True).to(dtype)
    return out


def schedule(progress: float, decay_from: float) -> float:
    """Stable at 1, then linear to 0.02 at the end."""
    return 1.0 if progress < decay_from else max(0.02, (1.0 - progress) / (1.0 - decay_from))


def prefetch(rows_iter, device: torch.device, columns: int = 0):
    """Moves batches to the device from a second thread, a few ahead."""
    waiting: queue.Queue = queue.Queue(maxsize=4)

    def run() -> None:
        try:
            for rows in rows_iter:
                waiting.put(to_batch(rows, device, columns))
            waiting.put(None)
        except BaseException as error:  # handed to the training thread
            waiting.put(error)

    threading.Thread(target=run, daemon=True).start()
    while (item := waiting.get()) is not None:
        if isinstance(item, BaseException):
            raise item
        yield item


class Trainer:
    def __init__(self, model: Decoder, rows: int, length: int, lr: float, adam_lr: float, weight_decay: float = 0.02) -> None:
        self.model, self.device = model, model.embedding.device
        self.mask = Visibility(model.c, rows, length, self.device)
        self.dtype = torch.bfloat16 if self.mask.flex else torch.float32
        matrices = [getattr(model, n) for n in matrix_shapes(model.c)]
        others = [p for p in model.parameters() if not any(p is m for m in matrices)]
        self.muon = Muon(matrices, lr, weight_decay=weight_decay)
        self.adam = torch.optim.AdamW(others, lr=adam_lr, betas=(0.9, 0.95), eps=1e-10, weight_decay=0.0, fused=self.mask.flex is not None)
        self.adam_lr = adam_lr

    def step(self, batch: dict[str, torch.Tensor], scale: float, momentum: float = 0.95) -> torch.Tensor:
        """One update; returns the plain loss, not yet waited for."""
        loss, plain, _ = self.model(batch, self.mask(batch), self.dtype)
        loss.backward()
        self.muon.step(scale, momentum)
        for group in self.adam.param_groups:
            group["lr"] = self.adam_lr * scale
        self.adam.step()
        self.adam.zero_grad(set_to_none=True)
        return plain

    @torch.no_grad()
    def score(self, held: list[Rows]) -> dict[str, tuple[float, int]]:
        """Exact match per task with the right answer fed: all tokens right is what greedy decoding needs to get it right."""
        hits: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        for rows in held:
            batch = to_batch(rows, self.device)
            _, _, right = self.model(batch, self.mask(batch), self.dtype)
            wrong = (~right.view(rows.answer.shape)).cpu().numpy()
            for r, tasks in enumerate(rows.tasks):
                failed = set(rows.answer[r][wrong[r] & (rows.answer[r] >= 0)].tolist())
                for n, task in enumerate(tasks):
                    hits[task][0] += n not in failed
                    hits[task][1] += 1
        return {t: (round(h / n, 4), n) for t, (h, n) in sorted(hits.items())}


def _profile(running):
    """Starts a profile, or ends the running one and prints where the device time went."""
    if running is None:
        running = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA, torch.profiler.ProfilerActivity.CPU])
        running.start()
        return running
    torch.cuda.synchronize()
    running.stop()
    rows = sorted(running.key_averages(), key=lambda e: -e.self_device_time_total)[:24]
    for e in rows:
        print(f"{e.self_device_time_total / 4000:8.3f} ms/step {e.count / 4:6.1f} x {e.key[:90]}", flush=True)
    return None


def starting_model(a: argparse.Namespace) -> tuple[Decoder, float, list[dict]]:
    """(model, progress, log)"""
    if not a.source:
        return Decoder(Config(**json.loads(a.config)) if a.config else Config(), a.seed), a.begin, []
    config, state, tensors = weights.load(a.source)
    model = Decoder(Config(**config))
    with torch.no_grad():
        for name, value in tensors.items():
            getattr(model, name).copy_(torch.from_numpy(value.copy()))
    return model, state["progress"], state["log"]


def held_rows(a: argparse.Namespace, tok: Tokenizer) -> list[Rows]:
    """Rows of held-out names, templates and documents; with a mixture, as many of each kind."""
    draws = [make_sample] if not a.examples else [Mixture(a.examples, a.natural, only=kind) for kind in ("generated", "natural", "examples")]
    return [pack_rows(tok, a.rows, 900 + i, 1.0, HELD, a.length, draw) for draw in draws for i in range(a.held)]


def save(a: argparse.Namespace, model: Decoder, progress: float, log: list[dict]) -> None:
    """Into a folder beside, then in place, so that a whole state is there at all times."""
    part = a.out.with_name(a.out.name + ".part")
    weights.save(part, model.c.as_dict(), dict(progress=progress, log=log), {n: p.detach().float().cpu().numpy() for n, p in model.named_parameters()})
    if a.out.exists():
        for old in a.out.iterdir():
            old.unlink()
        a.out.rmdir()
    os.rename(part, a.out)


def run(a: argparse.Namespace) -> None:
    began = time.time()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    tok = Tokenizer.load(a.tokenizer)
    model, start, log = starting_model(a)
    draw = Mixture(a.examples, a.natural, a.written) if a.examples else make_sample
    batches = prefetch(feed(a.steps, a.rows, a.seed + int(start * 1000), (start, a.to), a.tokenizer, a.workers, draw, a.length), device)
    model.to(device)
    if device.type == "cuda":
        torch.set_float32_matmul_precision("high")
        model.use_flex(not a.eager)
    trainer = Trainer(model, a.rows, a.length, a.lr, a.adam_lr, a.weight_decay)
    held = held_rows(a, tok)
    print(f"{sum(p.numel() for p in model.parameters())} parameters on {device}, progress {start} to {a.to}, set-up {time.time() - began:.0f} s", flush=True)
    losses: list[torch.Tensor] = []
    step, stopped, first, saved, profiler = 0, False, time.time(), time.time(), None
    for batch in batches:
        elapsed = time.time() - began
        progress = start + (a.to - start) * max(step / a.steps, elapsed / a.seconds)
        model.quantized, model.z = progress >= a.quantize_from, 0.05 if progress >= a.z_from else a.z
        warm = min(1.0, (step + 1) / a.warmup)
        losses.append(trainer.step(batch, warm * schedule(progress, a.decay_from), 0.85 + 0.1 * min(1.0, step / 300)))
        step += 1
        if step == 1:
            torch.cuda.synchronize() if device.type == "cuda" else None
            print(f"first step after {time.time() - began:.0f} s", flush=True)
            first = time.time()
        if a.profile and step in (40, 44):
            profiler = _profile(profiler)
        stopped = elapsed > a.seconds
        if step % a.every == 0 or stopped or step == a.steps:
            loss = torch.stack(losses).mean().item()
            losses = []
            if not math.isfinite(loss):
                raise RuntimeError(f"the loss is {loss} at step {step}; the last state that was saved is good")
            entry = dict(progress=round(progress, 4), step=step, loss=round(loss, 4), seconds=round(time.time() - began, 1),
                         tokens_per_s=round((step - 1) * a.rows * a.length / max(1e-9, time.time() - first)))
            if step % (a.every * a.score_every) == 0 or stopped or step == a.steps:
                entry["held"] = trainer.score(held)
            log.append(entry)
            print(json.dumps(entry), flush=True)
        if time.time() - saved > a.save_every and not stopped and math.isfinite(losses[-1].item() if losses else loss):
            save(a, model, progress, log)
            saved = time.time()
        if stopped:
            break
    save(a, model, a.to, log)
    print(f"saved {a.out} after {time.time() - began:.0f} s", flush=True)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--in", dest="source", type=Path)
    p.add_argument("--out", type=Path, required=True)
    p.add_argument("--tokenizer", type=Path, default=Path("train/tokenizer"))
    p.add_argument("--config", default="", help="JSON with fields of train.model.Config")
    p.add_argument("--begin", type=float, default=0.0)
    p.add_argument("--to", type=float, default=1.0)
    p.add_argument("--steps", type=int, required=True)
    p.add_argument("--seconds", type=float, default=540.0, help="wall clock from start to the last step; saving comes after")
    p.add_argument("--rows", type=int, default=16)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--workers", type=int, default=13)
    p.add_argument("--lr", type=float, default=0.02)
    p.add_argument("--adam-lr", type=float, default=2e-3)
    p.add_argument("--weight-decay", type=float, default=0.02)
    p.add_argument("--eager", action="store_true", help="compile attention only")
    p.add_argument("--warmup", type=int, default=100)
    p.add_argument("--decay-from", type=float, default=0.6)
    p.add_argument("--every", type=int, default=50)
    p.add_argument("--score-every", type=int, default=5)
    p.add_argument("--profile", action="store_true", help="print the device time of steps 41 to 44")
    p.add_argument("--held", type=int, default=3, help="batches of held-out rows to score")
    p.add_argument("--length", type=int, default=ROW, help="tokens of a row")
    p.add_argument("--save-every", type=float, default=90.0, help="seconds")
    p.add_argument("--examples", type=Path, help="question file: train on the mixture of the second edition (`train.reader_mixture`)")
    p.add_argument("--natural", type=Path, default=Path("train/natural"), help="folder of templates of the mixture")
    p.add_argument("--written", type=Path, help="folder in which written texts appear")
    p.add_argument("--quantize-from", type=float, default=2.0, help="progress from which on matrices are rounded to Q4_0 as they are used")
    p.add_argument("--z", type=float, default=1e-4, help="weight of the z-loss before")
    p.add_argument("--z-from", type=float, default=2.0, help="progress from which on raw logits are held to log-probabilities strongly")
    run(p.parse_args())


if __name__ == "__main__":
    main()
