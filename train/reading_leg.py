"""Trains a reader on `train.reading_mixture`, inside a time limit, and stops by held-out kinds of text:

    python3 -m train.reading_leg --as lora  --model SMOLLM2.gguf --texts texts.jsonl.xz --out OUT/large --seconds 480
    python3 -m train.reading_leg --as small --model models/banyan-reader-34m.gguf --texts texts.jsonl.xz --written
        OUT/written --out OUT/small --seconds 480

`lora` trains an adapter of the model (`train.stacked_lora`), `full` all of its weights, `small` all of them against
their Q4_0 values (quantisation-aware). The rate falls with the share of `--seconds` that is gone, start and compilation
included. Every `--score-every` seconds questions on kinds of texts that training has none of are answered greedily; the
best state is kept. OUT gets

    log.jsonl         losses, rates, scores; `train.reading_card` draws them
    best.pt           the best state so far; adapter/ or reader.gguf is made of it
    checkpoint.pt     the last whole state, with optimiser: the same command goes on from it after an interruption
    run.json          settings, time, tokens, scores before and after by kind (for the model card)
    calibration.jsonl a row for every held-out question: certainty and whether the answer was right
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path

import torch

from train.export import NAME, gguf_metadata, gguf_tensors
from train.feed import feed
from train.gguf import Q4_0, Q8_0, write_gguf
from train.large_model import load_large
from train.model import Visibility
from train.reading_held import held_questions, overall, read, scores
from train.reading_mixture import ReadingMixture, train_templates
from train.reading_texts import load_rows
from train.stacked_lora import LoraDecoder, save_adapter
from train.tokenizer import load_tokenizer
from train.trainer import Trainer, prefetch, schedule


class LoraTrainer(Trainer):
    """Adam on the adapter alone."""

    def __init__(self, model: LoraDecoder, rows: int, length: int, rate: float) -> None:
        self.model, self.device, self.adam_lr = model, model.embedding.device, rate
        self.mask = Visibility(rows, length, self.device)
        self.dtype = torch.bfloat16 if self.mask.flex else torch.float32
        self.trained = list(model.parameters())
        self.adam = torch.optim.AdamW(
            self.trained, lr=rate, betas=(0.9, 0.98), weight_decay=0.0, fused=self.mask.flex is not None
        )

    def step(self, batch: dict, scale: float, momentum: float = 0.95) -> torch.Tensor:
        loss, plain = self.model(batch, self.mask(batch), self.dtype)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.trained, 1.0)
        for group in self.adam.param_groups:
            group["lr"] = self.adam_lr * scale
        self.adam.step()
        self.adam.zero_grad(set_to_none=True)
        return plain


class Leg:
    def __init__(self, a: argparse.Namespace) -> None:
        self.a, self.began, self.step, self.spent = a, time.time(), 0, 0.0
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        a.out.mkdir(parents=True, exist_ok=True)
        torch.manual_seed(a.seed)
        self.tok = load_tokenizer(a.model)
        base = load_large(a.model, None)
        model = LoraDecoder(base, a.rank, a.alpha, a.seed) if a.kind == "lora" else base
        self.model = model.to(self.device)
        self.model.quantized, self.model.z = a.kind == "small", 0.05 if a.kind == "small" else 1e-5
        if self.device.type == "cuda":
            torch.set_float32_matmul_precision("high")
            self.model.use_flex(not a.eager)
        self.trainer = (
            LoraTrainer(self.model, a.rows, a.length, a.rate)
            if a.kind == "lora"
            else Trainer(self.model, a.rows, a.length, a.rate, a.adam_rate, 0.004)
        )
        rows = load_rows(a.texts)
        self.held = held_questions(self.tok, rows, a.held)
        self.wide = held_questions(self.tok, rows, a.held_last, seed=2)
        self.best, self.best_scores, self.before = -1.0, None, None
        self.checkpoint = a.out / "checkpoint.pt"
        if self.checkpoint.exists():
            self.resume()

    def say(self, **row) -> None:
        row["seconds"] = round(self.gone(), 1)
        print(json.dumps(row), flush=True)
        with (self.a.out / "log.jsonl").open("a") as f:
            f.write(json.dumps(row) + "\n")

    def gone(self) -> float:
        """Seconds of all parts of the run."""
        return self.spent + time.time() - self.began

    def state(self) -> dict:
        return {n: p.detach().cpu().clone() for n, p in self.model.named_parameters()}

    def optimisers(self) -> dict:
        muon = [b.cpu() for b in self.trainer.muon.buffers] if self.a.kind != "lora" else []
        return dict(adam=self.trainer.adam.state_dict(), muon=muon)

    def save(self) -> None:
        part = self.checkpoint.with_suffix(".part")
        torch.save(
            dict(
                step=self.step,
                spent=self.gone(),
                best=self.best,
                best_scores=self.best_scores,
                before=self.before,
                weights=self.state(),
                **self.optimisers(),
            ),
            part,
        )
        part.replace(self.checkpoint)

    def put(self, state: dict) -> None:
        with torch.no_grad():
            for n, p in self.model.named_parameters():
                p.copy_(state[n])

    def resume(self) -> None:
        saved = torch.load(self.checkpoint, map_location="cpu", weights_only=True)
        self.put(saved["weights"])
        self.step, self.spent, self.best, self.best_scores, self.before = (
            saved[k] for k in ("step", "spent", "best", "best_scores", "before")
        )
        self.trainer.adam.load_state_dict(saved["adam"])
        for buffer, kept in zip(self.trainer.muon.buffers if saved["muon"] else [], saved["muon"]):
            buffer.copy_(kept)
        self.say(resumed_at=self.step)

    def score(self) -> None:
        found = scores(read(self.model, self.tok, self.held, self.trainer.dtype))
        value = overall(found)
        if self.before is None:
            self.before = found
        better = value >= self.best
        if better:
            self.best, self.best_scores = value, found
            torch.save(self.state(), self.a.out / "best.pt")
            self.export()
        self.say(
            step=self.step,
            progress=self.progress(),
            overall=value,
            best=better,
            held={k: [v["f1"], v["questions"], v["answerable_f1"], v["null"], v["denied"]] for k, v in found.items()},
        )

    def progress(self) -> float:
        return round(min(1.0, max(self.step / self.a.steps, self.gone() / self.a.seconds)), 4)

    def train(self) -> None:
        a = self.a
        draw = ReadingMixture(
            a.texts,
            train_templates(a.out),
            a.written,
            tuple(a.shares),
            languages=a.kind != "small",
            two_steps=a.kind == "small",
            null_weight=a.null_weight,
            text_weight=0.03 if a.kind == "small" else 0.0,
        )
        batches = prefetch(
            feed(
                max(1, a.steps - self.step),
                a.rows,
                a.seed * 100_000 + self.step,
                (0.0, 1.0),
                a.model,
                a.workers,
                draw,
                a.length,
            ),
            self.device,
        )
        losses, said, saved, first = [], time.time(), time.time(), None
        if self.before is None:
            self.score()
        scored, tokens_from = time.time(), self.step
        for batch in batches:
            progress = self.progress()
            scale = min(1.0, (self.step + 1) / a.warmup) * schedule(progress, a.decay_from)
            losses.append(self.first_step(batch, scale) if first is None else self.trainer.step(batch, scale))
            self.step += 1
            if first is None:
                losses[0].item()
                first, tokens_from = time.time(), self.step
                self.say(first_step=True)
            if time.time() - said > a.say_every or self.step >= a.steps:
                said, loss = time.time(), torch.stack(losses).mean().item()
                losses = []
                if not math.isfinite(loss):
                    raise RuntimeError(f"the loss is {loss} at step {self.step}; the checkpoint before is good")
                self.say(
                    step=self.step,
                    progress=progress,
                    loss=round(loss, 4),
                    rate=round(scale, 4),
                    tokens_per_s=round((self.step - tokens_from) * a.rows * a.length / max(1e-9, said - first)),
                )
            if self.progress() >= 1.0:
                break
            if time.time() - scored > a.score_every:
                self.score()
                scored = time.time()
            if time.time() - saved > a.save_every:
                self.save()
                saved = time.time()
        batches.close()
        self.score()
        self.save()

    def first_step(self, batch: dict, scale: float) -> torch.Tensor:
        """Where the compiler fails on this device or these shapes, the run goes on without it."""
        try:
            return self.trainer.step(batch, scale)
        except Exception as error:
            if self.trainer.mask.flex is None:
                raise
            self.say(without_compiler=f"{type(error).__name__}: {str(error)[:300]}")
        for p in self.model.parameters():
            p.grad = None
        torch.cuda.empty_cache()
        self.model.use_dense()
        self.trainer.mask.flex = None
        return self.trainer.step(batch, scale)

    def export(self) -> None:
        a = self.a
        if a.kind == "lora":
            save_adapter(self.model, a.out / "adapter", a.base_name)
            return
        c, arrays = self.model.c.as_dict(), {
            n: p.detach().float().cpu().numpy() for n, p in self.model.named_parameters()
        }
        kind = Q4_0 if a.kind == "small" else Q8_0
        write_gguf(a.out / "reader.gguf", gguf_metadata(c, self.tok, kind, a.name), gguf_tensors(c, arrays), kind)

    def finish(self) -> None:
        """The best state: exported, and asked more of the held-out questions."""
        a = self.a
        self.put(torch.load(a.out / "best.pt", map_location="cpu", weights_only=True))
        self.export()
        rows = read(self.model, self.tok, self.wide, self.trainer.dtype)
        with (a.out / "calibration.jsonl").open("w") as f:
            f.writelines(json.dumps(r, ensure_ascii=False) + "\n" for r in rows)
        settings = {k: str(v) if isinstance(v, Path) else v for k, v in vars(a).items()}
        device = torch.cuda.get_device_name() if self.device.type == "cuda" else "cpu"
        run = dict(
            settings=settings,
            device=device,
            seconds=round(self.gone()),
            steps=self.step,
            tokens=self.step * a.rows * a.length,
            overall=self.best,
            before=self.before,
            best=self.best_scores,
            held=scores(rows),
        )
        (a.out / "run.json").write_text(json.dumps(run, indent=1) + "\n")
        self.say(done=True, overall=self.best)


def arguments() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--as", dest="kind", choices=("lora", "full", "small"), required=True)
    p.add_argument("--model", type=Path, required=True)
    p.add_argument("--texts", type=Path, required=True)
    p.add_argument("--written", type=Path)
    p.add_argument("--out", type=Path, required=True)
    p.add_argument("--seconds", type=float, default=480)
    p.add_argument("--steps", type=int, default=100_000, help="at most")
    p.add_argument("--rows", type=int, default=8)
    p.add_argument("--length", type=int, default=4096)
    p.add_argument("--rank", type=int, default=32)
    p.add_argument("--alpha", type=float, default=64)
    p.add_argument("--rate", type=float, default=1e-3, help="of Adam for an adapter, of Muon for whole models")
    p.add_argument("--adam-rate", type=float, default=4e-4, help="of embedding and norms, whole models")
    p.add_argument("--warmup", type=int, default=60, help="steps")
    p.add_argument("--decay-from", type=float, default=0.3)
    p.add_argument(
        "--shares",
        type=float,
        nargs=3,
        default=(0.04, 0.2, 0.08),
        help="of generated tasks, templates, texts with questions of the large model",
    )
    p.add_argument("--null-weight", type=float, default=1.0)
    p.add_argument(
        "--held",
        type=int,
        default=40,
        help="held-out questions of each kind, with and without an answer each, while training",
    )
    p.add_argument("--held-last", type=int, default=200, help="the same at the end")
    p.add_argument("--score-every", type=float, default=75, help="seconds")
    p.add_argument("--save-every", type=float, default=60, help="seconds")
    p.add_argument("--say-every", type=float, default=5, help="seconds")
    p.add_argument("--workers", type=int, default=4)
    p.add_argument("--eager", action="store_true", help="compile attention only")
    p.add_argument("--base-name", default="HuggingFaceTB/SmolLM2-135M-Instruct")
    p.add_argument("--name", default=NAME)
    p.add_argument("--seed", type=int, default=1)
    return p


def main() -> None:
    leg = Leg(arguments().parse_args())
    leg.train()
    leg.finish()


if __name__ == "__main__":
    main()
