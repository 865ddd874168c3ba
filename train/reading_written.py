"""Everyday passages with questions that the large model asks and answers itself, for the small reader beside it. One
GPU:

    python3 -m train.reading_written --model SMOLLM2.gguf --texts texts.jsonl.xz --out FOLDER --seconds 330

All weights of the model are tuned for `--tune-seconds` on people's questions, to answer and to ask. Then it asks about
the passages of `train.reading_texts` that people wrote and about expansions of templates, and answers. Kept is what it
is sure of: an answer that stands in the text, or `null`. The small reader learns from these answers and not from the
large model's probabilities, because the two vocabularies differ. FOLDER gets `0.jsonl.gz`, `1.jsonl.gz`, … which a
trainer beside it reads as they come.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import random
import time
from dataclasses import dataclass
from pathlib import Path

import torch

from train.decode import complete
from train.encode import prompt_ids, question_ids
from train.feed import feed
from train.large_model import load_large
from train.lexicon import TRAIN, Lexicon
from train.natural import natural, spelled
from train.reading_mixture import ReadingMixture, train_templates
from train.reading_texts import PASSAGES, load_rows
from train.sample import DEFAULT_INSTRUCTION, Branch, Sample
from train.tokenizer import Tokenizer, load_tokenizer
from train.trainer import Trainer, prefetch, schedule

ASK, ASK_LEAD = "Write one short question that the text answers.", "\n\nWrite a question."


@dataclass
class TeacherMixture:
    """Samples of the reader's mixture, every other one reversed: the text is given, the question is predicted."""

    reading: ReadingMixture
    templates: float = 0.35  # share

    def __call__(self, lex: Lexicon, progress: float) -> Sample:
        s = None if lex.chance(self.templates) else self.reading.with_questions(lex)
        if s is None:
            s = natural(lex, 300, self.reading.natural)
        if lex.chance(0.5):
            return Sample(DEFAULT_INSTRUCTION, s.context, s.branches, text_weight=0.0)
        asked = [
            Branch("", b.question, "ask", weight=0.3)
            for b in s.branches
            if b.answer != "null" and not b.task.startswith("cloze")
        ]
        return Sample(ASK, s.context, asked or s.branches[:0], ASK_LEAD, text_weight=0.0)


def tune(model, a: argparse.Namespace, deadline: float, draw: TeacherMixture) -> None:
    device = model.embedding.device
    if device.type == "cuda":
        model.use_flex()
    model.z = 1e-5
    trainer = Trainer(model, a.rows, a.length, a.lr, a.adam_lr)
    batches = prefetch(feed(a.tune_steps, a.rows, a.seed, (0.5, 1.0), a.model, a.workers, draw, a.length), device)
    began, losses = time.time(), []
    for step, batch in enumerate(batches):
        gone = max(step / a.tune_steps, (time.time() - began) / max(1.0, deadline - began))
        losses.append(trainer.step(batch, min(1.0, (step + 1) / 30) * schedule(gone, 0.4)))
        if (step + 1) % 50 == 0 or step == 0:
            say(tuning=step + 1, loss=round(torch.stack(losses).mean().item(), 4))
            losses = []
        if gone >= 1:
            break
    batches.close()


