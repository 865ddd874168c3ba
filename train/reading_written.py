"""Everyday passages with questions that the large model asks and answers itself, for the small reader beside it. One GPU:

    python3 -m train.reading_written --model SMOLLM2.gguf --texts texts.jsonl.xz --out FOLDER --seconds 330

As `train.written`, without texts of its own: all weights of the model are tuned for `--tune-seconds` on people's questions, to answer and to ask.
Then it asks about the passages of `train.reading_texts` that people wrote and about expansions of templates, and answers. Kept is what it is sure
of: an answer that stands in the text, or `null`. So the small reader learns from the large one's answers, since their vocabularies have no tokens
in common that probabilities could be compared by. FOLDER gets `0.jsonl.gz`, `1.jsonl.gz`, … which a trainer beside it reads as they come.
"""
from __future__ import annotations

import argparse
import gzip
import json
import random
import time
from dataclasses import asdict
from pathlib import Path

import torch

from train.lexicon import TRAIN, Lexicon
from train.natural import natural
from train.prune import load_large
from train.reading_leg import train_templates
from train.reading_mixture import ReadingMixture
from train.reading_texts import PASSAGES, load_rows
from train.tokenizer import load_tokenizer
from train.written import TeacherMixture, ask_and_answer, say, tune


def passages(texts: Path, folder: Path, expansions: int, lex: Lexicon) -> list[str]:
    """Training passages without people's questions, others with them, expansions of templates; in random order, the first kind thrice as often."""
    rows = [r for r in load_rows(texts) if r.split == "train" and r.text and 35 <= len(r.text.split()) <= 330]
    plain = [r.text for r in rows if r.source in PASSAGES]
    asked = [r.text for r in rows if r.source in ("squadshifts_amazon", "squadshifts_reddit", "nq_short", "fairytaleqa_span", "squad_train")]
    out = plain + lex.rng.sample(asked, min(len(asked), len(plain) // 3)) + [natural(lex, 100, folder).context for _ in range(expansions)]
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
    tune(model, a, time.time() + a.tune_seconds, TeacherMixture(ReadingMixture(a.texts, folder), templates=0.35))
    if device.type == "cuda":
        torch.cuda.empty_cache()
    texts = passages(a.texts, folder, a.expansions, lex)
    for n, first in enumerate(range(0, len(texts), a.shard)):
        if time.time() > began + a.seconds:
            break
        made = ask_and_answer(model, tok, texts[first:first + a.shard], a, dtype, began + a.seconds)
        part = a.out / f"{n}.part"
        with gzip.open(part, "wt", encoding="utf-8", compresslevel=1) as f:
            f.writelines(json.dumps(asdict(e), ensure_ascii=False) + "\n" for e in made)
        part.rename(a.out / f"{n}.jsonl.gz")
        for e in made[:3] if n % 4 == 0 else []:
            say(sample=e.context[:160], question=e.question, answer=e.answer)
    say(done=True, seconds=round(time.time() - began))


if __name__ == "__main__":
    main()
