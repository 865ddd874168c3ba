"""`generate` as Transformers has it, so that a program for one runs with the other.

>>> from banyan.transformers import BanyanForCausalLM
>>> model = BanyanForCausalLM.from_pretrained("SmolLM2-135M-Instruct")
>>> model.generate(tokenizer(texts, return_tensors="np", padding=True)["input_ids"], max_new_tokens=20)

Arrays come back as they went in: numpy for numpy and lists, torch for torch. Rows that begin alike are computed once, and
every row has the tokens that it would have alone.
"""
from __future__ import annotations

import os
from types import TracebackType
from typing import Any, Sequence

import numpy as np
import numpy.typing as npt

from ._engine import Engine
from ._errors import Error
from ._model import NO_ADAPTER, Model
from ._requests import Ask, Request, Segment


class BanyanForCausalLM:
    def __init__(self, model: Model, **engine: Any) -> None:
        self.model = model
        self._engine = Engine(model, **engine)

    @classmethod
    def from_pretrained(cls, model: str | os.PathLike[str] | None = None, **options: Any) -> BanyanForCausalLM:
        """`model` and `options` are those of `banyan.Model`, but no adapter is added."""
        return cls(Model(model, **{"adapter": NO_ADAPTER, **options}))

    def close(self) -> None:
        self._engine.close()
        self.model.close()

    def __enter__(self) -> BanyanForCausalLM:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def generate(self, input_ids: Any, attention_mask: Any = None, *, max_new_tokens: int = 20, do_sample: bool = False,
                 temperature: float = 1.0, top_k: int = 50, top_p: float = 1.0, min_p: float = 0.0,
                 repetition_penalty: float = 1.0, num_return_sequences: int = 1, seed: int = 0,
                 eos_token_id: int | Sequence[int] | None = None, pad_token_id: int | None = None) -> Any:
        """Prompts with their continuations, padded at the end to one length: [prompts × sequences, longest].

        A mask of zeros marks padding, on either side. Greedy decoding gives Transformers' tokens up to rounding; samples
        are drawn by `seed`, which takes the place of torch's generator.
        """
        torch = type(input_ids).__module__.split(".")[0] == "torch"
        ids = np.asarray(input_ids.cpu() if torch else input_ids)
        if ids.ndim == 1:
            ids = ids[None]
        if ids.ndim != 2:
            raise Error(f"input_ids: expected one or two dimensions, found {ids.ndim}", "input")
        mask = np.ones_like(ids) if attention_mask is None else np.asarray(attention_mask.cpu() if torch else attention_mask)
        ends = self.model.end_tokens if eos_token_id is None else np.atleast_1d(eos_token_id).tolist()
        pad = pad_token_id if pad_token_id is not None else (ends[0] if ends else 0)
        requests: list[Request] = []
        for row, kept in zip(ids, mask):
            asks = [Ask(tag=sample, max_new=max_new_tokens, stop_tokens=ends, seed=seed, sample_key=sample,
                        request_key=len(requests), repetition_penalty=repetition_penalty, temperature=temperature if do_sample else 0.0, top_k=top_k,
                        top_p=top_p, min_p=min_p)
                    for sample in range(num_return_sequences)]
            requests.append(self._engine.submit(Segment(row[kept != 0].tolist(), asks)))
        rows: list[npt.NDArray[np.int64]] = []
        for row, request in zip(ids, requests):
            for answer in sorted(request.answers(), key=lambda one: one.tag):
                if answer.finish_reason == "error":
                    raise Error(answer.error, "limit")
                rows.append(np.concatenate([row, np.asarray(answer.tokens, dtype=np.int64)]))
        result = np.full((len(rows), max(len(row) for row in rows)), pad, dtype=np.int64)
        for number, tokens in enumerate(rows):
            result[number, :len(tokens)] = tokens
        if torch:
            import torch as library
            return library.from_numpy(result)
        return result
