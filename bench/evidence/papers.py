"""Every claim of the five papers, a row each: the claim, their setting, our figure and the verdict.

A claim and its setting are written here, as abstracts and the design of this project state them. Nothing else is: the
command, the figure and the verdict come from the results of one run (`bench.evidence.verdicts`). A row for which
nothing was measured says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable

from bench.evidence.claim_figures import (
    COPY,
    at_once,
    contexts,
    larger_batch,
    memory,
    of_documents,
    of_jobs,
    prompts_gain,
    prompts_rivals,
    seqbatch,
    shape_peaks,
    values_gain,
)
from bench.evidence.readers import DECODE, FIRST, RATE, RELAY, SECONDS
from bench.evidence.verdicts import (
    CANNOT,
    NO_FIGURE,
    Found,
    Results,
    everywhere,
    fact,
    falls,
    grows,
    grows_less,
    peak,
    up_to,
)

HYDRAGEN, IPPD, PROMPTING, HPD, PCED = (
    "Hydragen (arXiv 2402.05099)",
    "Intra-Prompt Parallel Decoding (OpenReview mkUJeg7rwA)",
    "Parallel Prompting (OpenReview T5KBO4IeM2)",
    "Hyper-Parallel Decoding (arXiv 2604.26209)",
    "Parallel Context-of-Experts (arXiv 2601.08670)",
)
IN_MEMORY = "experts, documents in memory"  # a series of the sweep `experts`


@dataclass(frozen=True)
class Claim:
    paper: str
    claim: str
    setting: str  # theirs
    part: str = ""  # the sweep or table whose commands made our figure
    ours: Callable[[Results], Found | None] = lambda r: None
    cannot: str = ""  # why it cannot be run here
    command: str = ""  # of a row without a part


TWO_CORES = "13 and 34 billion parameters do not run on a CPU of two cores; make evidence-gpu runs them"

CLAIMS = [
    Claim(
        HYDRAGEN,
        "end-to-end throughput up to 32 times that of competitive baselines",
        "CodeLlama-13b, eight A100, up to 16 k shared tokens, batches of 1 k",
        "streams",
        lambda r: up_to(r, "streams", "auto", ["paged", "flat"], DECODE, 32),
    ),
    Claim(
        HYDRAGEN,
        "over 3 times at 1 k shared tokens",
        "CodeLlama-13b, eight A100, batch of 1 k",
        "context",
        lambda r: up_to(r, "context", "auto", ["paged", "flat"], DECODE, 3, at=1024),
    ),
    Claim(
        HYDRAGEN,
        "over 30 times at 16 k shared tokens",
        "CodeLlama-13b, eight A100, batch of 1 k",
        "context",
        lambda r: up_to(r, "context", "auto", ["paged", "flat"], DECODE, 30, at=16384),
    ),
    Claim(
        HYDRAGEN,
        "the speed-up grows with the batch",
        "CodeLlama-13b, 2048 shared tokens",
        "streams",
        lambda r: grows(r, "streams", "auto", ["paged"], DECODE),
    ),
    Claim(
        HYDRAGEN,
        "the speed-up grows with the shared prefix",
        "CodeLlama-13b, large batch",
        "context",
        lambda r: grows(r, "context", "auto", ["paged"], DECODE),
    ),
    Claim(
        HYDRAGEN,
        "16 times the shared tokens cost less than 15 % of the throughput",
        "1 k → 16 k tokens, large batch",
        "context",
        lambda r: falls(r, "context", "auto", DECODE, most=0.15),
    ),
    Claim(
        HYDRAGEN,
        "16 times the shared tokens cost baselines over 90 %",
        "1 k → 16 k tokens, large batch",
        "context",
        lambda r: falls(r, "context", "paged", DECODE, least=0.9),
    ),
    Claim(
        HYDRAGEN,
        "the gain shrinks as what is a sequence's own grows",
        "suffixes of several lengths",
        "own",
        lambda r: grows(r, "own", "auto", ["paged"], RATE, shrinks=True),
    ),
    Claim(
        HYDRAGEN,
        "attention alone: the speed-up grows with the shared prefix",
        "against FlashAttention; here against reading every stream's keys by the same kernels",
        "attention",
        lambda r: grows(r, "attention", "tree", ["paged"], "µs", times=True),
    ),
    Claim(
        HYDRAGEN,
        "a long document is computed and read once for all questions: time grows less than their number",
        "a document of 19 947 tokens",
        "document",
        lambda r: grows_less(r, "document", "auto", SECONDS),
    ),
    Claim(
        HYDRAGEN,
        "exact: the answers are those of attention without sharing",
        "planted facts in a long text",
        "planted",
        lambda r: fact(r, "planted", ["exact"], "exact verdict"),
    ),
    Claim(
        HYDRAGEN,
        "two shared levels take a further 55 % off the time of one",
        "competitive programming problems (APPS): few-shot examples, then 128 samples of each of 120 problems",
        "levels",
        lambda r: up_to(r, "levels", "both levels shared", ["examples shared alone"], SECONDS, 1 / 0.45, times=True),
    ),
    Claim(
        HYDRAGEN,
        "what sharing saves in memory is room for a larger batch",
        "samples of one problem, batch limited by memory",
        "streams",
        larger_batch,
    ),
    Claim(
        HYDRAGEN,
        "the larger batch that fits into the memory is faster",
        "samples of one problem, as many at once as fit",
        "budget",
        lambda r: up_to(r, "budget", "auto", ["flat"], DECODE, 1),
    ),
    Claim(
        HYDRAGEN,
        "the same at CodeLlama-13b, CodeLlama-34b and Yi-6B",
        "eight A100",
        "hydragen",
        lambda r: everywhere(r, "hydragen", "auto", ["paged"], DECODE),
        TWO_CORES,
        "banyan bench hydragen --shape codellama-13b --strategies auto,paged,no-attention --device cuda",
    ),
    Claim(
        IPPD,
        "effective throughput up to 7 times that of standard decoding",
        "SQuAD 2.0, NarrativeQA, RACE, LongHealth; several questions and up to 6 contexts in a prompt",
        "jobs",
        lambda r: of_jobs(r, up_to(r, "jobs", "stacked", ["flat"], RATE, 7)),
    ),
    Claim(
        IPPD,
        "faster than other accelerations of inference",
        "rivals with prefix caching; here the same prompts with the prefix stored once (paged)",
        "jobs",
        lambda r: of_jobs(r, everywhere(r, "jobs", "stacked", ["paged"], RATE)),
    ),
    Claim(
        IPPD,
        "91 to 100 % of the answers are those of separate prompts",
        "by data set",
        "answers",
        lambda r: fact(r, "answers", ["identical"], "identical verdict"),
    ),
    Claim(
        IPPD,
        "no loss of quality: written answers",
        "SQuAD 2.0 and NarrativeQA, at most 30 and 40 tokens",
        "answers",
        lambda r: fact(r, "answers", ["quality"], "quality verdict"),
    ),
    Claim(
        IPPD,
        "no loss of quality: choices",
        "RACE and LongHealth, one token",
        "choices",
        lambda r: fact(r, "choices", ["quality"], "quality verdict"),
    ),
    Claim(
        IPPD,
        "several contexts in a prompt are faster than one",
        "contexts in a prompt (C / P) up to 6, and prompts at once (B), chosen for each data set (its Table 4)",
        "stacks",
        contexts,
    ),
    Claim(
        IPPD,
        "no loss of quality on NarrativeQA itself",
        "summaries of 737 tokens, some thirty questions each, answers of at most 40 tokens",
        "narrativeqa",
        lambda r: fact(r, "narrativeqa", ["quality"], "quality verdict"),
        "a model that reads them: --real MODEL",
        "python3 -m eval ask narrativeqa -m MODEL.gguf --ways flat,stacked,auto",
    ),
    Claim(
        IPPD,
        "quality on LongHealth itself",
        "prompts of 12 000 tokens",
        cannot="its file is not here, and a prompt takes a CPU of two cores minutes; the command reads it as published",
        command="python3 -m eval ask benchmark_v5.json -m MODEL.gguf --ways flat,stacked,auto",
    ),
    Claim(
        PROMPTING,
        "3.5 to 5.9 times as fast as standard prompts (its Table 2)",
        "Llama 3 8B, one prompt for each question, batched",
        "prompts",
        lambda r: prompts_gain(r, 3.5),
    ),
    Claim(
        PROMPTING,
        "latency up to 4 times shorter than that of competitive baselines",
        "Llama 3 8B; vLLM, Hydragen, RelayAttention. Here paged, tree, and a tree that shares the system prompt alone",
        "prompts",
        lambda r: prompts_rivals(r, 4),
    ),
    Claim(
        PROMPTING,
        "throughput peaks between one question in a prompt and all",
        "N questions, P in a prompt, N / P prompts at once; the peak depends on the machine",
        "prompts",
        lambda r: peak(r, "prompts", COPY, RATE, "P"),
    ),
    Claim(
        PROMPTING,
        "the same peak at Llama-160M and Sheared-LLaMA-1.3B",
        "N questions, P in a prompt",
        "prompt_shapes",
        shape_peaks,
    ),
    Claim(PROMPTING, "less memory: one copy of the context for P questions", "N questions", "prompts", memory),
    Claim(
        PROMPTING,
        "the advantage falls as outputs grow",
        "outputs of several lengths",
        "lengths",
        lambda r: grows(r, "lengths", "auto", ["flat"], RATE, shrinks=True),
    ),
    Claim(PROMPTING, "questions merged into one prompt (SeqBatch) lose quality", "Llama 3 8B", "answers", seqbatch),
    Claim(
        PROMPTING,
        "no loss of quality",
        "Llama 3 8B, popular data sets",
        "answers",
        lambda r: fact(r, "answers", ["quality"], "quality verdict"),
    ),
    Claim(
        PROMPTING,
        "faster than RelayAttention",
        "only the system prompt is shared by its rows; grids of questions and documents, also at Llama-160M and"
        " Sheared-LLaMA-1.3B",
        "relay",
        lambda r: up_to(r, "relay", "stacked", [RELAY], RATE, 1),
    ),
    Claim(
        HPD,
        "up to 13.8 times less time and cost",
        "attribute values of product pages, up to 6 documents in a prompt, against sequential decoding",
        "values",
        lambda r: values_gain(r, 13.8),
    ),
    Claim(
        HPD, "up to 96 tokens of a prompt in a step", "6 documents in a prompt, 16 attributes each", "values", at_once
    ),
    Claim(
        HPD,
        "faster than sequential decoding with any number of prompts at once",
        "stacks of documents × batches",
        "stack_batch",
        lambda r: everywhere(r, "stack_batch", "skeleton, stacked by 6", ["sequential"], "documents/s"),
    ),
    Claim(
        HPD,
        "no loss of quality against sequential decoding",
        "attributes of products",
        "extraction",
        lambda r: fact(r, "extraction", ["skeleton", "sequential"], "quality verdict"),
    ),
    Claim(
        HPD,
        "attribute values do not depend on each other",
        "conditional independence of the pairs",
        "extraction",
        lambda r: fact(r, "extraction", ["isolated", "sequential"], "independent verdict"),
    ),
    Claim(
        HPD,
        "faster than speculative decoding",
        "with a draft model. Here guesses by the template, prompt lookup, and a part of the model's own layers",
        "drafts",
        lambda r: fact(r, "drafts", ["the template known", "prompt lookup", "a draft model"], "verdict"),
    ),
    Claim(
        HPD,
        "no loss of quality, by a judge",
        "match, partial, missing, spurious, wrong",
        "judge",
        lambda r: fact(r, "judge", ["judged"], "verdict"),
    ),
    Claim(
        HPD,
        "no loss of quality, base and tuned, at several sizes of models",
        "sequential and parallel values, before and after tuning",
        "extractors",
        lambda r: fact(r, "extractors", ["skeleton"], "verdict"),
        "models of several sizes do not ship: --extractor MODEL=ADAPTER",
    ),
    Claim(
        PCED,
        "time to the first token up to 180 times shorter than one long prompt",
        "64 documents of 2048 tokens, their keys computed before",
        "experts",
        lambda r: up_to(r, "experts", IN_MEMORY, ["one prompt"], FIRST, 180, times=True),
    ),
    Claim(
        PCED,
        "time in all 1.7 times shorter",
        "32 documents of 2048 tokens, 512 new tokens",
        "long_answer",
        lambda r: up_to(r, "long_answer", IN_MEMORY, ["one prompt"], SECONDS, 1.7, times=True),
    ),
    Claim(
        PCED,
        "as good as, or better than, all documents in one prompt",
        "questions on retrieved documents, BGE-M3 and a reranker",
        "rag",
        lambda r: of_documents(r, "one prompt"),
    ),
    Claim(
        PCED,
        "recovers reasoning over several documents",
        "questions of two hops; against one document",
        "rag",
        lambda r: of_documents(r, "one document, two hops"),
    ),
    Claim(
        PCED,
        "better than keys of separate documents side by side (APE)",
        "the same documents",
        "rag",
        lambda r: of_documents(r, "KV side by side"),
    ),
    Claim(
        PCED,
        "better than map-reduce",
        "a summary of every document, made without the question",
        "rag",
        lambda r: of_documents(r, "map-reduce"),
    ),
    Claim(
        PCED,
        "their choice γ = 2.5 loses nothing to other weights of relevance",
        "raw logits, relevance of an encoder fused with a reranker",
        "rag_parameters",
        lambda r: fact(r, "rag_parameters", ["γ"], "γ verdict"),
    ),
    Claim(
        PCED,
        "their choice of β, the Jensen–Shannon divergence, loses nothing to constants",
        "raw logits",
        "rag_parameters",
        lambda r: fact(r, "rag_parameters", ["β"], "β verdict"),
    ),
    Claim(
        PCED,
        "their choice of the maximum loses nothing to mixture and product",
        "its appendix C.4, Table 7",
        "rag_parameters",
        lambda r: fact(r, "rag_parameters", ["rule"], "rule verdict"),
    ),
    Claim(
        PCED,
        "examples as experts: as good as all examples in one prompt",
        "in-context learning",
        "examples",
        lambda r: fact(r, "examples", ["experts"], "experts verdict"),
    ),
    Claim(
        PCED,
        "code: as good as, or better than, all documents in one prompt",
        "lines of code after those of other files, by similarity (RepoBench-P in LongBench). Here this project's own",
        "code",
        lambda r: fact(r, "code", ["experts"], "experts verdict"),
        "a model that writes code: --real MODEL",
        "python3 -m eval rag code_lines -m MODEL.gguf --ways experts,paper,concat,top1",
    ),
    Claim(
        PCED,
        "long inputs",
        "tasks of LongBench with their metrics",
        cannot="prompts of 10 000 tokens and more: longer than the shipped model reads; the command reads the"
        " published file",
        command="python3 -m eval ask multifieldqa_en.jsonl -m MODEL.gguf --ways flat,auto",
    ),
]


def found_of(claim: Claim, results: Results) -> Found:
    """What the run says, or why it says nothing."""
    found = claim.ours(results)
    if found is not None:
        return found
    return Found("–", CANNOT, claim.cannot) if claim.cannot else Found("–", NO_FIGURE)


def part_of(claim: Claim, results: Results) -> str:
    """The part of the page that the figure is of: with documents as experts the real model's, if there is one."""
    real = f"real_{claim.part}"
    return real if results.table(real) else claim.part


def command_of(claim: Claim, results: Results) -> str:
    """The first of the commands that made the figure, or would; the part of the page has all of them."""
    name = part_of(claim, results)
    part = results.sweeps.get(name) or results.tables.get(name)
    commands = part.commands if part else results.planned.get(name)
    return commands[0] if commands else claim.command or "–"
