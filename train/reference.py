"""The slow reference: the forward pass in numpy with positions and visibility as plain data, and the decoders of
methods sections 5 (skeleton) and 6 (experts) on top of it, written to be read. Checked against outside oracles where
those exist.

Reads our own GGUF files and Hugging Face directories of the Llama, Qwen2, Qwen3 and Mistral families with plain RoPE.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable

import numpy as np

from train import safetensors
from train.base_model import rows_by_halves
from train.gguf import read_gguf

Array = np.ndarray
_GGUF_NAMES = {
    "attn_norm": "input_layernorm.weight",
    "attn_q": "self_attn.q_proj.weight",
    "attn_k": "self_attn.k_proj.weight",
    "attn_v": "self_attn.v_proj.weight",
    "attn_q_norm": "self_attn.q_norm.weight",
    "attn_k_norm": "self_attn.k_norm.weight",
    "attn_output": "self_attn.o_proj.weight",
    "ffn_norm": "post_attention_layernorm.weight",
    "ffn_gate": "mlp.gate_proj.weight",
    "ffn_up": "mlp.up_proj.weight",
    "ffn_down": "mlp.down_proj.weight",
}


@dataclass
class Memory:
    """Keys and values of everything fed so far, [n, kv_heads, head_dim] per layer, and each one's position."""

    keys: list[Array]
    values: list[Array]
    pos: Array = field(default_factory=lambda: np.zeros(0, np.int64))

    def copy(self) -> "Memory":
        return Memory(list(self.keys), list(self.values), self.pos)


