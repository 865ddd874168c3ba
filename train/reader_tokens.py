"""Examples as tokens, with exactly the prompt that `banyan ask` builds: the model's chat template, the default instruction.

    python3 -m train.reader_tokens --in FILE.jsonl.gz --model MODEL.gguf --out FILE.npz [--banyan build/release/banyan]

The npz has `tokens` (all examples one after the other: prompt, answer, end), `begin` and `answer` (where an example and its
answer begin; the last `begin` is the end), `train` (split), `group` (index into `groups`: natural, cloze, generated) and the
held-out examples' gold answers as JSON. Tokenizer and template are the engine's own, so training needs neither.
"""
from __future__ import annotations

import argparse
import gzip
import json
from pathlib import Path

import numpy as np

from eval.banyan import Engine
from train.sample import DEFAULT_INSTRUCTION, IM_END

GROUPS = ["natural", "cloze", "generated"]


def prompts(engine: Engine, pairs: list[tuple[str, str]]) -> list[list[int]]:
    """Tokens of the prompts for (context, question) pairs."""
    before, between, after = engine.prompt_parts([DEFAULT_INSTRUCTION])[0]
    return engine.tokenize([before + context + between + question + after for context, question in pairs])


def encode(engine: Engine, examples: list[dict]) -> dict[str, np.ndarray]:
    stop, *answers = engine.tokenize([IM_END, *(e["answer"] for e in examples)])
    tokens, begin, answer = [], [0], []
    for prompt, given in zip(prompts(engine, [(e["context"], e["question"]) for e in examples]), answers):
        answer.append(begin[-1] + len(prompt))
        tokens += prompt + given + stop
        begin.append(len(tokens))
    group = [GROUPS.index(e["source"]) if e["source"] in GROUPS else 0 for e in examples]
    held = json.dumps({n: dict(source=e["source"], kind=e["kind"], golds=e["golds"]) for n, e in enumerate(examples) if e["split"] == "held"})
    return dict(tokens=np.array(tokens, np.uint32), begin=np.array(begin, np.int64), answer=np.array(answer, np.int64),
                train=np.array([e["split"] == "train" for e in examples]), group=np.array(group, np.uint8), held=np.frombuffer(held.encode(), np.uint8),
                stop=np.array(stop, np.uint32))


def vocabulary_bytes(engine: Engine, size: int) -> list[str]:
    """The text of every token alone, so that the trainer can score answers without a tokenizer."""
    return [o["text"] for o in engine.ids([dict(kind="detokenize", ids=[i]) for i in range(size)])]


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--in", dest="source", type=Path, required=True)
    p.add_argument("--model", required=True)
    p.add_argument("--out", type=Path, required=True)
    p.add_argument("--banyan", default="build/release/banyan")
    a = p.parse_args()
    with gzip.open(a.source, "rt", encoding="utf-8") as f:
        examples = [json.loads(line) for line in f]
    engine = Engine(a.banyan, a.model)
    data = encode(engine, examples)
    texts = vocabulary_bytes(engine, int(data["tokens"].max()) + 1)
    data["vocabulary"] = np.frombuffer(json.dumps(texts).encode(), np.uint8)
    np.savez_compressed(a.out, **data)
    lengths = np.diff(data["begin"])
    print(f"{len(examples)} examples, {len(data['tokens'])} tokens, longest {lengths.max()}, {a.out.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