def ask_and_answer(
    model, tok: Tokenizer, texts: list[str], a: argparse.Namespace, dtype, deadline: float
) -> list[dict]:
    """Questions that the model asks about the texts, with the answers that it is sure of."""
    texts = sorted(texts, key=len)
    heads = [prompt_ids(tok, ASK) + tok.encode(t) + question_ids(tok, ASK_LEAD) for t in texts]
    asked = complete(
        model,
        [h for h in heads for _ in range(a.questions)],
        28,
        tok.im_end,
        dtype,
        temperature=0.8,
        batch=a.batch,
        deadline=deadline,
    )
    pairs: list[tuple[int, str]] = []
    for n, (ids, _) in enumerate(asked):
        question = tok.decode(ids).strip()
        if (
            question.endswith("?")
            and 3 <= len(question.split()) <= 26
            and (n // a.questions, question) not in pairs[-a.questions :]
        ):
            pairs.append((n // a.questions, question))
    prompts = [
        prompt_ids(tok, DEFAULT_INSTRUCTION) + tok.encode(texts[n]) + question_ids(tok, "\n\nQuestion: " + q)
        for n, q in pairs
    ]
    answers = complete(model, prompts, 24, tok.im_end, dtype, batch=a.batch, deadline=deadline)
    out, nulls = [], 0
    for (n, question), (ids, score) in zip(pairs, answers):
        answer = tok.decode(ids).strip()
        found = None if answer == "null" else spelled([answer], texts[n])
        if answer == "null" and score > math.log(0.8) and nulls < 0.25 * (len(out) + 1):
            nulls += 1
            out.append(dict(source="written", context=texts[n], question=question, answer="null"))
        elif found and len(found.split()) <= 14 and score > math.log(a.sure):
            out.append(dict(source="written", context=texts[n], question=question, answer=found))
    say(texts=len(texts), asked=len(pairs), kept=len(out), null=nulls)
    return out


def say(**row) -> None:
    print(json.dumps(dict(row, at=time.strftime("%H:%M:%S"))), flush=True)


def passages(texts: Path, folder: Path, expansions: int, lex: Lexicon) -> list[str]:
    """Training passages without people's questions, others with them, expansions of templates; in random order, the
    first kind thrice as often."""
    rows = [r for r in load_rows(texts) if r.split == "train" and r.text and 35 <= len(r.text.split()) <= 330]
    plain = [r.text for r in rows if r.source in PASSAGES]
    asked = [
        r.text
        for r in rows
        if r.source in ("squadshifts_amazon", "squadshifts_reddit", "nq_short", "fairytaleqa_span", "squad_train")
    ]
    out = (
        plain
        + lex.rng.sample(asked, min(len(asked), len(plain) // 3))
        + [natural(lex, 100, folder).context for _ in range(expansions)]
    )
    lex.rng.shuffle(out)
    return out


def arguments() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", type=Path, required=True)
    p.add_argument("--adapter", type=Path, help="a reading adapter to begin with")
    p.add_argument("--texts", type=Path, required=True)
    p.add_argument("--out", type=Path, required=True)
    p.add_argument("--seconds", type=float, default=330)
    p.add_argument("--tune-seconds", type=float, default=110)
    p.add_argument("--expansions", type=int, default=800)
    p.add_argument("--shard", type=int, default=512, help="texts of one file")
    p.add_argument("--questions", type=int, default=6)
    p.add_argument("--sure", type=float, default=0.6, help="least probability of an answer that is kept")
    p.add_argument("--batch", type=int, default=512)
    p.add_argument("--rows", type=int, default=16)
    p.add_argument("--length", type=int, default=2048)
    p.add_argument("--tune-steps", type=int, default=3000)
    p.add_argument("--workers", type=int, default=3)
    p.add_argument("--lr", type=float, default=0.003)
    p.add_argument("--adam-lr", type=float, default=1e-4)
    p.add_argument("--seed", type=int, default=5)
    return p


def main() -> None:
    a = arguments().parse_args()
    began = time.time()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    torch.set_float32_matmul_precision("high")
    a.out.mkdir(parents=True, exist_ok=True)
    tok, lex = load_tokenizer(a.model), Lexicon(random.Random(a.seed), TRAIN)
    model = load_large(a.model, a.adapter).to(device)
    folder = train_templates(a.out)
    tune(model, a, time.time() + a.tune_seconds, TeacherMixture(ReadingMixture(a.texts, folder)))
    if device.type == "cuda":
        torch.cuda.empty_cache()
    texts = passages(a.texts, folder, a.expansions, lex)
    for n, first in enumerate(range(0, len(texts), a.shard)):
        if time.time() > began + a.seconds:
            break
        made = ask_and_answer(model, tok, texts[first : first + a.shard], a, dtype, began + a.seconds)
        part = a.out / f"{n}.part"
        with gzip.open(part, "wt", encoding="utf-8", compresslevel=1) as f:
            f.writelines(json.dumps(e, ensure_ascii=False) + "\n" for e in made)
        part.rename(a.out / f"{n}.jsonl.gz")
        for e in made[:3] if n % 4 == 0 else []:
            say(sample=e["context"][:160], question=e["question"], answer=e["answer"])
    say(done=True, seconds=round(time.time() - began))


if __name__ == "__main__":
    main()
