"""Not run: what a type checker must find right."""
import numpy as np

import banyan

model = banyan.Model("banyan-reader-34m", threads=2)
rows: banyan.Rows = banyan.ask([{"context": "a"}], ["b?", {"question": "c?", "choices": ["d"]}], model=model)
careful = banyan.AskOptions(copy=True, too_long="split")
rows = banyan.ask([{"context": "a"}], "b?", model=model, options=careful, max_new=3, temperature=0.5, chat="off")
estimated: dict[str, object] = banyan.estimate([{"text": "a"}], task="extract", schema={}, price_per_hour=2.0)
streamed: banyan.stream.RowStream = banyan.stream.ask([{"context": "a"}], "b?")
answer: object = rows[0]["answer"]
count: int = len(rows.errors)
with banyan.Engine(model, kv_memory="1G") as engine:
    for event in engine.submit([{"role": "user", "content": "Hello"}], max_new=4, stream=True):
        text: str = event.text
    found: banyan.Answer = engine.submit(banyan.Segment("abc", [banyan.Ask(max_new=3)])).answer()
    logprobs: "np.ndarray[tuple[int, ...], np.dtype[np.float32]]" = found.logprobs
vectors: banyan.Embeddings = banyan.embed(["a", "b"], model="all-minilm-l6-v2")
