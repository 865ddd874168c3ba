"""Byte-level BPE, complete: training, encoding, decoding, and the Hugging Face files that describe it.

Pre-tokenisation is what llama.cpp calls `smollm`: every digit alone, then the GPT-2 pattern. Pure Python, because texts
repeat their words: a cache from word to ids makes it faster than the generator that feeds it.
NOT here: general tokenizers. Banyan's own `text/` does that in C++; tests compare the two through `banyan ids`.
"""
from __future__ import annotations

import heapq
import json
import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Iterable

from train.sample import END_OF_TEXT, IM_END, IM_START

SPECIALS = [END_OF_TEXT, IM_START, IM_END]  # ids 0, 1, 2
# `\s+(?=\d)`: digits are cut out first, so white space before one ends its piece and stays whole
_WORDS = re.compile(r"\d|'(?:s|t|re|ve|m|ll|d)| ?[^\W\d_]+| ?(?:[^\s\w]|_)+|\s+(?=\d)|\s+(?!\S)|\s+")

CHAT_TEMPLATE = ("{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
                 "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")


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
    """Token ids: specials, then the 256 bytes, then one per merge in order; or as another model's `tokens` are listed."""
    chat = True  # prompts are a chat

    def __init__(self, merges: list[tuple[str, str]], tokens: list[str] | None = None) -> None:
        self.merges = merges
        self.tokens = tokens or SPECIALS + _SYMBOL + [a + b for a, b in merges]
        self.ids = {t: i for i, t in enumerate(self.tokens)}
        self._ranks = {pair: i for i, pair in enumerate(merges)}
        self._cache: dict[str, list[int]] = {}
        self.im_start, self.im_end, self.end_of_text = (self.ids[s] for s in (IM_START, IM_END, END_OF_TEXT))
        self.stop = self.im_end

    def _word(self, word: str) -> list[int]:
        return [self.ids[p] for p in self.parts("".join(_SYMBOL[b] for b in word.encode()))]

    def parts(self, symbols: str) -> list[str]:
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
        for word in _WORDS.findall(text):
            ids = cache.get(word)
            if ids is None:
                if len(cache) > 400_000:
                    cache.clear()
                ids = cache[word] = self._word(word)
            out += ids
        return out

    def decode(self, ids: Iterable[int]) -> str:
        """Text of the ids, specials left out."""
        return bytes(_BYTE[c] for i in ids if i >= len(SPECIALS) for c in self.tokens[i] if c in _BYTE).decode(errors="replace")

    def prompt_ids(self, system: str | None) -> list[int]:
        """Everything before the context: the system message and the start of the user's."""
        out: list[int] = []
        if system is not None:
            out = [self.im_start, *self.encode("system\n" + system), self.im_end, *self.encode("\n")]
        return out + [self.im_start, *self.encode("user\n")]

    def question_ids(self, text: str) -> list[int]:
        """The question (with its lead) and the start of the answer."""
        return [*self.encode(text), self.im_end, *self.encode("\n"), self.im_start, *self.encode("assistant\n")]

    def answer_ids(self, text: str) -> list[int]:
        return self.encode(text)

    def save(self, folder: Path) -> None:
        """Writes `tokenizer.json` and `tokenizer_config.json` in the Hugging Face format."""
        special = [dict(id=i, content=t, single_word=False, lstrip=False, rstrip=False, normalized=False, special=True) for i, t in enumerate(SPECIALS)]
        byte_level = dict(type="ByteLevel", add_prefix_space=False, trim_offsets=True, use_regex=True)
        content = dict(version="1.0", truncation=None, padding=None, added_tokens=special, normalizer=None,
                       pre_tokenizer=dict(type="Sequence", pretokenizers=[dict(type="Digits", individual_digits=True), byte_level]),
                       post_processor=None, decoder=byte_level,
                       model=dict(type="BPE", dropout=None, unk_token=None, continuing_subword_prefix=None, end_of_word_suffix=None,
                                  fuse_unk=False, byte_fallback=False, ignore_merges=False, vocab=self.ids, merges=[f"{a} {b}" for a, b in self.merges]))
        (folder / "tokenizer.json").write_text(json.dumps(content, ensure_ascii=False, indent=0) + "\n")
        config = dict(tokenizer_class="PreTrainedTokenizerFast", bos_token=None, eos_token=IM_END, pad_token=END_OF_TEXT, unk_token=None, add_bos_token=False,
                      add_eos_token=False, add_prefix_space=False, clean_up_tokenization_spaces=False, model_max_length=4096,
                      added_tokens_decoder={str(s["id"]): {k: v for k, v in s.items() if k != "id"} for s in special}, chat_template=CHAT_TEMPLATE)
        (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=1) + "\n")

    @staticmethod
    def load(folder: Path) -> "Tokenizer":
        model = json.loads((folder / "tokenizer.json").read_text())["model"]
        tok = Tokenizer([tuple(m.split(" ")) for m in model["merges"]])
        if tok.ids != model["vocab"]:
            raise ValueError(f"{folder}/tokenizer.json: ids are not specials, bytes, merges in order")
        return tok


