"""extract: attribute values out of documents."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping

from ._errors import Error
from ._examples import Schema, examples_read, examples_text, json_text
from ._model import Model
from ._names import documented, task_options
from ._options import EngineOptions, ExtractOptions, Path
from ._progress import Progress
from ._rows import Rows
from ._run import JobCall, run_job
from ._tables import Data

if TYPE_CHECKING:
    from typing_extensions import Unpack


def extract_task(schema: Schema, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of an extraction as the library takes them."""
    if schema is None:
        raise Error("schema: expected a dict, JSON text or a class of pydantic, found NoneType")
    return {**options, "schema": json_text(schema), "few_shot": examples_text(options.get("few_shot"))}


def extract_call(data: Data, schema: Schema, *, model: Model | Path | None = None,
                 output: Path | None = None, engine: EngineOptions | None = None, progress: Progress | None = None,
                 timeout: float | None = None, options: ExtractOptions | None = None, **more: Any) -> JobCall:
    """What `extract` would run."""
    task, job = task_options("extract", options, more)
    return JobCall("extract", data, extract_task(schema, task), job, model, output, engine, progress, timeout,
                   examples_read(task["few_shot"]))


@documented("extract")
def extract(data: Data, schema: Schema, *, model: Model | Path | None = None,
            output: Path | None = None, engine: EngineOptions | None = None, progress: Progress | None = None,
            timeout: float | None = None, options: ExtractOptions | None = None,
            **more: Unpack[ExtractOptions]) -> Rows:
    """Attribute values out of documents, as ``banyan extract`` does: all at once, each turned into its type.

    A row has ``text``, or ``documents`` (texts, or dicts with ``id`` and ``text``) where several documents speak of
    one thing, and may have ``id`` and ``category``.

    >>> banyan.extract([{"text": "Brand: Norda. Colour: red."}], {"attributes": [{"name": "brand"}]})[0]["values"]
    {'brand': 'Norda'}

    | parameter | |
    |---|---|
    | `data` | as of `ask` |
    | `schema` | a dict, JSON text, a .json file or a class of pydantic (docs/extract.md): ``{"attributes": [{"name": "weight", "type": "number", "unit": "kg"}]}`` |
    """
    return run_job(extract_call(data, schema, model=model, output=output, engine=engine, progress=progress,
                                timeout=timeout, options=options, **more))
