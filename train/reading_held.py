"""Held-out kinds of texts: prompts, greedy answers with their certainty, scores by kind. For early stopping and for
calibration."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass
from types import SimpleNamespace

import torch

from eval.metrics import exact_match, token_f1
from train.decode import Streams
from train.encode import prompt_ids, question_ids
from train.model import Decoder, matrix_shapes, norm_shapes
from train.reading_texts import NULL, TextRow
from train.sample import DEFAULT_INSTRUCTION
from train.tokenizer import Tokenizer

LONGEST_PROMPT = 1400  # tokens
LONGEST_ANSWER = 28
JOINED = 6


@dataclass
class HeldQuestion:
    kind: str
    golds: list[str]  # empty: the text does not say
    prompt: list[int]
    text: str
    question: str


def held_questions(tok: Tokenizer, rows: list[TextRow], each: int, seed: int = 1) -> list[HeldQuestion]:
    """Of every kind up to `each` questions with an answer and `each` without; those that rules made are left out. Kind
    `joined`: the text among five others."""
    rng = random.Random(f"held {seed}")
    pairs: dict[tuple[str, bool], list[tuple[str, str, list[str]]]] = defaultdict(list)
    held = [r for r in rows if r.split == "held" and r.text]
    articles: dict[str, list[TextRow]] = defaultdict(list)
    for row in held:
        articles[row.article].append(row)
        for question, answer, weight, golds in row.asked:
            if weight >= 0.9:
                pairs[row.source, answer == NULL].append((row.text, question, golds))
    for near in articles.values():
        if len(near) > JOINED and near[0].source in ("squad_train", "squadshifts_new_wiki"):
            for row in near:
                texts = [row, *rng.sample([r for r in near if r is not row], JOINED - 1)]
                rng.shuffle(texts)
                known = [(q, g) for q, a, w, g in row.asked if a != NULL]
                if known:
                    question, golds = rng.choice(known)
                    pairs["joined", False].append(("\n\n".join(t.text for t in texts), question, golds))
                    without = "\n\n".join(t.text for t in texts if t is not row)
                    if not any(g.lower() in without.lower() for g in golds):
                        pairs["joined", True].append((without, question, []))
    out = []
    head = prompt_ids(tok, DEFAULT_INSTRUCTION)
    for (kind, _), found in sorted(pairs.items()):
        rng.shuffle(found)
        kept = 0
        for text, question, golds in found:
            if kept == each:
                break
            prompt = head + tok.encode(text) + question_ids(tok, "\n\nQuestion: " + question)
            if len(prompt) <= LONGEST_PROMPT:
                kept += 1
                out.append(HeldQuestion(kind, golds, prompt, text, question))
    return out


def as_it_runs(model: Decoder) -> SimpleNamespace:
    """The weights as the exported model has them: merged or rounded."""
    with torch.no_grad():
        stacks = {n: model.matrix(n).detach() for n in matrix_shapes(model.c)}
        return SimpleNamespace(
            c=model.c,
            cos=model.cos,
            sin=model.sin,
            embedding=model.matrix("embedding").detach(),
            final_norm=model.final_norm.detach(),
            **stacks,
            **{n: getattr(model, n).detach() for n in norm_shapes(model.c) if n != "final_norm"},
        )


@torch.no_grad()
def read(model: Decoder, tok: Tokenizer, asked: list[HeldQuestion], dtype: torch.dtype, batch: int = 256) -> list[dict]:
    """Greedy answers, a row for each question: `answer`, `logprob` (sum with its end), `tokens`, `null_logprob` (of the
    first token of `null`), `other_logprob` (of the best other first token), `exact`, `f1`."""
    weights, null, stop = as_it_runs(model), tok.encode(NULL)[0], tok.im_end
    order = sorted(range(len(asked)), key=lambda n: len(asked[n].prompt))
    out: list[dict] = [{}] * len(asked)
    for first in range(0, len(order), batch):
        part = order[first : first + batch]
        prompts = [asked[n].prompt for n in part]
        width = max(map(len, prompts))
        width += -width % 8
        streams = Streams(weights, len(part), width + LONGEST_ANSWER, dtype)
        pad = torch.tensor([width - len(p) for p in prompts], device=streams.device)
        logits = streams.feed(
            torch.tensor([[stop] * (width - len(p)) + p for p in prompts], device=streams.device), pad, 0
        )
        first_scores = logits.log_softmax(-1)
        null_score = first_scores[:, null].tolist()
        first_scores[:, null] = float("-inf")
        other_score = first_scores.amax(-1).tolist()
        del first_scores
        total = torch.zeros(len(part), device=streams.device)
        done = torch.zeros(len(part), dtype=torch.bool, device=streams.device)
        made = []
        for step in range(LONGEST_ANSWER):
            token = logits.argmax(-1)
            total += torch.where(done, 0.0, logits.gather(1, token[:, None]).squeeze(1) - logits.logsumexp(-1))
            token = torch.where(done, stop, token)
            made.append(token)
            done = done | (token == stop)
            if step + 1 == LONGEST_ANSWER or (step % 4 == 3 and bool(done.all())):
                break
            logits = streams.feed(token[:, None], pad, width + step)
        for n, row, score, unsaid, said in zip(
            part, torch.stack(made, 1).tolist(), total.tolist(), null_score, other_score
        ):
            ids = row[: row.index(stop)] if stop in row else row
            answer = tok.decode(ids).strip()
            out[n] = dict(
                kind=asked[n].kind,
                answer=answer,
                logprob=round(score, 4),
                tokens=len(ids) + 1,
                null_logprob=round(unsaid, 4),
                other_logprob=round(said, 4),
                is_null=answer == NULL,
                answerable=bool(asked[n].golds),
                exact=exact_match(answer, asked[n].golds),
                f1=round(token_f1(answer, asked[n].golds), 4),
            )
        del streams
    return out


def scores(read_rows: list[dict]) -> dict[str, dict]:
    """By kind: exact match, F1, F1 where there is an answer, the share of `null` where there is none, and of `null`
    where there is an answer."""
    kinds: dict[str, list[dict]] = defaultdict(list)
    for r in read_rows:
        kinds[r["kind"]].append(r)
    mean = lambda values: round(sum(values) / len(values), 4) if values else None
    return {
        k: dict(
            questions=len(v),
            exact=mean([r["exact"] for r in v]),
            f1=mean([r["f1"] for r in v]),
            answerable_f1=mean([r["f1"] for r in v if r["answerable"]]),
            null=mean([float(r["is_null"]) for r in v if not r["answerable"]]),
            denied=mean([float(r["is_null"]) for r in v if r["answerable"]]),
        )
        for k, v in sorted(kinds.items())
    }


def overall(by_kind: dict[str, dict]) -> float:
    """What early stopping looks at: the mean over kinds of the mean of F1 with and without an answer."""
    parts = [[s for s in (k["answerable_f1"], k["null"]) if s is not None] for k in by_kind.values()]
    return round(sum(sum(p) / len(p) for p in parts) / len(parts), 4)
