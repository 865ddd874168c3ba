"""One job of `banyan bench` in Hugging Face Transformers: same shape, random weights, greedy, bf16, answers of fixed
length.

Two ways, each with the best of several batch sizes:
  batched  whole prompts, as many questions at once as pay; what a script does that calls the model on a batch
  cached   the KV of instruction and document computed once and repeated in memory for the questions under it; the most
           that the library's own cache gives without code for attention
Rates come from a few batches, not from the whole job: questions are independent, so the rest would only take longer.
"""

import time

import torch
import transformers
from transformers import AutoModelForCausalLM, DynamicCache, LlamaConfig, Qwen3Config

# layers, hidden, heads, KV heads, head size, inner size, vocabulary, theta, tied embeddings: src/load/random_model.cc
SHAPES = {
    "tiny": (Qwen3Config, 2, 64, 4, 2, 16, 160, 512, 1e4, True),
    "smollm2-135m": (LlamaConfig, 30, 576, 9, 3, 64, 1536, 49152, 1e5, True),
    "qwen3-0.6b": (Qwen3Config, 28, 1024, 16, 8, 128, 3072, 151936, 1e6, True),
    "qwen3-8b": (Qwen3Config, 36, 4096, 32, 8, 128, 12288, 151936, 1e6, False),
    "llama-3.1-8b": (LlamaConfig, 32, 4096, 32, 8, 128, 14336, 128256, 5e5, False),
    "codellama-7b": (LlamaConfig, 32, 4096, 32, 32, 128, 11008, 32016, 1e6, False),
}


class Rival:
    def __init__(self, shape: str, device: str, attention: str = "sdpa"):
        kind, layers, hidden, heads, kv_heads, head_dim, inner, vocabulary, theta, tied = SHAPES[shape]
        config = kind(
            num_hidden_layers=layers,
            hidden_size=hidden,
            num_attention_heads=heads,
            num_key_value_heads=kv_heads,
            head_dim=head_dim,
            intermediate_size=inner,
            vocab_size=vocabulary,
            tie_word_embeddings=tied,
            rope_parameters={"rope_type": "default", "rope_theta": theta},
            max_position_embeddings=32768,
        )
        torch.manual_seed(1)
        with torch.device(device):
            self.model = AutoModelForCausalLM.from_config(
                config, dtype=torch.bfloat16, attn_implementation=attention
            ).eval()
        self.device, self.vocabulary = device, vocabulary
        self.name = f"Transformers {transformers.__version__}, PyTorch {torch.__version__}, {attention}"

    def tokens(self, rows: int, length: int) -> torch.Tensor:
        return torch.randint(self.vocabulary, (rows, length), device=self.device)

    def feed(self, ids: torch.Tensor, cache: DynamicCache) -> torch.Tensor:
        """Appends the tokens to the cache; the next token of every row."""
        out = self.model(input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=1)
        return out.logits[:, -1].argmax(-1, keepdim=True)

    def decode(self, last: torch.Tensor, cache: DynamicCache, steps: int) -> None:
        for _ in range(steps):
            last = self.feed(last, cache)

    def clock(self) -> float:
        if self.device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()

    def batched(self, lengths: list[int], new: int, questions: int) -> dict:
        ids = self.tokens(questions, sum(lengths))
        begin = self.clock()
        cache = DynamicCache(config=self.model.config)
        last = self.feed(ids, cache)
        middle = self.clock()
        self.decode(last, cache, new - 1)
        return self.figures(questions, new, begin, middle)

    def cached(self, branches: list[int], lengths: list[int], new: int, copies: int) -> dict:
        """`copies` nodes of the last level but one at a time, each with all its questions; what lies above is done
        before the clock starts when all documents share it (an instruction), since a job does that once."""
        cache = DynamicCache(config=self.model.config)
        begin = self.clock()
        for level, length in enumerate(lengths):
            if level == len(lengths) - 2 and len(lengths) > 2:
                begin = self.clock()
                cache.batch_repeat_interleave(copies)
            elif level == len(lengths) - 1 and len(lengths) > 1:
                cache.batch_repeat_interleave(branches[-1])
            rows = 1 if level < len(lengths) - 2 or len(lengths) == 2 and level == 0 else copies
            rows = rows * branches[-1] if level == len(lengths) - 1 else rows
            last = self.feed(self.tokens(rows, length), cache)
        middle = self.clock()
        self.decode(last, cache, new - 1)
        return self.figures(copies * branches[-1], new, begin, middle)

    def figures(self, questions: int, new: int, begin: float, middle: float) -> dict:
        end = self.clock()
        return {
            "batch": questions,
            "questions_per_second": questions / (end - begin),
            "decode_tokens_per_second": questions * (new - 1) / (end - middle) if new > 1 else 0.0,
        }


def best(run, sizes: list[int], key: str, deadline: float) -> dict | None:
    """The best figure over growing batch sizes, until memory or time ends or the gain does; each size once untimed
    before."""
    found = None
    for size in sizes:
        try:
            begin = time.perf_counter()
            figures = run(size)
            now = time.perf_counter()
            if now + (now - begin) > deadline:  # no time for a second run: better than none
                found = found or figures
                break
            figures = run(size)
        except torch.OutOfMemoryError:
            break
        finally:
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
        if found is not None and figures[key] < 0.97 * found[key]:
            break
        if found is None or figures[key] > found[key]:
            found = figures
    return found


@torch.inference_mode()
def run_job(rival: Rival, job: dict, seconds: float) -> dict:
    """`job`: what `banyan bench … --json` wrote for one job. Figures of both ways, None where nothing fitted."""
    branches, lengths, new = job["branches"], job["lengths"], job["max_new"]
    grid = len(branches) == 2  # many streams on one prefix: decode steps are what counts
    key = "decode_tokens_per_second" if grid else "questions_per_second"
    streams = job["streams"]
    sizes = [size for size in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024) if size <= streams]
    start = time.perf_counter()
    result = {"rival": rival.name}
    if not grid:
        result["batched"] = best(
            lambda n: rival.batched(lengths, new, n),
            [s for s in sizes if s >= min(8, streams)],
            key,
            start + seconds / 2,
        )
    if len(branches) < 2:  # nothing is shared
        return result
    copies = [1] if grid else [size for size in (1, 2, 4, 8, 16, 32, 64) if size <= branches[-2]]
    result["cached"] = best(lambda n: rival.cached(branches, lengths, new, n), copies, key, start + seconds)
    return result
