"""Banyan: one context, many answers.

Many questions over shared text, answered at once: what documents and questions have in common is computed once, and
every answer has exactly the bits that it would have alone.

>>> import banyan
>>> banyan.ask([{"context": "Anna steers the ferry."}], "Who steers the ferry?")[0]["answer"]
'Anna'

`ask`, `extract` and `rag` are the jobs of the command line on files, lists of dicts, pandas and Arrow tables; `embed`
gives vectors; `map`, `filter`, `rank`, `group` and `join` ask about every row of a table; `Engine` answers requests one by one, with streams and
asyncio. `banyan.stream` gives a job's rows as they come, `banyan.aio` has jobs for coroutines. `banyan.duckdb`, `banyan.polars` and `banyan.pandas` have them as functions and columns of tables, `banyan.ray`
runs jobs on many machines. The pages are docs/python.md and docs/tables.md.
"""
from . import _native
from ._ask import ask
from ._control import Timeout
from ._embed import Embeddings, Encoder, embed
from ._engine import Engine
from ._errors import Error
from ._estimate import estimate, show_prompts
from ._extract import extract
from ._filter import Filtered, filter
from ._index import Index, IndexChanges, Passage
from ._model import SHIPPED_MODEL, Model, describe, fetch_model
from ._options import AskOptions, EngineOptions, ExtractOptions, RagOptions, TableOptions
from ._rag import rag
from ._requests import Answer, Ask, Event, Request, Segment
from ._rows import Rows
from ._shared import unload_models
from ._table import group, join, map, rank
from . import aio, stream

_native.set_error_class(Error)

__version__ = _native.version

__all__ = ["Answer", "Ask", "AskOptions", "Embeddings", "Encoder", "Engine", "EngineOptions", "Error", "Event",
           "ExtractOptions", "Filtered", "Index", "IndexChanges", "Model", "Passage", "RagOptions", "Request", "Rows", "SHIPPED_MODEL",
           "Segment", "TableOptions", "Timeout", "aio", "ask", "describe", "embed", "estimate", "extract", "fetch_model", "filter",
           "group", "join", "map", "rag", "rank", "show_prompts", "stream", "unload_models"]
