#!/usr/bin/env python3
"""Jobs of `banyan bench … --json` in vLLM, in a process of its own: random weights at the same shape, prompts as token
ids, greedy, answers of fixed length, prefix caching on.

usage: vllm_job.py FIGURES.json --shape qwen3-8b [--llm '{"quantization": "fp8"}'] [--repeat 3] [--wait]
Prints a line of JSON when the model is there, and one per job: its rate, or why there is none. Every run begins with an
empty prefix cache and fresh tokens; the fastest of the runs counts. Decode rates are the difference of two runs, with 72
and with 8 new tokens, on a prompt that the cache already has.

Weights are drawn as ours are: matrices with variance 1 / columns, norms of ones, so that a mixture's router has as much
to choose between as in Banyan. `experts` is how many different ones a decode step met in a layer, a mean over layers.
--wait: reads a line from standard input before it measures; FIGURES.json is read after it.
"""

import argparse
import gc
import json
import os
import pathlib
import random
import sys
import tempfile
import time

# This folder has a vllm.py of its own, which must not hide the package.
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:] = [folder for folder in sys.path if pathlib.Path(folder or ".").resolve() != HERE]
sys.path.append(str(HERE.parents[1]))
from bench.rivals import vllm_shapes  # noqa: E402

QUIET = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_USE_FLASHINFER_SAMPLER": "0",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_LOGGING_LEVEL": "WARNING",
}
LONG_ANSWER, SHORT_ANSWER = 72, 8  # tokens


def load(shape: str, options: dict, smaller: dict):
    os.environ.update({name: os.environ.get(name, value) for name, value in QUIET.items()})
    from vllm import LLM

    folder = tempfile.mkdtemp()
    with open(f"{folder}/config.json", "w", encoding="utf-8") as file:
        json.dump(vllm_shapes.config_of(shape, smaller), file)
    defaults = {
        "dtype": "bfloat16",
        "max_model_len": 20480,
        "gpu_memory_utilization": 0.85,
        "enable_prefix_caching": True,
    }
    return LLM(
        model=folder,
        load_format="dummy",
        skip_tokenizer_init=True,
        generation_config="vllm",
        seed=1,
        **{**defaults, **vllm_shapes.options_of(shape), **options},
    )


def draw(tensor, fill: float = 0.0) -> None:
    """As src/load/random_tensors.cc: a matrix has values of about 1 / sqrt(columns). `fill` is for vectors."""
    if tensor.device.type == "meta" or not tensor.is_floating_point() or tensor.element_size() < 2:
        return
    if tensor.ndim < 2:
        tensor.data.fill_(fill)
    else:
        tensor.data.normal_(0.0, tensor.shape[-1] ** -0.5)


def draw_layer(layer, _config=None) -> None:
    """The parameters of a layer itself; the loader comes to those below. Buffers stay as their layer made them."""
    name = type(layer).__name__
    for parameter in layer.parameters(recurse=False):
        # GemmaRMSNorm multiplies by 1 + weight.
        draw(parameter, 1.0 if name.endswith("Norm") or name.startswith("RMSNorm") else 0.0)
        if name == "GemmaRMSNorm":
            parameter.data.zero_()


def draw_as_ours() -> str:
    """Replaces how vLLM draws dummy weights (all within ±0.001, norms too); returns whose weights they are."""
    try:
        from vllm.model_executor.model_loader import dummy_loader

        for name in ("initialize_dummy_weights", "initialize_single_dummy_weight"):
            getattr(dummy_loader, name)
        dummy_loader.initialize_dummy_weights = draw_layer
        dummy_loader.initialize_single_dummy_weight = draw
    except (ImportError, AttributeError) as error:
        print(f"vllm_job.py: weights stay vLLM's own: {error}", file=sys.stderr)
        return "vLLM's"
    return "as ours"


class Routes:
    """Which experts a step chose. It keeps the choices that CUDA graphs write, so that looking costs no time."""

    def __init__(self):
        self.kept: list = []
        try:
            from vllm.model_executor.layers.fused_moe.router.base_router import BaseRouter
        except ImportError as error:
            print(f"experts of a step are not counted: {error}", file=sys.stderr)
            return
        import torch

        select = BaseRouter.select_experts

        def and_keep(router, *words, **names):
            weights, ids = select(router, *words, **names)
            if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
                self.kept.append(ids)
            return weights, ids

        BaseRouter.select_experts = and_keep

    def met(self, rows: int, run) -> float | None:
        """Different experts of the last step of `run`, a mean over layers; None: no graph of so many rows ran."""
        sizes = sorted({ids.shape[0] for ids in self.kept if ids.shape[0] >= rows})
        of_size = [ids for ids in self.kept if sizes and ids.shape[0] == sizes[0]]
        before = [ids.clone() for ids in of_size]
        run()
        changed = [now[:rows] for now, then in zip(of_size, before) if not now.equal(then)]
        if not changed:
            return None
        return sum(ids.unique().numel() for ids in changed) / len(changed)


