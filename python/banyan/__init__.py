"""Banyan: one context, many answers.

Many questions over shared text, answered at once: what documents and questions have in common is computed once, and
every answer has exactly the bits that it would have alone.

>>> import banyan
>>> banyan.ask([{"context": "Anna steers the ferry."}], "Who steers the ferry?")[0]["answer"]
'Anna'

`ask`, `extract` and `rag` are the jobs of the command line on files, lists of dicts, pandas and Arrow tables; `embed`
gives vectors; `Engine` answers requests one by one, with streams and asyncio. `banyan.ray` runs jobs on many machines.
The page is docs/python.md.
"""
from . import _native
from ._embed import Embeddings, Encoder, Index, Passage, embed
from ._engine import Engine
from ._errors import Error
from ._jobs import ask, estimate, extract, rag, show_prompts
from ._model import SHIPPED_MODEL, Model, describe, fetch_model
from ._options import EngineOptions
from ._requests import Answer, Ask, Event, Request, Segment
from ._rows import Rows

_native.set_error_class(Error)

__version__ = _native.version

__all__ = ["Answer", "Ask", "Embeddings", "Encoder", "Engine", "EngineOptions", "Error", "Event", "Index", "Model",
           "Passage", "Request", "Rows", "SHIPPED_MODEL", "Segment", "ask", "describe", "embed", "estimate", "extract",
           "fetch_model", "rag", "show_prompts"]
