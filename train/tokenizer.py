"""Byte-level BPE: encoding and decoding, by the merges of a Hugging Face folder or of a model file.

Pre-tokenisation is what llama.cpp calls `smollm` (every digit alone, then the GPT-2 pattern) or `qwen2`. Pure Python,
because texts repeat their words: a cache from word to ids makes it faster than the generator that feeds it.
NOT here: general tokenizers. Banyan's own `text/` does that in C++; tests compare the two through `banyan ids`.
"""

from __future__ import annotations

import json
import re
import unicodedata
from functools import lru_cache
from pathlib import Path
from typing import Iterable

from train.sample import END_OF_TEXT, IM_END, IM_START

SPECIALS = [END_OF_TEXT, IM_START, IM_END]  # ids 0, 1, 2
# `\s+(?=\d)`: digits are cut out first, so white space before one ends its piece and stays whole
_WORDS = re.compile(r"\d|'(?:s|t|re|ve|m|ll|d)| ?[^\W\d_]+| ?(?:[^\s\w]|_)+|\s+(?=\d)|\s+(?!\S)|\s+")

_NO_WORDS_FROM = 0x33500  # no letters and numbers are above
_SPECIAL = re.compile("(" + "|".join(map(re.escape, SPECIALS)) + ")")


def _characters(category: str) -> str:
    """The inside of a character class: all characters of a Unicode category, `L` or `N`."""
    out, begin = [], None
    for code in range(_NO_WORDS_FROM + 1):
        inside = code < _NO_WORDS_FROM and unicodedata.category(chr(code))[0] == category
        if inside and begin is None:
            begin = code
        elif not inside and begin is not None:
            out.append(f"\\U{begin:08x}-\\U{code - 1:08x}")
            begin = None
    return "".join(out)


@lru_cache(maxsize=None)
def words_pattern(pre: str) -> re.Pattern:
    """How a text is cut before merging, by the name that model files have for it."""
    if pre == "smollm":
        return _WORDS
    if pre != "qwen2":
        raise ValueError(f"pre-tokenisation {pre} is not known here")
    letter, number = _characters("L"), _characters("N")
    return re.compile(
        rf"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n{letter}{number}]?[{letter}]+|[{number}]"
        rf"| ?[^\s{letter}{number}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    )


CHAT_TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'"
    " }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def byte_symbols() -> list[str]:
    """The printable character that stands for each byte in vocabulary files (GPT-2's convention)."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    table = {b: chr(b) for b in plain}
    for n, b in enumerate(b for b in range(256) if b not in table):
        table[b] = chr(256 + n)
    return [table[b] for b in range(256)]


_SYMBOL = byte_symbols()
_BYTE = {s: b for b, s in enumerate(_SYMBOL)}


def pretokenize(text: str) -> list[str]:
    return _WORDS.findall(text)


class Tokenizer:
    """Token ids: specials, then the 256 bytes, then one per merge in order; or as another model's `tokens` are
    listed."""

    def __init__(self, merges: list[tuple[str, str]], tokens: list[str] | None = None, pre: str = "smollm") -> None:
        self.merges, self.pre, self._pattern = merges, pre, words_pattern(pre)
        self.tokens = tokens or SPECIALS + _SYMBOL + [a + b for a, b in merges]
        self.ids = {t: i for i, t in enumerate(self.tokens)}
        self._ranks = {pair: i for i, pair in enumerate(merges)}
        self._cache: dict[str, list[int]] = {}
        self.im_start, self.im_end, self.end_of_text = (self.ids[s] for s in (IM_START, IM_END, END_OF_TEXT))

    def _word(self, word: str) -> list[int]:
        return [self.ids[p] for p in self._parts("".join(_SYMBOL[b] for b in word.encode()))]

    def _parts(self, symbols: str) -> list[str]:
        """The tokens of one word, all written as vocabulary files write them."""
        parts = list(symbols)
        while len(parts) > 1:
            best = min(range(len(parts) - 1), key=lambda i: self._ranks.get((parts[i], parts[i + 1]), 1 << 30))
            if (parts[best], parts[best + 1]) not in self._ranks:
                break
            pair, out, i = (parts[best], parts[best + 1]), [], 0
            while i < len(parts):
                if i + 1 < len(parts) and (parts[i], parts[i + 1]) == pair:
                    out.append(parts[i] + parts[i + 1])
                    i += 2
                else:
                    out.append(parts[i])
                    i += 1
            parts = out
        return parts

    def encode(self, text: str) -> list[int]:
        """Plain text to ids; `<|im_end|>` in the text is ordinary text here."""
        cache, out = self._cache, []
        for word in self._pattern.findall(text):
            ids = cache.get(word)
            if ids is None:
                if len(cache) > 400_000:
                    cache.clear()
                ids = cache[word] = self._word(word)
            out += ids
        return out

    def encode_chat(self, text: str) -> list[int]:
        """A prompt to ids: the specials in it are tokens of their own."""
        out: list[int] = []
        for n, part in enumerate(_SPECIAL.split(text)):
            out += [self.ids[part]] if n % 2 else self.encode(part)
        return out

    def bytes_of(self, token: int) -> bytes:
        """Of one id; none of a special."""
        text = self.tokens[token]
        return b"" if text in SPECIALS else bytes(_BYTE[c] for c in text if c in _BYTE)

    def decode(self, ids: Iterable[int]) -> str:
        """Text of the ids, specials left out."""
        return b"".join(map(self.bytes_of, ids)).decode(errors="replace")

    @staticmethod
    def load(folder: Path) -> "Tokenizer":
        model = json.loads((folder / "tokenizer.json").read_text())["model"]
        tok = Tokenizer([tuple(m.split(" ")) for m in model["merges"]])
        if tok.ids != model["vocab"]:
            raise ValueError(f"{folder}/tokenizer.json: ids are not specials, bytes, merges in order")
        return tok


def of_gguf(metadata: dict) -> Tokenizer:
    """The tokenizer of a model file, which must be one of this kind."""
    pre = metadata["tokenizer.ggml.pre"]
    if metadata["tokenizer.ggml.model"] != "gpt2" or pre not in ("smollm", "qwen2"):
        raise ValueError(f"tokenizer {metadata['tokenizer.ggml.model']} / {pre} is not known here")
    return Tokenizer(
        [tuple(m.split(" ")) for m in metadata["tokenizer.ggml.merges"]], metadata["tokenizer.ggml.tokens"], pre
    )


def load_tokenizer(path: Path) -> Tokenizer:
    """Of a folder, or of a model file."""
    from train.gguf import read_metadata

    if path.suffix != ".gguf":
        return Tokenizer.load(path)
    return of_gguf(read_metadata(path))