def of_gguf(metadata: dict) -> Tokenizer:
    """The tokenizer of a model file, which must be one of this kind."""
    if metadata["tokenizer.ggml.model"] != "gpt2" or metadata["tokenizer.ggml.pre"] != "smollm":
        raise ValueError(f"tokenizer {metadata['tokenizer.ggml.model']} / {metadata['tokenizer.ggml.pre']} is not known here")
    return Tokenizer([tuple(m.split(" ")) for m in metadata["tokenizer.ggml.merges"]], metadata["tokenizer.ggml.tokens"])


def load_tokenizer(path: Path):
    """Of a folder, or of a model file; a `Tokenizer` or a `SentencePiece`."""
    from train import sentencepiece
    from train.gguf import read_metadata
    if path.suffix != ".gguf":
        return Tokenizer.load(path)
    metadata = read_metadata(path)
    return sentencepiece.of_gguf(metadata) if metadata["tokenizer.ggml.model"] == "llama" else of_gguf(metadata)


def train_bpe(words: Counter[str], vocab_size: int, whole_words: int = 1200) -> list[tuple[str, str]]:
    """Merges learned from word counts, most frequent pair first, ties by text so that the result is reproducible.

    The space before a word takes no part at first; the last `whole_words` merges join it to the most frequent words that are
    one token by then. So a name has the same tokens at the start of an answer as inside a sentence, behind the
    space: copying it is copying ids, not spelling. Measured: without this rule a trained model still got the first token
    of 3 % of unseen names wrong."""
    space = _SYMBOL[32]
    plain: Counter[str] = Counter()
    for w, n in words.items():
        plain[w[1:] if len(w) > 1 and w[0] == " " and w[1].isalpha() else w] += n
    merges = _learn(plain, vocab_size - len(SPECIALS) - 256 - whole_words)
    known = {a + b for a, b in merges} | {"a", "I"}
    spaced = [(n, "".join(_SYMBOL[b] for b in w[1:].encode())) for w, n in words.items() if len(w) > 1 and w[0] == " " and w[1].isalpha()]
    chosen = sorted(((n, w) for n, w in spaced if w in known and n > 1), reverse=True)[:whole_words]
    if len(chosen) < whole_words:
        raise ValueError(f"only {len(chosen)} of {whole_words} words are one token")
    return merges + [(space, w) for _, w in chosen]


@dataclass(frozen=True)
class _Pair:
    """Most frequent first, then the greatest by text."""
    count: int
    pair: tuple[str, str]

    def __lt__(self, other: "_Pair") -> bool:
        return (self.count, self.pair) > (other.count, other.pair)


def _learn(words: Counter[str], count: int) -> list[tuple[str, str]]:
    """The plain algorithm, `count` merges."""
    rows = [([_SYMBOL[b] for b in w.encode()], n) for w, n in sorted(words.items())]
    pairs: Counter[tuple[str, str]] = Counter()
    where: dict[tuple[str, str], set[int]] = defaultdict(set)
    for i, (parts, n) in enumerate(rows):
        for pair in zip(parts, parts[1:]):
            pairs[pair] += n
            where[pair].add(i)
    merges: list[tuple[str, str]] = []
    made: set[str] = set()
    heap = [_Pair(n, pair) for pair, n in pairs.items()]
    heapq.heapify(heap)
    while len(merges) < count:
        if not heap or heap[0].count < 2:
            raise ValueError(f"only {len(merges)} merges can be learned from this text")
        top = heapq.heappop(heap)
        best = top.pair
        if pairs.get(best) != top.count:  # counts change; the entry of the present count is in the heap, too
            continue
        joined = best[0] + best[1]
        if joined in made:  # the same string by another split would be a duplicate token
            pairs.pop(best)
            continue
        merges.append(best)
        made.add(joined)
        changed: set[tuple[str, str]] = set()
        for i in where.pop(best):
            parts, n = rows[i]
            for pair in zip(parts, parts[1:]):
                pairs[pair] -= n
                changed.add(pair)
            out, k = [], 0
            while k < len(parts):
                if k + 1 < len(parts) and parts[k] == best[0] and parts[k + 1] == best[1]:
                    out.append(joined)
                    k += 2
                else:
                    out.append(parts[k])
                    k += 1
            parts[:] = out
            for pair in zip(parts, parts[1:]):
                pairs[pair] += n
                where[pair].add(i)
                changed.add(pair)
        pairs.pop(best, None)
        for pair in changed - {best}:
            heapq.heappush(heap, _Pair(pairs[pair], pair))
    return merges
