"""Trains a model to write values as `banyan extract` has it write them. Needs torch, transformers and peft.

    python3 -m train.skeleton_lora --model MODEL.gguf --data FILE.npz … --out FOLDER [--values skeleton | sequential |
        mixed] [--full] [--epochs 4] [--seconds 180] [--resume]

Data comes from `train.skeleton_data` or `train.extract_mix`. `skeleton`: the engine's positions and gaps, and its mask:
a token sees a key iff the key stands before it and was there when the token was fed, counted in logical steps (methods
section 5). `sequential`: the same values as any JSON, for comparison; `mixed`: as the data says of each document. The
loss is on values alone. The rate follows the share of the steps or of `--seconds` that is gone. FOLDER gets `adapter/`
(PEFT, bf16, with a card), or with `--full` `model.gguf` (Q8_0); `scores.json`, `log.jsonl`, `curve.svg`, and
`checkpoint.pt` every minute, from which `--resume` goes on. With `--score-every` the weights that are best on held-out
documents are kept. With `--write-limit` held-out values are written freely at the end: scores by type, and
`calibration.jsonl` (log-probabilities, right or not).
"""

from __future__ import annotations

import argparse
import json
import math
import random
import time
from pathlib import Path

import numpy as np

from train.plot import draw
from train.skeleton_rows import IGNORED, Documents, Row, mask_of
from train.skeleton_score import Vocabulary, calibration_row, group, scores, write_values

TARGETS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def batches(rows: list[Row], tokens: int, seed: str) -> list[list[int]]:
    """Indices in batches of about `tokens` tokens with padding, of rows of about one length, in random order."""
    rng = random.Random(seed)
    order = sorted(range(len(rows)), key=lambda n: len(rows[n].ids) + rng.random() * 24)
    out, batch = [], []
    for n in order:
        if batch and len(rows[n].ids) * (len(batch) + 1) > tokens:
            out.append(batch)
            batch = []
        batch.append(n)
    out.append(batch)
    rng.shuffle(out)
    return out


