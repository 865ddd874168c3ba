"""SentencePiece BPE as a GGUF file has it (Gemma), and the prompt of `banyan ask` for models without a chat template.

Neighbours merge while their joined text is a token, the one of the best score first. A word (with the mark of the space before it) is encoded alone: no token but
one has a mark behind another character, and that one is left alone here. Tokens that the file lists as user-defined (runs of newlines, tabs) are cut out first, the
longest at each place. Pure Python with a cache, as `train.tokenizer`; tests compare with the engine.
"""
from __future__ import annotations

import re
from typing import Iterable

SPACE = "\u2581"
CONTROL, UNKNOWN, USER_DEFINED, BYTE = 3, 2, 4, 6  # token types
_WORD = re.compile(f"{SPACE}+[^{SPACE}]*|[^{SPACE}]+")


class SentencePiece:
    """`chat`, `stop`, `answer_ids` and the two parts of a prompt are what `train.encode` asks of a tokenizer."""
    chat = False

    def __init__(self, tokens: list[str], scores: list[float], types: list[int], bos: int, eos: int) -> None:
        self.tokens, self.scores, self.types, self.bos, self.stop = tokens, scores, types, bos, eos
        plain = [t not in (CONTROL, UNKNOWN, BYTE) for t in types]
        self.ids = {t: i for i, t in enumerate(tokens) if plain[i]}
        self._score = {t: scores[i] for t, i in self.ids.items()}
        self._bytes = {int(t[3:5], 16): i for i, t in enumerate(tokens) if types[i] == BYTE}
        whole = [t for i, t in enumerate(tokens) if types[i] == USER_DEFINED and SPACE not in t and not _is_control(t)]
        self._whole = re.compile("(" + "|".join(map(re.escape, sorted(whole, key=len, reverse=True))) + ")") if whole else None
        self._cache: dict[str, list[int]] = {}

    def _word(self, word: str) -> list[int]:
        parts = list(word)
        while len(parts) > 1:
            best, at = None, -1
            for i in range(len(parts) - 1):
                score = self._score.get(parts[i] + parts[i + 1])
                if score is not None and (best is None or score > best):
                    best, at = score, i
            if best is None:
                break
            parts[at:at + 2] = [parts[at] + parts[at + 1]]
        out: list[int] = []
        for p in parts:
            out += [self.ids[p]] if p in self.ids else [self._bytes[b] for b in p.encode()]
        return out

    def encode(self, text: str) -> list[int]:
        """Text that a user wrote: control tokens spelled in it are ordinary text."""
        cache, out = self._cache, []
        pieces = self._whole.split(text) if self._whole else [text]
        for n, piece in enumerate(pieces):
            if n % 2:
                out.append(self.ids[piece])
                continue
            for word in _WORD.findall(piece.replace(" ", SPACE)):
                ids = cache.get(word)
                if ids is None:
                    if len(cache) > 400_000:
                        cache.clear()
                    ids = cache[word] = self._word(word)
                out += ids
        return out

    def decode(self, ids: Iterable[int]) -> str:
        out = bytearray()
        for i in ids:
            if self.types[i] == BYTE:
                out.append(int(self.tokens[i][3:5], 16))
            elif self.types[i] not in (CONTROL, UNKNOWN):
                out += self.tokens[i].replace(SPACE, " ").encode()
        return out.decode(errors="replace")

    def prompt_ids(self, system: str | None) -> list[int]:
        return [self.bos] + (self.encode(system + "\n\n") if system is not None else [])

    def question_ids(self, text: str) -> list[int]:
        return self.encode(text + "\nAnswer:")

    def answer_ids(self, text: str) -> list[int]:
        """As copies begin (`ask --copy`, the readers' default): without a space before them. An adapter that was trained to write one reads worse with
        `--copy`, because the engine then takes its second choice of a first token."""
        return self.encode(text)


def _is_control(text: str) -> bool:
    """What the engine takes for a control token although its type is not: never found in a user's text."""
    return len(text) >= 3 and (text[0], text[-1]) in (("<", ">"), ("[", "]"))


def of_gguf(metadata: dict) -> SentencePiece:
    get = lambda key: metadata["tokenizer.ggml." + key]
    if metadata.get("tokenizer.ggml.add_space_prefix", True) or not metadata.get("tokenizer.ggml.add_bos_token", True) or "tokenizer.chat_template" in metadata:
        raise ValueError("expected a SentencePiece model with BOS, without a prefixed space and without a chat template")
    return SentencePiece(get("tokens"), get("scores"), get("token_type"), get("bos_token_id"), get("eos_token_id"))