@dataclass
class Network:
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    eps: float
    theta: float
    weights: dict[str, Array]  # Hugging Face names

    def empty(self) -> Memory:
        nothing = np.zeros((0, self.kv_heads, self.head_dim), np.float32)
        return Memory([nothing] * self.layers, [nothing] * self.layers)

    def feed(self, memory: Memory, ids: list[int], pos: list[int], unseen: Array | None = None) -> Array:
        """Appends tokens to the memory; returns logits [len(ids), vocabulary].
        A query sees a key iff pos(key) <= pos(query) and the key is in the memory or fed in this call; with `unseen`,
        [len(ids), keys], iff it is False there."""
        w, new_pos = self.weights, np.array(pos, np.int64)
        memory.pos = np.concatenate([memory.pos, new_pos])
        hidden_from = memory.pos[None, :] > new_pos[:, None] if unseen is None else unseen
        half = self.head_dim // 2
        angle = new_pos[:, None] * self.theta ** (-np.arange(half) / half)[None]
        cos, sin = np.cos(angle).astype(np.float32)[:, None], np.sin(angle).astype(np.float32)[:, None]

        def rotate(x: Array) -> Array:
            a, b = x[..., :half], x[..., half:]
            return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)

        def norm(x: Array, name: str) -> Array:
            return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.eps) * w[name]

        def linear(x: Array, name: str) -> Array:
            y = x @ w[name + ".weight"].T
            return y + w[name + ".bias"] if name + ".bias" in w else y

        x, n = w["model.embed_tokens.weight"][ids], len(ids)
        for i in range(self.layers):
            at = f"model.layers.{i}."
            h = norm(x, at + "input_layernorm.weight")
            q = linear(h, at + "self_attn.q_proj").reshape(n, self.heads, -1)
            k = linear(h, at + "self_attn.k_proj").reshape(n, self.kv_heads, -1)
            v = linear(h, at + "self_attn.v_proj").reshape(n, self.kv_heads, -1)
            if at + "self_attn.q_norm.weight" in w:
                q, k = norm(q, at + "self_attn.q_norm.weight"), norm(k, at + "self_attn.k_norm.weight")
            memory.keys[i] = np.concatenate([memory.keys[i], rotate(k)])
            memory.values[i] = np.concatenate([memory.values[i], v])
            group = self.heads // self.kv_heads
            mixed = np.empty((n, self.heads, self.head_dim), np.float32)
            q = rotate(q) / np.float32(np.sqrt(self.head_dim))
            for head in range(self.heads):
                score = q[:, head] @ memory.keys[i][:, head // group].T
                score[hidden_from] = -np.inf
                score = np.exp(score - score.max(-1, keepdims=True))
                mixed[:, head] = (score / score.sum(-1, keepdims=True)) @ memory.values[i][:, head // group]
            x = x + linear(mixed.reshape(n, -1), at + "self_attn.o_proj")
            h = norm(x, at + "post_attention_layernorm.weight")
            gate = linear(h, at + "mlp.gate_proj")
            x = x + linear(gate / (1 + np.exp(-gate)) * linear(h, at + "mlp.up_proj"), at + "mlp.down_proj")
        return norm(x, "model.norm.weight") @ w.get("lm_head.weight", w["model.embed_tokens.weight"]).T


def load_gguf(path: Path) -> Network:
    meta, tensors = read_gguf(path)
    weights = {
        "model.embed_tokens.weight": tensors["token_embd.weight"],
        "model.norm.weight": tensors["output_norm.weight"],
    }
    arch = meta["general.architecture"]
    get = lambda key: meta[f"{arch}.{key}"]
    for i in range(get("block_count")):
        for name, hf in _GGUF_NAMES.items():
            if (x := tensors.get(f"blk.{i}.{name}.weight")) is not None:
                pairs = arch == "llama" and name in ("attn_q", "attn_k")
                weights[f"model.layers.{i}.{hf}"] = rows_by_halves(x, get("attention.key_length")) if pairs else x
    return Network(
        get("block_count"),
        get("attention.head_count"),
        get("attention.head_count_kv"),
        get("attention.key_length"),
        get("attention.layer_norm_rms_epsilon"),
        get("rope.freq_base"),
        weights,
    )


def load_hf(folder: Path) -> Network:
    c = json.loads((folder / "config.json").read_text())
    rope = c.get("rope_parameters") or {}
    plain = {None, "default"}
    if (
        c["model_type"] not in ("llama", "qwen2", "qwen3", "mistral")
        or rope.get("rope_type") not in plain
        or (c.get("rope_scaling") or {}).get("rope_type") not in plain
    ):
        raise ValueError(f"{folder}: the reference does not know this family or RoPE variant")
    heads = c["num_attention_heads"]
    return Network(
        c["num_hidden_layers"],
        heads,
        c["num_key_value_heads"],
        c.get("head_dim") or c["hidden_size"] // heads,
        c["rms_norm_eps"],
        c.get("rope_theta") or rope["rope_theta"],
        safetensors.read(folder / "model.safetensors"),
    )


def greedy(net: Network, ids: list[int], max_new: int, stop: set[int]) -> list[int]:
    """The stop token is included."""
    memory, out = net.empty(), []
    logits = net.feed(memory, ids, list(range(len(ids))))[-1]
    for _ in range(max_new):
        out.append(int(logits.argmax()))
        if out[-1] in stop:
            break
        logits = net.feed(memory, [out[-1]], [len(ids) + len(out) - 1])[-1]
    return out


def skeleton(
    net: Network,
    prompt: list[int],
    chunks: list[list[int]],
    budget: list[int],
    ends: Callable[[list[int]], bool],
    isolated: bool = False,
) -> list[list[int]]:
    """Methods section 5: all values of a prompt, one token each per step.

    `ends(tokens)`: does the value end with its last token? That token is dropped and not fed. `isolated`: values see no
    other value, which is each slot decoded from a memory of its own."""
    memory, ids, pos, cursor, last = net.empty(), list(prompt), list(range(len(prompt))), len(prompt), []
    for chunk, k in zip(chunks, budget):
        ids += chunk
        pos += range(cursor, cursor + len(chunk))
        cursor += len(chunk)
        last.append((len(ids) - 1, cursor - 1))  # (row, position) of end(a_n)
        cursor += k
    logits = net.feed(memory, ids, pos)
    memories = [memory.copy() if isolated else memory for _ in chunks]
    rows = {n: logits[row] for n, (row, _) in enumerate(last)}
    values: list[list[int]] = [[] for _ in chunks]
    for step in range(1, max(budget) + 1):
        feed: list[int] = []
        for n, row in rows.items():
            values[n].append(int(row.argmax()))
            if ends(values[n]):
                values[n].pop()
            elif len(values[n]) < budget[n]:
                feed.append(n)
        if not feed:
            break
        tokens, places = [values[n][-1] for n in feed], [last[n][1] + step for n in feed]
        if isolated:
            rows = {n: net.feed(memories[n], [t], [p])[0] for n, t, p in zip(feed, tokens, places)}
        else:
            rows = dict(zip(feed, net.feed(memory, tokens, places)))
    return values


def _softmax(x: Array) -> Array:
    e = np.exp(x.astype(np.float64) - x.max())
    return e / e.sum()


def js_divergence_bits(p: Array, q: Array) -> float:
    m = (p + q) / 2
    kl = lambda a: float((a[a > 0] * np.log2(a[a > 0] / m[a > 0])).sum())
    return (kl(p) + kl(q)) / 2


def experts(
    net: Network,
    system: list[int],
    documents: list[list[int]],
    question: list[int],
    relevance: list[float],
    gamma: float,
    max_new: int,
    stop: set[int],
) -> tuple[list[int], list[int], list[float]]:
    """Methods section 6 with the max rule and each expert's own beta: (tokens, winning expert per token, betas)."""
    streams = []
    for path in [system + question] + [system + d + question for d in documents]:
        memory = net.empty()
        streams.append([memory, len(path), net.feed(memory, path, list(range(len(path))))[-1]])
    prior = _softmax(streams[0][2])
    betas = [js_divergence_bits(_softmax(s[2]), prior) for s in streams[1:]]
    tokens, winners = [], []
    for _ in range(max_new):
        scores = np.stack(
            [(1 + b) * s[2] - b * streams[0][2] + gamma * np.log(r) for b, s, r in zip(betas, streams[1:], relevance)]
        )
        token = int(scores.max(0).argmax())
        tokens.append(token)
        winners.append(int(scores[:, token].argmax()))
        if token in stop:
            break
        for s in streams:
            s[2] = net.feed(s[0], [token], [s[1]])[-1]
            s[1] += 1
    return tokens, winners, betas