def tensors(torch, rows: list[Row], device: str):
    """ids, positions, labels [rows, width] and the mask [rows, 1, width, width]; padding sees itself, and nothing sees
    it."""
    width = -(-max(len(r.ids) for r in rows) // 8) * 8
    ids, pos = np.zeros((len(rows), width), np.int64), np.zeros((len(rows), width), np.int64)
    step, label = np.zeros((len(rows), width), np.int16), np.full((len(rows), width), IGNORED, np.int64)
    size = np.array([len(r.ids) for r in rows])
    for i, r in enumerate(rows):
        ids[i, : size[i]], pos[i, : size[i]], step[i, : size[i]], label[i, : size[i]] = r.ids, r.pos, r.step, r.label
    move = lambda x: torch.from_numpy(x).to(device, non_blocking=True)
    return move(ids), move(pos), move(label), mask_of(torch, move(step), move(size))


def logits_of(model, torch, rows: list[Row], device: str):
    """(logits, labels) of the tokens that predict some of a value; only these meet the vocabulary."""
    ids, pos, label, mask = tensors(torch, rows, device)
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    hidden = hidden_of(base, torch, ids, pos, mask)
    chosen = label != IGNORED
    return base.lm_head(hidden[chosen]).float(), label[chosen]


def hidden_of(base, torch, ids, pos, mask):
    dtype = torch.bfloat16 if ids.is_cuda else base.dtype  # what attention has under autocast
    seen = torch.zeros(mask.shape, dtype=dtype, device=ids.device).masked_fill_(~mask, torch.finfo(dtype).min)
    return base.model(input_ids=ids, position_ids=pos, attention_mask=seen, use_cache=False).last_hidden_state


def save_adapter(model, torch, folder: Path, base_name: str) -> int:
    """As PEFT does, with values in bf16; returns the bytes of the tensors' file."""
    from peft import get_peft_model_state_dict
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    state = {k: v.detach().to("cpu", torch.bfloat16).contiguous() for k, v in get_peft_model_state_dict(model).items()}
    save_file(state, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    config = model.peft_config["default"]
    config.inference_mode, config.base_model_name_or_path = True, base_name
    config.save_pretrained(folder)
    return (folder / "adapter_model.safetensors").stat().st_size


class Run:
    def __init__(self, a: argparse.Namespace, torch):
        from train.base_model import load_model

        self.a, self.torch, self.began, self.step, self.spent = a, torch, time.time(), 0, 0.0
        torch.manual_seed(a.seed)
        self.documents = [Documents(path) for path in a.data]
        rows = {
            split: [
                r
                for d in self.documents
                for r in map(getattr(d, a.values), np.flatnonzero(d.train == (split == "train")))
                if len(r.ids) <= a.longest
            ]
            for split in ("train", "held")
        }
        self.rows, self.held = rows["train"], rows["held"]
        random.Random(7).shuffle(self.held)
        self.held = self.held[: a.score_limit]
        base = load_model(a.model, torch.bfloat16 if a.device == "cuda" and not a.full else torch.float32)
        self.model = (base if a.full else self.with_lora(base)).to(a.device)
        self.trained = [p for p in self.model.parameters() if p.requires_grad]
        self.optimizer = torch.optim.AdamW(
            self.trained, lr=a.rate, betas=(0.9, 0.98), weight_decay=a.decay, fused=a.device == "cuda"
        )
        a.out.mkdir(parents=True, exist_ok=True)
        self.plan = [b for epoch in range(a.epochs) for b in batches(self.rows, a.batch_tokens, f"{a.seed} {epoch}")][
            : a.steps or None
        ]
        self.checkpoint = a.out / "checkpoint.pt"
        self.best: dict = dict(exact=-1.0)
        if a.resume and self.checkpoint.exists():
            self.load()

    def with_lora(self, base):
        from peft import LoraConfig, get_peft_model

        for p in base.parameters():
            p.requires_grad_(False)
        config = LoraConfig(
            r=self.a.rank,
            lora_alpha=self.a.alpha,
            lora_dropout=self.a.dropout,
            target_modules=TARGETS,
            bias="none",
            task_type="CAUSAL_LM",
        )
        model = get_peft_model(base, config, autocast_adapter_dtype=True)
        if self.a.begin_with:
            from peft import set_peft_model_state_dict
            from safetensors.torch import load_file

            set_peft_model_state_dict(model, load_file(self.a.begin_with / "adapter_model.safetensors"))
        return model

    def say(self, **row) -> None:
        row["seconds"] = round(time.time() - self.began, 1)
        print(json.dumps(row), flush=True)
        with (self.a.out / "log.jsonl").open("a") as f:
            f.write(json.dumps(row) + "\n")

    def save(self) -> None:
        state = dict(
            step=self.step,
            spent=self.spent,
            best=self.best,
            trained=[p.detach().cpu() for p in self.trained],
            optimizer=self.optimizer.state_dict(),
        )
        self.torch.save(state, self.checkpoint.with_suffix(".part"))
        self.checkpoint.with_suffix(".part").replace(self.checkpoint)

    def load(self) -> None:
        state = self.torch.load(self.checkpoint, map_location="cpu", weights_only=True)
        self.step, self.spent, self.best = state["step"], state["spent"], state["best"]
        with self.torch.no_grad():
            for p, saved in zip(self.trained, state["trained"]):
                p.copy_(saved)
        self.optimizer.load_state_dict(state["optimizer"])
        self.say(resumed_at=self.step)

    def rate(self) -> float:
        """Up in the first 3 %, then a cosine down to a twentieth."""
        gone = max(self.step / len(self.plan), self.spent / self.a.seconds)
        return self.a.rate * (
            gone / 0.03 if gone < 0.03 and self.step < 100 else 0.05 + 0.475 * (1 + math.cos(math.pi * min(gone, 1.0)))
        )

    def autocast(self):
        return self.torch.autocast(self.a.device, self.torch.bfloat16, enabled=self.a.device == "cuda")

    def score(self) -> dict:
        """Of held-out documents: the loss, and the share of values whose every token is the likeliest after the
        label's, by source."""
        self.model.eval()
        values, wrong, loss, tokens = {}, {}, 0.0, 0
        with self.torch.no_grad(), self.autocast():
            for batch in batches(self.held, self.a.batch_tokens, "score"):
                part = [self.held[n] for n in batch]
                logits, label = logits_of(self.model, self.torch, part, self.a.device)
                loss += self.torch.nn.functional.cross_entropy(logits, label, reduction="sum").item()
                tokens += len(label)
                hit, at = (logits.argmax(-1) == label).cpu().numpy(), 0
                for r in part:
                    slot = r.slot[r.label != IGNORED]
                    missed = slot[~hit[at : at + len(slot)]]
                    at += len(slot)
                    name = group(r.source)
                    values[name] = values.get(name, 0) + len(np.unique(slot))
                    wrong[name] = wrong.get(name, 0) + len(np.unique(missed))
        self.model.train()
        share = lambda names: round(1 - sum(wrong[n] for n in names) / max(sum(values[n] for n in names), 1), 4)
        out = dict(values=sum(values.values()), exact=share(values), loss=round(loss / max(tokens, 1), 4))
        of_kinds = [n for n in values if n.startswith("everyday")]
        return out | (
            dict(kinds=share(of_kinds or values), by_source={n: share([n]) for n in sorted(values)})
            if len(values) > 1
            else {}
        )

    def next_logprobs(self, rows: list[Row], places: list[tuple[int, int]]) -> list[tuple[int, float]]:
        """For each (row, index) the likeliest token after it and its log-probability."""
        torch, out = self.torch, [None] * len(places)
        base = self.model.get_base_model() if hasattr(self.model, "get_base_model") else self.model
        of: dict[int, list[int]] = {}
        for k, (row, _) in enumerate(places):
            of.setdefault(row, []).append(k)
        with torch.no_grad(), self.autocast():
            for batch in batches(rows, 2 * self.a.batch_tokens, "write"):
                ids, pos, _, mask = tensors(torch, [rows[n] for n in batch], self.a.device)
                hidden = hidden_of(base, torch, ids, pos, mask)
                chosen = [(i, k) for i, n in enumerate(batch) for k in of.get(n, [])]
                where = torch.tensor([[i, places[k][1]] for i, k in chosen], device=self.a.device)
                best = torch.log_softmax(base.lm_head(hidden[where[:, 0], where[:, 1]]).float(), -1).max(-1)
                for (_, k), token, logprob in zip(chosen, best.indices.tolist(), best.values.tolist()):
                    out[k] = (token, logprob)
        return out

    def write_held(self) -> dict:
        """Held-out values as the model writes them; `calibration.jsonl` gets a line for each."""
        from train.gguf import read_metadata

        vocabulary = Vocabulary(read_metadata(self.a.model)["tokenizer.ggml.tokens"])
        self.model.eval()
        slots = []
        for d in self.documents:
            fits = [int(n) for n in np.flatnonzero(~d.train) if len(d.part("prompt", n)) <= self.a.longest]
            random.Random(8).shuffle(fits)
            slots += write_values(
                d, fits[: -(-self.a.write_limit // len(self.documents))], vocabulary, self.next_logprobs
            )
        with (self.a.out / "calibration.jsonl").open("w") as f:
            f.writelines(json.dumps(calibration_row(w)) + "\n" for w in slots)
        return scores(slots)

    def keep_if_best(self) -> dict:
        """Scores held-out documents; keeps the weights if none before were better on held-out kinds."""
        made = self.score()
        exact = made.get("kinds", made["exact"])
        if exact > self.best["exact"]:
            self.best = dict(
                exact=exact, step=self.step, trained=[p.detach().to("cpu", copy=True) for p in self.trained]
            )
        self.say(
            step=self.step,
            progress=round(min(1.0, max(self.step / len(self.plan), self.spent / self.a.seconds)), 4),
            held=made,
        )
        return made

    def take_best(self) -> None:
        if "trained" in self.best:
            with self.torch.no_grad():
                for p, saved in zip(self.trained, self.best["trained"]):
                    p.copy_(saved)

    def train(self) -> None:
        last_save = last_say = last_score = time.time()
        recent: list = []
        self.model.train()
        while self.step < len(self.plan) and self.spent < self.a.seconds:
            before = time.time()
            for group in self.optimizer.param_groups:
                group["lr"] = self.rate()
            with self.autocast():
                logits, label = logits_of(
                    self.model, self.torch, [self.rows[n] for n in self.plan[self.step]], self.a.device
                )
                loss = self.torch.nn.functional.cross_entropy(logits, label)
            loss.backward()
            self.torch.nn.utils.clip_grad_norm_(self.trained, 1.0)
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)
            recent.append(loss.detach())
            self.step += 1
            if self.step % 10 == 0 or self.step == len(self.plan):
                value = self.torch.stack(recent).mean().item()  # waits for the device, so that `spent` is true
                recent.clear()
                if time.time() - last_say > self.a.say_every or self.step == len(self.plan):
                    last_say = time.time()
                    self.say(step=self.step, of=len(self.plan), loss=round(value, 4), rate=round(self.rate(), 6))
            self.spent += time.time() - before
            if self.a.score_every and time.time() - last_score > self.a.score_every:
                self.keep_if_best()
                last_score = time.time()
            if time.time() - last_save > self.a.save_every:
                self.save()
                last_save = time.time()
        self.save()
        if self.a.score_every:
            self.keep_if_best()
            self.take_best()

    def write(self) -> Path:
        if self.a.full:
            from train.base_model import write_model

            write_model(
                self.a.model,
                self.a.out / "model.gguf",
                {k: v.detach().float().cpu().numpy() for k, v in self.model.state_dict().items()},
            )
            return self.a.out / "model.gguf"
        save_adapter(self.model, self.torch, self.a.out / "adapter", self.a.base_name)
        return self.a.out / "adapter"


def card(a: argparse.Namespace, result: dict) -> str:
    """What an adapter's folder says about itself."""
    before, after = result["before"], result["after"]
    return f"""# An extraction adapter for {a.base_name}

Values of `banyan extract --values {a.values}`, trained by `train/skeleton_lora.py`: {result['documents']} \
documents, {result['steps']} steps of about
{a.batch_tokens} tokens, rank {a.rank}, scale {a.alpha / a.rank:g}, rate {a.rate:g}, seed {a.seed}.

| {after['values']} values of held-out documents | before | after |
|---|---|---|
| every token right, the values above as labelled | {before['exact']:.3f} | {after['exact']:.3f} |
| loss per token | {before['loss']:.3f} | {after['loss']:.3f} |
"""


def write_curve(folder: Path) -> None:
    log = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    held = [
        dict(
            e,
            loss=e["held"]["loss"],
            held={"held": [e["held"]["exact"]], **{n: [v] for n, v in e["held"].get("by_source", {}).items()}},
        )
        for e in log
        if "held" in e and isinstance(e["held"], dict)
    ]
    if held:
        (folder / "curve.svg").write_text(draw(held), encoding="utf-8")


def arguments() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", type=Path, required=True)
    p.add_argument("--data", type=Path, nargs="+", required=True)
    p.add_argument("--out", type=Path, required=True)
    p.add_argument("--values", default="skeleton", choices=["skeleton", "sequential", "mixed"])
    p.add_argument("--full", action="store_true", help="all weights, not an adapter; use a rate of about 3e-5")
    p.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    p.add_argument("--rank", type=int, default=16)
    p.add_argument("--begin-with", type=Path, help="an adapter of the same rank whose training goes on")
    p.add_argument("--alpha", type=float, default=32)
    p.add_argument("--dropout", type=float, default=0.05)
    p.add_argument("--rate", type=float, default=5e-4)
    p.add_argument("--decay", type=float, default=0.0)
    p.add_argument("--epochs", type=int, default=4)
    p.add_argument("--steps", type=int, default=0, help="at most so many; 0: all of the epochs")
    p.add_argument("--seconds", type=float, default=600, help="of training, without loading and scoring")
    p.add_argument("--batch-tokens", type=int, default=16000)
    p.add_argument("--longest", type=int, default=1000, help="tokens of a document with its values")
    p.add_argument("--score-limit", type=int, default=400, help="held-out documents")
    p.add_argument(
        "--score-every",
        type=float,
        default=0,
        help="seconds between scores of held-out documents; the best weights are kept; 0: the last ones are",
    )
    p.add_argument(
        "--write-limit", type=int, default=0, help="held-out documents whose values are written freely at the end"
    )
    p.add_argument("--say-every", type=float, default=5)
    p.add_argument("--save-every", type=float, default=60)
    p.add_argument("--base-name", default="HuggingFaceTB/SmolLM2-135M-Instruct")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--resume", action="store_true")
    return p


def main() -> None:
    a = arguments().parse_args()
    import torch

    run = Run(a, torch)
    run.say(
        documents=len(run.rows), held=len(run.held), steps=len(run.plan), parameters=sum(p.numel() for p in run.trained)
    )
    before = a.out / "before.json"
    if not before.exists():
        before.write_text(json.dumps(run.score()))
    plain = lambda v: str(v) if isinstance(v, Path) else [str(x) for x in v] if isinstance(v, list) else v
    result = dict(
        settings={k: plain(v) for k, v in vars(a).items()},
        documents=len(run.rows),
        before=json.loads(before.read_text()),
    )
    run.say(before=result["before"])
    run.train()
    made = run.write()
    result |= dict(
        steps=run.step, best_step=run.best.get("step", run.step), seconds=round(run.spent, 1), after=run.score()
    )
    run.say(after=result["after"])
    (a.out / "scores.json").write_text(json.dumps(result, indent=1))
    if a.write_limit:
        result["written"] = run.write_held()
        run.say(written=result["written"]["all"])
        (a.out / "scores.json").write_text(json.dumps(result, indent=1))
    write_curve(a.out)
    if not a.full:
        (made / "README.md").write_text(card(a, result), encoding="utf-8")


if __name__ == "__main__":
    main()
