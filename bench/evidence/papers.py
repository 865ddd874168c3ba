"""A row for each claim, table or figure of the five papers: theirs, ours, what differs, the command, or why it cannot
be made here.

`theirs` is what abstracts and the pages of this repository's design state; figures are named by what they show. A row's
`ours` is a function of the results, so that nothing is written that was not measured in the same run; it gives None
where what it needs was not measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable

from bench.evidence.figures import Figure, compare, differ, figure, significant
from bench.evidence.quality import Table
from bench.evidence.runner import Outcome
from bench.evidence.sweeps import DECODE, FIRST, MEMORY, RATE, SECONDS

HYDRAGEN, IPPD, PROMPTING, HPD, PCED = (
    "Hydragen (arXiv 2402.05099)",
    "Intra-Prompt Parallel Decoding (OpenReview mkUJeg7rwA)",
    "Parallel Prompting (OpenReview T5KBO4IeM2)",
    "Hyper-Parallel Decoding (arXiv 2604.26209)",
    "Parallel Context-of-Experts (arXiv 2601.08670)",
)


@dataclass
class Results:
    sweeps: dict[str, Outcome]
    tables: dict[str, Table]

    def at(self, sweep: str, series: str, x: float, measure: str) -> Figure | None:
        found = self.sweeps[sweep].values.get(series, {}).get(x, {}).get(measure) if sweep in self.sweeps else None
        return figure(found) if found else None

    def ends(self, sweep: str, series: str, measure: str) -> tuple[float, Figure, float, Figure] | None:
        """Least and greatest x, with their figures."""
        points = (
            {x: m[measure] for x, m in self.sweeps[sweep].values.get(series, {}).items() if m.get(measure)}
            if sweep in self.sweeps
            else {}
        )
        return (min(points), figure(points[min(points)]), max(points), figure(points[max(points)])) if points else None

    def fact(self, table: str, name: str) -> str | None:
        return self.tables[table].facts.get(name) if table in self.tables else None


@dataclass(frozen=True)
class Row:
    paper: str
    item: str
    theirs: str
    ours: Callable[[Results], str | None]
    differs: str  # from their setting
    sweep: str = ""  # or table, whose commands made it
    why_not: str = ""  # it cannot be made here


def _fall(r: Results, sweep: str, series: str, measure: str) -> str | None:
    ends = r.ends(sweep, series, measure)
    if ends is None:
        return None
    x0, first, x1, last = ends
    text = (
        f"{series}: {significant(first.median)} → {significant(last.median)} {measure} from {significant(x0, 5)} to"
        f" {significant(x1, 5)}"
    )
    if min(first.runs, last.runs) < 2:
        return text + " (one run: no spread, so no claim)"
    if not differ(first, last):
        return text + " (no difference beyond the spread)"
    return text + f" ({'−' if last.median < first.median else '+'}{abs(100 * (1 - last.median / first.median)):.0f} %)"


def _against(r: Results, sweep: str, ours: str, theirs: list[str], measure: str) -> str | None:
    """At the greatest x."""
    ends = r.ends(sweep, ours, measure)
    if ends is None:
        return None
    parts = [
        f"{ours} over {other}: {compare(ends[3], them)}"
        for other in theirs
        if (them := r.at(sweep, other, ends[2], measure))
    ]
    return f"at {significant(ends[2], 5)}: " + "; ".join(parts) if parts else None


def _both(*texts: str | None) -> str | None:
    told = [t for t in texts if t]
    return "; ".join(told) or None


def _gain(r: Results, sweep: str, ours: str, theirs: str, measure: str) -> str | None:
    """Of times: how much shorter, at the greatest x that both have."""
    ends = r.ends(sweep, theirs, measure)
    mine = r.at(sweep, ours, ends[2], measure) if ends else None
    if mine is None:
        return None
    once = min(mine.runs, ends[3].runs) < 2
    if not once and not differ(mine, ends[3]):
        return f"at {significant(ends[2], 5)}: no difference beyond the spread"
    return (
        f"at {significant(ends[2], 5)}: {significant(mine.median)} against {significant(ends[3].median)} {measure},"
        f" {significant(ends[3].median / mine.median)} times" + (" (one run: no spread, so no claim)" if once else "")
    )


def _prompts(r: Results) -> str | None:
    ends = r.ends("prompts", "a copy for each prompt", SECONDS)
    if ends is None:
        return None
    least = min(
        (figure(m[SECONDS]) for m in r.sweeps["prompts"].values["a copy for each prompt"].values()),
        key=lambda f: f.median,
    )
    if min(ends[1].runs, least.runs) < 2:
        return (
            f"best P against P = 1: {significant(least.median)} against {significant(ends[1].median)} s (one run: no"
            " spread, so no claim)"
        )
    if not differ(ends[1], least):
        return "no difference between any P and P = 1 beyond the spread"
    return (
        f"best P against P = 1 (batched prompts): {significant(least.median)} against {significant(ends[1].median)} s,"
        f" {significant(ends[1].median / least.median)} times"
    )


def _best_p(r: Results) -> str | None:
    points = (
        {p: figure(m[RATE]) for p, m in r.sweeps["prompts"].values.get("a copy for each prompt", {}).items()}
        if "prompts" in r.sweeps
        else {}
    )
    if not points:
        return None
    best = max(points, key=lambda p: points[p].median)
    like = [p for p in sorted(points) if not differ(points[p], points[best])]
    return f"best at P = {best:g} ({points[best].text()} questions/s)" + (
        f"; P = {', '.join(f'{p:g}' for p in like if p != best)} within the spread" if len(like) > 1 else ""
    )


def _memory(r: Results) -> str | None:
    ends = r.ends("prompts", "a copy for each prompt", MEMORY)
    once = r.ends("prompts", "stored once", MEMORY)
    return (
        f"KV: {significant(ends[1].median)} MiB at P = {ends[0]:g}, {significant(ends[3].median)} at P = {ends[2]:g};"
        f" stored once {significant(once[3].median)}"
        if ends and once
        else None
    )


def _advantage(r: Results, sweep: str, which: int) -> str | None:
    series = r.sweeps[sweep].values.get("auto", {}) if sweep in r.sweeps else {}
    if not series:
        return None
    x = sorted(series)[which]
    ours, flat = r.at(sweep, "auto", x, RATE), r.at(sweep, "flat", x, RATE)
    return f"{x:g} new tokens: auto over flat {compare(ours, flat)}" if ours and flat else None


ROWS = [
    Row(
        HYDRAGEN,
        "throughput against batch size",
        "up to 32 times the strongest baseline (CodeLlama-13b, eight A100)",
        lambda r: _against(r, "streams", "auto", ["paged", "flat", "no-attention"], DECODE),
        "model, machine and sizes; the baselines are Banyan's own flat and paged, on the same kernels",
        "streams",
    ),
    Row(
        HYDRAGEN,
        "throughput against prefix length",
        "1 k → 16 k shared tokens: −15 % at most, baselines −90 % and more",
        lambda r: _both(
            _fall(r, "context", "auto", DECODE),
            _fall(r, "context", "paged", DECODE),
            _fall(r, "context", "no-attention", DECODE),
        ),
        "model, machine and lengths",
        "context",
    ),
    Row(
        HYDRAGEN,
        "suffix length",
        "the gain shrinks as what is a sequence's own grows",
        lambda r: _both(_against(r, "own", "auto", ["paged", "flat"], RATE), _fall(r, "own", "auto", RATE)),
        "model, machine and lengths",
        "own",
    ),
    Row(
        HYDRAGEN,
        "attention alone",
        "a speed-up over FlashAttention that grows with batch and prefix",
        lambda r: _gain(r, "attention", "tree", "paged", "µs"),
        "paged reads every stream's keys by the same kernels; no FlashAttention on this machine",
        "attention",
    ),
    Row(
        HYDRAGEN,
        "Figure 5: questions on a long document",
        "many questions on one long document cost little more than few (its figures were not checked here)",
        lambda r: r.fact("planted", "growth"),
        "a document of some 2000 tokens: the shipped model reads 3000; planted facts of the same kind",
        "planted",
    ),
    Row(
        HYDRAGEN,
        "Figure 6: two levels of sharing",
        "a further −55 % of time with both levels on 120 programming problems (APPS), 128 samples",
        lambda r: _gain(r, "levels", "both levels shared", "examples shared alone", SECONDS),
        "random problems of 128 tokens: APPS and CodeLlama are not here, so solutions are not run",
        "levels",
    ),
    Row(
        IPPD,
        "effective throughput",
        "up to 7 times standard decoding",
        lambda r: _both(
            _against(r, "questions", "auto", ["flat", "paged"], RATE), _against(r, "jobs", "stacked", ["flat"], RATE)
        ),
        "model, machine and sizes; token counts of SQuAD2 and RACE",
        "questions",
    ),
    Row(
        IPPD,
        "answers identical to separate prompts",
        "91 to 100 % by data set",
        lambda r: r.fact("answers", "identical"),
        "own texts and model; bits are compared in every timed run as well",
        "answers",
    ),
    Row(
        PROMPTING,
        "rival: questions merged into one prompt (SeqBatch)",
        "degrades quality: the model cannot keep the questions apart",
        lambda r: _both(
            *(
                r.fact("answers", w) and f"{w}: {r.fact('answers', w)}"
                for w in ("flat", "SeqBatch, 4 in a prompt", "SeqBatch, 8 in a prompt")
            )
        ),
        "the shipped model was trained to answer one question",
        "answers",
    ),
    Row(
        IPPD,
        "Table 3: cost of C contexts and P questions in a stack, B stacks",
        "their cost model of C, P and B",
        lambda r: r.fact("stack_costs", "error"),
        "form of the model: seconds = a · rows + b · rows × keys, a and b fitted to these runs; the paper's constants"
        " are of another machine",
        "stacks",
    ),
    Row(
        IPPD,
        "data sets: NarrativeQA, LongHealth",
        "their quality by method",
        lambda r: None,
        "",
        why_not=(
            "prompts of 3500 and 12 000 tokens: longer than the shipped model reads, and too slow for two cores; speeds"
            " by token counts on a GPU: make evidence-gpu"
        ),
    ),
    Row(
        PROMPTING,
        "end-to-end latency",
        "up to 4 times shorter than competitive baselines (Llama 3 8B)",
        _prompts,
        "model, machine and sizes",
        "prompts",
    ),
    Row(
        PROMPTING,
        "P × B at fixed N: parallelism against batch size",
        "throughput peaks at a P between 1 and N that depends on the machine",
        _best_p,
        "model, machine and N",
        "prompts",
    ),
    Row(PROMPTING, "memory", "one copy of the context for P questions", _memory, "", "prompts"),
    Row(
        PROMPTING,
        "longer outputs",
        "the relative advantage falls as outputs grow",
        lambda r: _both(_advantage(r, "lengths", 0), _advantage(r, "lengths", -1)),
        "",
        "lengths",
    ),
    Row(PROMPTING, "quality", "no loss", lambda r: r.fact("answers", "identical"), "", "answers"),
    Row(
        HPD,
        "speed of decoding values at once",
        "up to 13.8 times less cost and time; up to 96 tokens at a time",
        lambda r: _both(
            _against(r, "values", "skeleton", ["sequential"], "documents/s"),
            _against(r, "values", "skeleton, stacked", ["sequential"], "documents/s"),
            r.fact("extraction", "speed-up") and f"on real pages {r.fact('extraction', 'speed-up')}",
        ),
        "model and machine: two cores compute what a GPU leaves idle, so many values at once gain little here",
        "values",
    ),
    Row(
        HPD,
        "quality of values written at once",
        "no loss against sequential decoding",
        lambda r: _both(
            *(
                r.fact("extraction", m) and f"{m}: {r.fact('extraction', m)}"
                for m in ("skeleton", "isolated", "sequential")
            )
        ),
        "generated pages, the shipped model",
        "extraction",
    ),
    Row(
        HPD,
        "rival: speculative decoding",
        "a rival of theirs, with a draft model",
        lambda r: _both(
            *(
                r.fact("drafts", k) and f"{k}: {r.fact('drafts', k)}"
                for k in ("the template known", "prompt lookup", "a draft model")
            )
        ),
        "greedy, exact; the draft model is a part of the model's layers, not a trained one",
        "drafts",
    ),
    Row(
        PCED,
        "time to the first token",
        "up to 180 times shorter than one long prompt (documents' keys computed before)",
        lambda r: _gain(r, "experts", "experts, documents in memory", "one prompt", FIRST),
        "model, machine, and fewer and shorter documents",
        "experts",
    ),
    Row(
        PCED,
        "time in all",
        "1.7 times shorter with 512 new tokens",
        lambda r: _gain(r, "experts", "experts, documents in memory", "one prompt", SECONDS),
        "as above, few new tokens",
        "experts",
    ),
    Row(
        PCED,
        "quality against one prompt and the best document",
        "as good as, or better than, all documents in one prompt",
        lambda r: _both(*(f"{k}: {v}" for k, v in (r.tables["rag"].facts if "rag" in r.tables else {}).items())),
        "generated questions; Banyan's default rule is not the paper's (docs/methods.md)",
        "rag",
    ),
    Row(
        PCED,
        "β, γ, the rule and the number of experts",
        "their choices: β measured, γ = 2.5, maximum over experts",
        lambda r: _both(
            *(
                r.fact("rag_parameters", k) and f"{k}: {r.fact('rag_parameters', k)}"
                for k in ("β", "γ", "rule", "scores", "experts")
            )
        ),
        "generated questions, BM25 relevance, the shipped model; sub-span match",
        "rag_parameters",
    ),
]
