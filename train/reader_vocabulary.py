"""The second edition's tokenizer: 8192 tokens, learned from everyday and generated text and from the word list of a large vocabulary.

    python3 -m train.reader_vocabulary --model SMOLLM2.gguf --examples FILE.jsonl.gz --out train/tokenizer8k

Words of the large vocabulary count as often as Zipf's law gives a word of their rank in a text of three million words; so the common words of English are
tokens even if the texts here have none of them. As in the first edition the space is apart, but for frequent words (`train.tokenizer.train_bpe`).
"""
from __future__ import annotations

import argparse
import gzip
import json
import random
from collections import Counter
from pathlib import Path

from train.build_tokenizer import count_words
from train.gguf import read_metadata
from train.lexicon import TRAIN, Lexicon
from train.natural import FOLDER, natural
from train.tokenizer import Tokenizer, pretokenize, train_bpe

SPACE = "\u0120"  # how vocabulary files write it


def ranked_words(tokens: list[str], words: int = 3_000_000) -> Counter[str]:
    """Counts of the whole words among the tokens of a BPE vocabulary, which is in order of frequency."""
    return Counter({" " + t[1:]: words // (10 * (rank + 100)) for rank, t in enumerate(tokens) if t.startswith(SPACE) and t[1:].isascii() and t[1:].isalpha()})


def text_words(examples: Path, folder: Path, samples: int) -> Counter[str]:
    out: Counter[str] = Counter()
    seen: set[str] = set()
    with gzip.open(examples, "rt", encoding="utf-8") as f:
        for e in map(json.loads, f):
            if e["split"] == "train" and e["context"] not in seen:
                seen.add(e["context"])
                out.update(set(pretokenize(e["context"])))  # once a text: a story's names are no words of English
    lex = Lexicon(random.Random("vocabulary"), TRAIN)
    for _ in range(samples):
        sample = natural(lex, 300, folder)
        out.update(pretokenize(sample.context))
        for b in sample.branches:
            out.update(pretokenize(b.question + "\n" + b.answer))
    return out


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", type=Path, required=True)
    p.add_argument("--examples", type=Path, required=True)
    p.add_argument("--natural", type=Path, default=FOLDER)
    p.add_argument("--out", type=Path, default=Path("train/tokenizer8k"))
    p.add_argument("--vocab", type=int, default=8192)
    p.add_argument("--samples", type=int, default=800)
    a = p.parse_args()
    words = text_words(a.examples, a.natural, a.samples) + count_words(a.samples, 1) + ranked_words(read_metadata(a.model)["tokenizer.ggml.tokens"])
    words = Counter({w: n for w, n in words.items() if n > 2})
    a.out.mkdir(parents=True, exist_ok=True)
    Tokenizer(train_bpe(words, a.vocab, whole_words=2600)).save(a.out)
    print(f"{len(words)} words, {sum(words.values())} occurrences -> {a.out}/tokenizer.json with {a.vocab} tokens")


if __name__ == "__main__":
    main()
