"""Trains a reading adapter: short answers copied from the text, `null` when absent. Needs torch, transformers and peft.

    python3 -m train.reader_lora --model MODEL.gguf --data FILE.npz --out FOLDER [--epochs 4] [--seconds 480] [--resume]

Data comes from `train.reader_tokens`. The loss is on answers and their end only. The rate follows the share of the steps or
of `--seconds` that is gone, whichever is more, so that a run that is out of time has come to its end too. FOLDER gets
`adapter/` (PEFT, bf16), `scores.json` (held-out exact match, F1 and null accuracy by source, before and after),
`log.jsonl`, and `checkpoint.pt` every minute, from which `--resume` goes on.
"""
from __future__ import annotations

import argparse
import json
import math
import random
import time
from pathlib import Path

import numpy as np

from eval.metrics import exact_match, token_f1

TARGETS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


class Examples:
    """The npz of `train.reader_tokens`."""

    def __init__(self, path: Path, longest: int):
        data = np.load(path)
        self.tokens, self.begin, self.answer = data["tokens"].astype(np.int64), data["begin"], data["answer"]
        self.stop = int(data["stop"][0])
        self.held = {int(n): h for n, h in json.loads(data["held"].tobytes()).items()}
        self.vocabulary = json.loads(data["vocabulary"].tobytes())
        self.group = data["group"]
        fits = np.diff(self.begin) <= longest
        self.train = [int(n) for n in np.flatnonzero(data["train"] & fits)]

    def whole(self, n: int) -> np.ndarray:
        return self.tokens[self.begin[n]:self.begin[n + 1]]

    def prompt(self, n: int) -> np.ndarray:
        return self.tokens[self.begin[n]:self.answer[n]]

    def text(self, ids: list[int]) -> str:
        return "".join(self.vocabulary[i] if i < len(self.vocabulary) else "" for i in ids).strip()


def batches(examples: Examples, chosen: list[int], tokens: int, seed: str) -> list[list[int]]:
    """Batches of about `tokens` tokens with padding, of examples of about one length, in random order."""
    rng = random.Random(seed)
    length = lambda n: int(examples.begin[n + 1] - examples.begin[n])
    order = sorted(chosen, key=lambda n: length(n) + rng.random() * 24)
    out, batch, widest = [], [], 0
    for n in order:
        if batch and max(widest, length(n)) * (len(batch) + 1) > tokens:
            out.append(batch)
            batch, widest = [], 0
        batch.append(n)
        widest = max(widest, length(n))
    out.append(batch)
    rng.shuffle(out)
    return out


def loss_of(model, torch, examples: Examples, batch: list[int], device: str):
    """Mean over the answers' tokens, ends included. Only their positions meet the vocabulary."""
    width = max(len(examples.whole(n)) for n in batch)
    ids = np.full((len(batch), width), examples.stop, np.int64)
    mask = np.zeros((len(batch), width), np.int64)
    rows, columns = [], []
    for i, n in enumerate(batch):
        whole = examples.whole(n)
        ids[i, :len(whole)], mask[i, :len(whole)] = whole, 1
        first = int(examples.answer[n] - examples.begin[n])
        rows += [i] * (len(whole) - first)
        columns += range(first, len(whole))
    ids, mask = torch.from_numpy(ids).to(device), torch.from_numpy(mask).to(device)
    rows, columns = torch.tensor(rows, device=device), torch.tensor(columns, device=device)
    base = model.get_base_model()
    hidden = base.model(input_ids=ids, attention_mask=mask, use_cache=False).last_hidden_state
    logits = base.lm_head(hidden[rows, columns - 1]).float()
    return torch.nn.functional.cross_entropy(logits, ids[rows, columns])


