"""Learns the tokenizer from generated training text: `python3 -m train.build_tokenizer --out train/tokenizer`."""
from __future__ import annotations

import argparse
import random
from collections import Counter
from pathlib import Path

from train.lexicon import TRAIN, Lexicon
from train.mixture import make_sample
from train.products import json_text
from train.sample import Extraction
from train.tokenizer import Tokenizer, pretokenize, train_bpe


def count_words(samples: int, seed: int) -> Counter[str]:
    """Word counts over generated samples; words seen once (mostly names) are dropped, which keeps training short."""
    lex, words = Lexicon(random.Random(seed), TRAIN), Counter()
    for _ in range(samples):
        sample = make_sample(lex, progress=0.5)
        texts = [sample.system or "", sample.context or ""]
        if isinstance(sample, Extraction):
            texts.append(json_text(sample))
        else:
            texts += [sample.question_lead + b.question + "\n" + b.answer for b in sample.branches]
        for text in texts:
            words.update(pretokenize(text))
    return Counter({w: n for w, n in words.items() if n > 1})


def main() -> None:
    args = argparse.ArgumentParser(description=__doc__)
    args.add_argument("--out", type=Path, default=Path("train/tokenizer"))
    args.add_argument("--vocab", type=int, default=4096)
    args.add_argument("--samples", type=int, default=8000)
    args.add_argument("--seed", type=int, default=1)
    a = args.parse_args()
    a.out.mkdir(parents=True, exist_ok=True)
    words = count_words(a.samples, a.seed)
    Tokenizer(train_bpe(words, a.vocab)).save(a.out)
    print(f"{len(words)} words, {sum(words.values())} occurrences -> {a.out}/tokenizer.json with {a.vocab} tokens")


if __name__ == "__main__":
    main()
