"""The decoding methods of docs/methods.md in plain PyTorch, as slow and as obvious as possible.

Every token costs a full forward pass over its whole prompt; nothing is cached, batched or shared. Networks are those of
Hugging Face Transformers in float32 with eager attention. Each method returns its result and the smallest margin by
which a choice was made: results with a small margin would depend on the order of additions, so make.py draws others.
"""
import math

import torch

EPSILON = 1e-8  # relevance stays in [EPSILON, 1 - EPSILON]


@torch.no_grad()
def last_logits(model, ids):
    """Logits [vocabulary] after the last token of a prompt."""
    return model(input_ids=torch.tensor([ids]), use_cache=False).logits[0, -1]


@torch.no_grad()
def masked_logits(model, ids, positions, sees):
    """Logits [tokens, vocabulary] of tokens at any positions, where token q attends to token k iff sees(q, k).

    Sliding windows count positions, not tokens.
    """
    config = model.config

    def mask(window):
        values = torch.full((len(ids), len(ids)), torch.finfo(torch.float32).min)
        for q in range(len(ids)):
            for k in range(len(ids)):
                if sees(q, k) and (not window or positions[q] - positions[k] < window):
                    values[q, k] = 0.0
        return values[None, None]

    window = getattr(config, "sliding_window", None)
    if getattr(config, "layer_types", None):  # these networks take one mask for each kind of layer
        masks = {"full_attention": mask(None), "sliding_attention": mask(window)}
    else:
        masks = mask(window)
    return model(input_ids=torch.tensor([ids]), position_ids=torch.tensor([positions]), attention_mask=masks,
                 use_cache=False).logits[0]


def best(scores):
    """Index of the largest score, and how much larger it is than the second."""
    top = torch.topk(scores, 2)
    return int(top.indices[0]), float(top.values[0] - top.values[1])


def greedy(model, prompt, max_new, stop=None):
    """The likeliest token, again and again. `stop` ends the answer and is its last token."""
    answer, margin = [], math.inf
    while len(answer) < max_new and (not answer or answer[-1] != stop):
        token, gap = best(last_logits(model, prompt + answer))
        answer.append(token)
        margin = min(margin, gap)
    return answer, margin


def skeleton(model, prompt, pieces, budgets, stop):
    """Method 4: all values of a template advance together, with gaps of `budgets` positions behind the pieces.

    Values come back without the stop token.
    """
    # Tokens as (id, position, value, step): value None is the prompt or the template.
    shared = [(token, at, None, 0) for at, token in enumerate(prompt)]
    ends, position = [], len(prompt)
    for piece, budget in zip(pieces, budgets):
        for token in piece:
            shared.append((token, position, None, 0))
            position += 1
        ends.append(len(shared) - 1)
        position += budget

    def run(tokens):
        def sees(q, k):
            _, q_position, q_value, q_step = tokens[q]
            _, k_position, k_value, k_step = tokens[k]
            if k_value is None:
                return k_position <= q_position
            return q_value is not None and k_value <= q_value and k_step <= q_step
        return masked_logits(model, [t[0] for t in tokens], [t[1] for t in tokens], sees)

    values, margin = [[] for _ in pieces], math.inf
    fed = []  # tokens of values that were fed back
    asked = dict(enumerate(ends))  # live value -> row whose logits give its next token
    step = 0
    while asked:
        step += 1
        logits = run(shared + fed)
        live = []
        for n, row in asked.items():
            token, gap = best(logits[row])
            margin = min(margin, gap)
            if token == stop:
                continue
            values[n].append(token)
            if len(values[n]) < budgets[n]:
                live.append(n)
        asked = {}
        for n in live:
            asked[n] = len(shared) + len(fed)
            fed.append((values[n][-1], shared[ends[n]][1] + step, n, step))
    return values, margin


def relevance(cosine, reranker_logit):
    """Method 5: the harmonic mean of a retriever's and a reranker's relevance."""
    clip = lambda value: min(max(value, EPSILON), 1.0 - EPSILON)
    first, second = clip((cosine + 1.0) / 2.0), clip(1.0 / (1.0 + math.exp(-reranker_logit)))
    return 2.0 * first * second / (first + second + EPSILON)


def divergence(scores, prior):
    """Jensen-Shannon divergence of two softmaxes, in bits."""
    p, q = torch.softmax(scores, 0), torch.softmax(prior, 0)
    middle = (p + q) / 2
    return float(sum((x * torch.log2(x / middle)).nansum() for x in (p, q)) / 2)


def experts(model, system, documents, question, r, *, gamma, max_new, stop, rule="max", beta="expert"):
    """Method 5 on raw logits. `rule`: max, mixture or product; `beta`: expert, shared or a number."""
    tokens, winners, betas, margin = [], [], None, math.inf
    while len(tokens) < max_new and (not tokens or tokens[-1] != stop):
        prior = last_logits(model, system + question + tokens).double()
        scores = [last_logits(model, system + document + question + tokens).double() for document in documents]
        if betas is None:
            betas = [divergence(s, prior) for s in scores]
            if beta == "shared":
                betas = [sum(betas) / len(betas)] * len(betas)
            elif beta != "expert":
                betas = [beta] * len(betas)
        contrast = torch.stack([(1 + b) * s - b * prior for b, s in zip(betas, scores)])
        relevances = torch.tensor(r, dtype=torch.float64)
        if rule == "max":
            credit = contrast + gamma * torch.log(relevances)[:, None]
            fused = credit.max(0).values
        else:
            logs = torch.log_softmax(contrast, 1)
            weights = (relevances ** gamma / (relevances ** gamma).sum())[:, None]
            credit = torch.log(weights) + logs  # the order of w_k p_k(v)
            fused = torch.logsumexp(credit, 0) if rule == "mixture" else (weights * logs).sum(0)
        token, gap = best(fused)
        winner, lead = best(credit[:, token])
        tokens.append(token)
        winners.append(winner)
        margin = min(margin, gap, lead)
    return {"tokens": tokens, "expert": winners, "betas": betas}, margin
