#!/usr/bin/env python3
"""Jobs of `banyan bench … --json` in vLLM, in a process of its own: random weights at the same shape, prompts as token
ids, greedy, answers of fixed length, prefix caching on.

usage: vllm_job.py FIGURES.json --shape qwen3-8b [--llm '{"quantization": "fp8"}'] [--repeat 3]
Prints a line of JSON per job. Every run begins with an empty prefix cache and fresh tokens; the fastest of the runs
counts. Decode rates are the difference of two runs, with 72 and with 8 new tokens, on a prompt that the cache already
has.
"""

import argparse
import json
import os
import random
import sys
import tempfile
import time

# This folder has a vllm.py of its own, which must not hide the package.
sys.path[:] = [folder for folder in sys.path if os.path.realpath(folder) != os.path.dirname(os.path.realpath(__file__))]

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
QWEN3 = {
    "rms_norm_eps": 1e-6,
    "rope_theta": 1e6,
    "max_position_embeddings": 40960,
    "hidden_act": "silu",
    "attention_bias": False,
    "use_sliding_window": False,
    "head_dim": 128,
    "vocab_size": 151936,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "bos_token_id": 151643,
    "eos_token_id": 151645,
}
# As src/load/random_model.cc has them.
CONFIGS = {
    "qwen3-8b": {
        **QWEN3,
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "hidden_size": 4096,
        "num_hidden_layers": 36,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "intermediate_size": 12288,
    },
    "qwen3-30b-a3b": {
        **QWEN3,
        "architectures": ["Qwen3MoeForCausalLM"],
        "model_type": "qwen3_moe",
        "hidden_size": 2048,
        "num_hidden_layers": 48,
        "num_attention_heads": 32,
        "num_key_value_heads": 4,
        "intermediate_size": 6144,
        "moe_intermediate_size": 768,
        "num_experts": 128,
        "num_experts_per_tok": 8,
        "norm_topk_prob": True,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
    },
}


def load(shape: str, options: dict):
    os.environ.update({name: os.environ.get(name, value) for name, value in QUIET.items()})
    from vllm import LLM

    folder = tempfile.mkdtemp()
    with open(f"{folder}/config.json", "w", encoding="utf-8") as file:
        json.dump(CONFIGS[shape], file)
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
        **{**defaults, **options},
    )


def prompts_of(branches: list[int], lengths: list[int], tokens) -> list[list[int]]:
    """The leaves of a tree of random tokens: every node of level i has branches[i + 1] children."""
    nodes = [[]]
    for count, length in zip(branches, lengths):
        nodes = [node + tokens(length) for node in nodes for _ in range(count)]
    return nodes


class Rival:
    def __init__(self, shape: str, options: dict):
        self.llm = load(shape, options)
        numbers = random.Random(1)
        self.tokens = lambda count: [numbers.randrange(1000, 150000) for _ in range(count)]

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
        return job["streams"] * (LONG_ANSWER - SHORT_ANSWER) / (long - short)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figures", help="what `banyan bench` wrote: a list of jobs")
    parser.add_argument("--shape", required=True, choices=sorted(CONFIGS))
    parser.add_argument("--llm", type=json.loads, default={}, help="options of vllm.LLM, as JSON")
    parser.add_argument("--repeat", type=int, default=3)
    args = parser.parse_args()
    with open(args.figures, encoding="utf-8") as file:
        jobs = json.load(file)
    begin = time.perf_counter()
    rival = Rival(args.shape, args.llm)
    import torch
    import vllm

    print(
        json.dumps(
            {
                "vllm": vllm.__version__,
                "torch": torch.__version__,
                "gpu": torch.cuda.get_device_name(),
                "load_seconds": round(time.perf_counter() - begin, 1),
            }
        ),
        flush=True,
    )
    for index, job in enumerate(jobs):
        measure = rival.decode_tokens_per_second if len(job["branches"]) == 2 else rival.questions_per_second
        print(json.dumps({"job": index, "rate": measure(job, args.repeat)}), flush=True)


if __name__ == "__main__":
    main()