def prompts_of(branches: list[int], lengths: list[int], tokens) -> list[list[int]]:
    """The leaves of a tree of random tokens: every node of level i has branches[i + 1] children."""
    nodes = [[]]
    for count, length in zip(branches, lengths):
        nodes = [node + tokens(length) for node in nodes for _ in range(count)]
    return nodes


class Rival:
    def __init__(self, shape: str, options: dict, smaller: dict):
        self.weights = draw_as_ours()
        self.routes = Routes()
        self.llm = load(shape, options, smaller)
        self.experts: float | None = None  # of the last decode rate
        numbers = random.Random(1)
        vocabulary = {**vllm_shapes.TEXTS[shape], **smaller}["vocab_size"]
        self.tokens = lambda count: [numbers.randrange(min(1000, vocabulary // 2), vocabulary) for _ in range(count)]

    def seconds(self, prompts: list[list[int]], new: int) -> float:
        from vllm import SamplingParams
        from vllm.inputs import TokensPrompt

        asked = [TokensPrompt(prompt_token_ids=prompt) for prompt in prompts]
        how = SamplingParams(temperature=0, max_tokens=new, ignore_eos=True, detokenize=False)
        begin = time.perf_counter()
        answers = self.llm.generate(asked, how, use_tqdm=False)
        taken = time.perf_counter() - begin
        if any(len(answer.outputs[0].token_ids) != new for answer in answers):
            sys.exit("vllm_job.py: an answer has another length than was asked for")
        return taken

    def questions_per_second(self, job: dict, repeat: int) -> float:
        least = float("inf")
        for _ in range(repeat):
            self.llm.reset_prefix_cache()
            prompts = prompts_of(job["branches"], job["lengths"], self.tokens)
            least = min(least, self.seconds(prompts, job["max_new"]))
        return job["streams"] / least

    def decode_tokens_per_second(self, job: dict, repeat: int) -> float:
        shared, own = self.tokens(job["lengths"][0]), job["lengths"][1]
        prompts = lambda: [shared + self.tokens(own) for _ in range(job["streams"])]
        self.seconds(prompts(), 1)
        short = min(self.seconds(prompts(), SHORT_ANSWER) for _ in range(repeat))
        long = min(self.seconds(prompts(), LONG_ANSWER) for _ in range(repeat))
        self.experts = self.routes.met(job["streams"], lambda: self.seconds(prompts(), SHORT_ANSWER))
        return job["streams"] * (LONG_ANSWER - SHORT_ANSWER) / (long - short)


    def measure(self, job: dict, repeat: int) -> dict:
        if len(job["branches"]) > 2:
            return {"rate": self.questions_per_second(job, repeat)}
        found = {"rate": self.decode_tokens_per_second(job, repeat)}
        return found if self.experts is None else {**found, "experts": round(self.experts, 1)}


def reason(error: BaseException) -> str:
    """Its kind and its last line that says something."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith("For further information")] or [""]
    return f"{type(error).__name__}: {lines[-1][:200]}"


def say(**fields) -> None:
    print(json.dumps(fields), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figures", help="what `banyan bench` wrote: a list of jobs")
    parser.add_argument("--shape", required=True, choices=sorted(vllm_shapes.TEXTS))
    parser.add_argument("--llm", type=json.loads, default={}, help="options of vllm.LLM, as JSON")
    parser.add_argument("--smaller", type=json.loads, default={}, help="fields of config.json that differ, for tests")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--wait", action="store_true", help="measure after a line on standard input")
    args = parser.parse_args()
    begin = time.perf_counter()
    try:
        rival = Rival(args.shape, args.llm, args.smaller)
        import torch
        import vllm
    except Exception as error:  # whatever it is, it is this row's reason
        say(error=reason(error))
        raise
    say(
        vllm=vllm.__version__,
        torch=torch.__version__,
        gpu=torch.cuda.get_device_name() if torch.cuda.is_available() else "none",
        weights=rival.weights,
        load_seconds=round(time.perf_counter() - begin, 1),
    )
    if args.wait:
        sys.stdin.readline()
    with open(args.figures, encoding="utf-8") as file:
        jobs = json.load(file)
    failed = 0
    for index, job in enumerate(jobs):
        try:
            say(job=index, **rival.measure(job, args.repeat))
        except Exception as error:
            say(job=index, error=reason(error))
            failed += 1
            gc.collect()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
