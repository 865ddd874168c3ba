"""EleutherAI's lm-evaluation-harness over Banyan, as an outside judge.

>>> import lm_eval, banyan.lm_eval
>>> lm_eval.simple_evaluate(model="banyan", model_args="pretrained=smollm2-135m-instruct", tasks=["arc_easy"])

Requests of a task that share their beginning are computed once.
"""
from __future__ import annotations

from typing import Any

from lm_eval.api.model import TemplateLM
from lm_eval.api.registry import register_model

from ._engine import Engine
from ._errors import Error
from ._model import NO_ADAPTER, Model
from ._requests import Ask, Segment


@register_model("banyan")
class BanyanLM(TemplateLM):  # type: ignore[misc]
    """`pretrained` and the other arguments are those of `banyan.Model`, but no adapter is added; `engine` are the engine's options."""

    def __init__(self, pretrained: str | None = None, batch_size: Any = None, max_gen_toks: int = 256,
                 engine: dict[str, Any] | None = None, **options: Any) -> None:
        super().__init__()
        options.pop("device", None) if options.get("device") is None else None
        options.pop("max_batch_size", None)
        self.loaded = Model(pretrained, **{"adapter": NO_ADAPTER, **options})
        self.engine = Engine(self.loaded, **(engine or {}))
        self.max_gen_toks = max_gen_toks

    @property
    def eot_token_id(self) -> int:
        return self.loaded.end_tokens[0]

    @property
    def tokenizer_name(self) -> str:
        return self.loaded.path.replace("/", "__")

    def chat_template(self, chat_template: bool | str = False) -> str:
        return self.loaded.path if chat_template else ""

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        return self.loaded.chat_text(chat_history, add_generation_prompt=add_generation_prompt)

    def tok_encode(self, string: str, add_special_tokens: bool | None = None, **_: Any) -> list[int]:
        return self.loaded.encode(string, add_special=bool(add_special_tokens), parse_special=True)

    def _loglikelihood_tokens(self, requests: list[tuple[Any, list[int], list[int]]], disable_tqdm: bool = False,
                              **_: Any) -> list[tuple[float, bool]]:
        """The sum of the continuation's log-probabilities, and whether it is what greedy decoding gives."""
        submitted = []
        for key, context, continuation in requests:
            kept = (context + continuation)[-self.loaded.context_length:]
            context = kept[:len(kept) - len(continuation)]
            if not context:
                raise Error("a continuation has no token before it that fits the model's context", "limit")
            ask = Ask(forced=continuation, top_logprobs=1, stop_tokens=[])
            submitted.append((key, continuation, self.engine.submit(Segment(context, [ask]))))
        results = []
        for key, continuation, request in submitted:
            answer = request.answer()
            greedy = all(top[0][0] == token for top, token in zip(answer.top, continuation))
            results.append((float(answer.logprobs.astype("float64").sum()), greedy))
            if key is not None:
                self.cache_hook.add_partial("loglikelihood", key, results[-1])
        return results

    def loglikelihood_rolling(self, requests: list[Any], disable_tqdm: bool = False) -> list[float]:
        results = []
        for request in requests:
            tokens = [self.eot_token_id, *self.tok_encode(request.args[0])]
            window, total = self.loaded.context_length, 0.0
            for begin in range(1, len(tokens), window - 1):
                piece = tokens[begin:begin + window - 1]
                before = tokens[max(0, begin + len(piece) - window):begin]
                total += self._loglikelihood_tokens([(None, before, piece)])[0][0]
            results.append(total)
        return results

    def generate_until(self, requests: list[Any], disable_tqdm: bool = False) -> list[str]:
        submitted = []
        for request in requests:
            text, options = request.args
            until = options.get("until") or []
            stops = [until] if isinstance(until, str) else list(until)
            most = int(options.get("max_gen_toks", self.max_gen_toks))
            tokens = self.tok_encode(text)[-(self.loaded.context_length - most):]
            sampled = options.get("do_sample", False)
            temperature = float(options.get("temperature", 0.0)) if sampled else 0.0
            submitted.append(self.engine.submit(tokens, max_new=most, stop=[*stops, "\0"], temperature=temperature))
        return [request.answer().text for request in submitted]