def answers(model, torch, examples: Examples, chosen: list[int], device: str, max_new: int, batch: int = 64) -> dict[int, str]:
    """Greedy, in batches of about one length with padding on the left."""
    out = {}
    order = sorted(chosen, key=lambda n: len(examples.prompt(n)))
    for at in range(0, len(order), batch):
        part = order[at:at + batch]
        width = max(len(examples.prompt(n)) for n in part)
        ids = np.full((len(part), width), examples.stop, np.int64)
        mask = np.zeros((len(part), width), np.int64)
        for i, n in enumerate(part):
            prompt = examples.prompt(n)
            ids[i, width - len(prompt):], mask[i, width - len(prompt):] = prompt, 1
        with torch.no_grad():
            made = model.generate(input_ids=torch.from_numpy(ids).to(device), attention_mask=torch.from_numpy(mask).to(device), max_new_tokens=max_new,
                                  do_sample=False, eos_token_id=examples.stop, pad_token_id=examples.stop)
        for i, n in enumerate(part):
            given = made[i, width:].tolist()
            out[n] = examples.text(given[:given.index(examples.stop)] if examples.stop in given else given)
    return out


def scores(examples: Examples, given: dict[int, str]) -> dict[str, dict]:
    """By source; questions that were made unanswerable apart, as "…, denied"."""
    sums: dict[str, list] = {}
    for n, answer in given.items():
        h = examples.held[n]
        name = h["source"] + (", denied" if h["kind"] == "denied" else "")
        sums.setdefault(name, []).append((exact_match(answer, h["golds"]), token_f1(answer, h["golds"]), bool(h["golds"])))
    mean = lambda values: round(sum(values) / len(values), 4) if values else None
    return {name: dict(questions=len(rows), exact=mean([e for e, _, _ in rows]), f1=mean([f for _, f, _ in rows]),
                       answerable_f1=mean([f for _, f, known in rows if known]), null_accuracy=mean([float(e) for e, _, known in rows if not known]))
            for name, rows in sorted(sums.items())}


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
        from peft import LoraConfig, get_peft_model

        from train.base_model import load_model
        self.a, self.torch, self.began, self.step, self.spent = a, torch, time.time(), 0, 0.0
        torch.manual_seed(a.seed)
        self.examples = Examples(a.data, a.longest)
        base = load_model(a.model, torch.bfloat16 if a.device == "cuda" else torch.float32)
        for p in base.parameters():
            p.requires_grad_(False)
        config = LoraConfig(r=a.rank, lora_alpha=a.alpha, lora_dropout=a.dropout, use_rslora=a.rslora, target_modules=TARGETS, bias="none", task_type="CAUSAL_LM")
        self.model = get_peft_model(base, config, autocast_adapter_dtype=True).to(a.device)
        self.trained = [p for p in self.model.parameters() if p.requires_grad]
        self.optimizer = torch.optim.AdamW(self.trained, lr=a.rate, betas=(0.9, 0.98), weight_decay=a.decay)
        a.out.mkdir(parents=True, exist_ok=True)
        self.plan = [batch for epoch in range(a.epochs) for batch in batches(self.examples, self.examples.train, a.batch_tokens, f"{a.seed} {epoch}")][:a.steps or None]
        self.checkpoint = a.out / "checkpoint.pt"
        if a.resume and self.checkpoint.exists():
            self.load()

    def say(self, **row) -> None:
        row["seconds"] = round(time.time() - self.began, 1)
        print(json.dumps(row), flush=True)
        with (self.a.out / "log.jsonl").open("a") as f:
            f.write(json.dumps(row) + "\n")

    def save(self) -> None:
        state = dict(step=self.step, spent=self.spent, trained=[p.detach().cpu() for p in self.trained], optimizer=self.optimizer.state_dict())
        self.torch.save(state, self.checkpoint.with_suffix(".part"))
        self.checkpoint.with_suffix(".part").replace(self.checkpoint)

    def load(self) -> None:
        state = self.torch.load(self.checkpoint, map_location="cpu", weights_only=True)
        self.step, self.spent = state["step"], state["spent"]
        with self.torch.no_grad():
            for p, saved in zip(self.trained, state["trained"]):
                p.copy_(saved)
        self.optimizer.load_state_dict(state["optimizer"])
        self.say(resumed_at=self.step)

    def rate(self) -> float:
        """Up in the first 3 %, then a cosine down to a tenth."""
        gone = max(self.step / len(self.plan), self.spent / self.a.seconds)
        return self.a.rate * (gone / 0.03 if gone < 0.03 and self.step < 100 else 0.1 + 0.45 * (1 + math.cos(math.pi * min(gone, 1.0))))

    def score(self, limit: int) -> dict[str, dict]:
        """Of the first `limit` held-out questions of each source and kind."""
        count: dict[str, int] = {}
        chosen = []
        for n, h in self.examples.held.items():
            name = h["source"] + h["kind"]
            count[name] = count.get(name, 0) + 1
            if count[name] <= limit:
                chosen.append(n)
        self.model.eval()
        given = answers(self.model, self.torch, self.examples, chosen, self.a.device, self.a.max_new)
        self.model.train()
        return scores(self.examples, given)

    def train(self) -> None:
        autocast = self.torch.autocast(self.a.device, self.torch.bfloat16, enabled=self.a.device == "cuda")
        last_save = last_say = time.time()
        recent: list = []
        self.model.train()
        while self.step < len(self.plan) and self.spent < self.a.seconds:
            before = time.time()
            for group in self.optimizer.param_groups:
                group["lr"] = self.rate()
            with autocast:
                loss = loss_of(self.model, self.torch, self.examples, self.plan[self.step], self.a.device)
            loss.backward()
            self.torch.nn.utils.clip_grad_norm_(self.trained, 1.0)
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)
            recent.append(loss.detach())
            self.step += 1
            if self.step % 20 == 0 or self.step == len(self.plan):
                value = self.torch.stack(recent).mean().item()  # waits for the device, so that `spent` is true
                recent.clear()
                if time.time() - last_say > self.a.say_every or self.step == len(self.plan):
                    last_say = time.time()
                    self.say(step=self.step, of=len(self.plan), loss=round(value, 4), rate=round(self.rate(), 6), tokens=self.a.batch_tokens)
            self.spent += time.time() - before
            if time.time() - last_save > self.a.save_every:
                self.save()
                last_save = time.time()
        self.save()


