"""Banyan for LangChain: a chat model and a retriever.

>>> from banyan.langchain import BanyanChat, BanyanRetriever
>>> chat = BanyanChat(model="smollm2-135m-instruct")
>>> chat.invoke("Who steers the ferry?").content
"""
from __future__ import annotations

import json
from operator import itemgetter
from typing import Any, AsyncIterator, Iterator, Mapping

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.output_parsers import JsonOutputParser, PydanticOutputParser
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnableMap, RunnablePassthrough
from langchain_core.utils.function_calling import convert_to_json_schema
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from ._index import Index
from ._engine import Engine
from ._errors import Error
from ._model import Model
from ._requests import Answer, Request

_ROLES = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool"}


def chat_messages(messages: list[BaseMessage]) -> list[dict[str, str]]:
    """LangChain's messages as a chat template takes them."""
    chat = []
    for message in messages:
        role = _ROLES.get(message.type) or str(getattr(message, "role", message.type))
        if not isinstance(message.content, str):
            raise Error(f"expected messages of text, found {type(message.content).__name__}", "unsupported")
        chat.append({"role": role, "content": message.content})
    return chat


class BanyanChat(BaseChatModel):  # type: ignore[misc]
    """A chat model in this process. Messages that begin alike share what is computed of them; all calls, from threads
    or coroutines, are answered at once by one engine, and each has the answer that it would have alone."""

    # A parameter that is not known is refused, not ignored.
    model_config = ConfigDict(arbitrary_types_allowed=True, protected_namespaces=(), extra="forbid", populate_by_name=True)

    model: Any = None  #: a `banyan.Model`, or what it takes: path, name, None
    max_new: int = Field(default=256, alias="max_tokens")  #: also by LangChain's name of it, `max_tokens`
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0
    engine_options: dict[str, Any] = Field(default_factory=dict)
    _engine: Engine | None = PrivateAttr(default=None)

    @property
    def _llm_type(self) -> str:
        return "banyan"

    @property
    def engine(self) -> Engine:
        if self._engine is None:
            loaded = self.model if isinstance(self.model, Model) else Model(self.model)
            self._engine = Engine(loaded, **self.engine_options)
        return self._engine

    def close(self) -> None:
        """Ends the engine; the next call begins another."""
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    def _submit(self, messages: list[BaseMessage], stop: list[str] | None, stream: bool, options: dict[str, Any]) -> Request:
        options = dict(options)
        if "max_tokens" in options:  # as LangChain calls it
            options["max_new"] = options.pop("max_tokens")
        chosen = {"max_new": self.max_new, "temperature": self.temperature, "top_k": self.top_k, "top_p": self.top_p,
                  "seed": self.seed, **options}
        return self.engine.submit(chat_messages(messages), stop=stop or (), stream=stream, **chosen)

    def with_structured_output(self, schema: Any, *, include_raw: bool = False, strict: bool | None = None,
                               **options: Any) -> Runnable[Any, Any]:
        """A chat whose answers match a schema: a class of pydantic, whose objects come back, or a TypedDict or a JSON
        schema, for which dicts do. The grammar of the schema is imposed token by token, so that every whole answer
        parses; one that `max_new` cuts off does not. `include_raw` gives a dict of raw, parsed and parsing_error.
        `strict` is taken and changes nothing: answers are always strict."""
        for name in options:
            raise Error(f"{name}: there is no such option; there are include_raw, strict")
        is_class = isinstance(schema, type) and issubclass(schema, BaseModel)
        if not is_class and not isinstance(schema, (Mapping, type)):
            raise Error(f"schema: expected a class of pydantic, a TypedDict or a JSON schema, found {type(schema).__name__}")
        grammar = schema.model_json_schema() if is_class else dict(schema) if isinstance(schema, Mapping) and "type" in schema \
            else convert_to_json_schema(schema)
        parser: Any = PydanticOutputParser(pydantic_object=schema) if is_class else JsonOutputParser()
        model = self.bind(json_schema=json.dumps(grammar))
        if not include_raw:
            return model | parser
        parsed = RunnablePassthrough.assign(parsed=itemgetter("raw") | parser, parsing_error=lambda _: None)
        failed = RunnablePassthrough.assign(parsed=lambda _: None)
        return RunnableMap(raw=model) | parsed.with_fallbacks([failed], exception_key="parsing_error")

    @staticmethod
    def _result(answer: Answer) -> ChatResult:
        usage = {"input_tokens": answer.prompt_tokens, "output_tokens": len(answer.tokens),
                 "total_tokens": answer.prompt_tokens + len(answer.tokens)}
        message = AIMessage(content=answer.text, usage_metadata=usage,
                            response_metadata={"finish_reason": answer.finish_reason})
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _generate(self, messages: list[BaseMessage], stop: list[str] | None = None,
                  run_manager: CallbackManagerForLLMRun | None = None, **options: Any) -> ChatResult:
        return self._result(self._submit(messages, stop, False, options).answer())

    async def _agenerate(self, messages: list[BaseMessage], stop: list[str] | None = None,
                         run_manager: AsyncCallbackManagerForLLMRun | None = None, **options: Any) -> ChatResult:
        return self._result(await self._submit(messages, stop, False, options))

    def _stream(self, messages: list[BaseMessage], stop: list[str] | None = None,
                run_manager: CallbackManagerForLLMRun | None = None, **options: Any) -> Iterator[ChatGenerationChunk]:
        for event in self._submit(messages, stop, True, options):
            if event.text:
                chunk = ChatGenerationChunk(message=AIMessageChunk(content=event.text))
                if run_manager is not None:
                    run_manager.on_llm_new_token(event.text, chunk=chunk)
                yield chunk

    async def _astream(self, messages: list[BaseMessage], stop: list[str] | None = None,
                       run_manager: AsyncCallbackManagerForLLMRun | None = None,
                       **options: Any) -> AsyncIterator[ChatGenerationChunk]:
        async for event in self._submit(messages, stop, True, options):
            if event.text:
                chunk = ChatGenerationChunk(message=AIMessageChunk(content=event.text))
                if run_manager is not None:
                    await run_manager.on_llm_new_token(event.text, chunk=chunk)
                yield chunk


class BanyanRetriever(BaseRetriever):  # type: ignore[misc]
    """Passages of an index that `banyan.Index.build` or ``banyan rag index`` made, found by words (BM25)."""

    # A parameter that is not known is refused, not ignored.
    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid", populate_by_name=True)

    index: Index
    count: int = Field(default=4, alias="k", ge=1)  #: also by LangChain's name of it, `k`

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        return [Document(page_content=found.text, id=found.id,
                         metadata={"source": found.source, "title": found.title, "begin": found.begin, "score": found.score})
                for found in self.index.search(query, self.count)]
