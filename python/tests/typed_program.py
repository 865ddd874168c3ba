"""Not run: what type checkers must find right, in strict mode."""
import asyncio

import numpy as np
import polars
from typing_extensions import assert_type

import banyan
import banyan.polars

model = banyan.Model("banyan-reader-34m", threads=2)
rows: banyan.Rows = banyan.ask([{"context": "a"}], ["b?", {"question": "c?", "choices": ["d"]}], model=model)
careful = banyan.AskOptions(copy=True, too_long="split")
rows = banyan.ask([{"context": "a"}], "b?", model=model, options=careful, max_new=3, temperature=0.5, chat="off")
estimated: dict[str, object] = banyan.estimate([{"text": "a"}], task="extract", schema={}, price_per_hour=2.0)
answer: object = rows[0]["answer"]
count: int = len(rows.errors)
with banyan.Engine(model, kv_memory="1G") as engine:
    for event in engine.submit([{"role": "user", "content": "Hello"}], max_new=4, stream=True):
        text: str = event.text
    found: banyan.Answer = engine.submit(banyan.Segment("abc", [banyan.Ask(max_new=3)])).answer()
    logprobs: "np.ndarray[tuple[int, ...], np.dtype[np.float32]]" = found.logprobs
vectors: banyan.Embeddings = banyan.embed(["a", "b"], model="all-minilm-l6-v2")

assert_type(banyan.stream.ask([{"context": "a"}], "b?", max_new=3, timeout=2.0), banyan.stream.RowStream)
assert_type(banyan.stream.extract([{"text": "a"}], {}, model=model), banyan.stream.RowStream)
assert_type(banyan.stream.rag([{"question": "a?"}], top=3), banyan.stream.RowStream)
for row in banyan.stream.ask([{"context": "a"}], "b?"):
    asked: object = row["answer"]

pages = polars.DataFrame({"page": ["a"]})
assert_type(banyan.polars.BanyanFrame(pages).ask("b?", text="page", errors=True), polars.DataFrame)
assert_type(banyan.polars.BanyanLazyFrame(pages.lazy()).ask({"who": "b?"}, text="page"), polars.LazyFrame)
assert_type(banyan.polars.BanyanExpr(polars.col("page")).ask_choice("b?", ["c", "d"]), polars.Expr)


async def jobs() -> None:
    assert_type(await banyan.aio.ask([{"context": "a"}], "b?", model=model, chat="off"), banyan.Rows)
    assert_type(await banyan.aio.extract([{"text": "a"}], {}), banyan.Rows)
    assert_type(await banyan.aio.rag([{"question": "a?"}]), banyan.Rows)
    assert_type(await banyan.aio.embed(["a"], model="all-minilm-l6-v2"), banyan.Embeddings)
    async for one in banyan.stream.ask([{"context": "a"}], "b?"):
        print(one["answer"])


asyncio.run(jobs())
banyan.unload_models()