def arguments() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", type=Path, required=True)
    p.add_argument("--data", type=Path, required=True)
    p.add_argument("--out", type=Path, required=True)
    p.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    p.add_argument("--rank", type=int, default=16)
    p.add_argument("--alpha", type=float, default=32)
    p.add_argument("--rslora", action="store_true")
    p.add_argument("--dropout", type=float, default=0.05)
    p.add_argument("--rate", type=float, default=5e-4)
    p.add_argument("--decay", type=float, default=0.0)
    p.add_argument("--epochs", type=int, default=5)
    p.add_argument("--steps", type=int, default=0, help="at most so many; 0: all of the epochs")
    p.add_argument("--seconds", type=float, default=420, help="of training, without loading and scoring")
    p.add_argument("--batch-tokens", type=int, default=24000)
    p.add_argument("--longest", type=int, default=900, help="tokens of an example")
    p.add_argument("--max-new", type=int, default=32)
    p.add_argument("--score-limit", type=int, default=1000, help="held-out questions of each source and kind; 0: no scores")
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
    run.say(examples=len(run.examples.train), held=len(run.examples.held), steps=len(run.plan), parameters=sum(p.numel() for p in run.trained))
    result = dict(settings={k: str(v) if isinstance(v, Path) else v for k, v in vars(a).items()})
    if a.score_limit:
        before = a.out / "before.json"
        if not before.exists():
            before.write_text(json.dumps(run.score(a.score_limit)))
        result["before"] = json.loads(before.read_text())
        run.say(before=result["before"].get("squad2"))
    run.train()
    size = save_adapter(run.model, torch, a.out / "adapter", a.base_name)
    run.say(adapter_bytes=size)
    if a.score_limit:
        result["after"] = run.score(a.score_limit)
        for name, row in result["after"].items():
            run.say(source=name, before=result["before"].get(name), after=row)
    (a.out / "scores.json").write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
