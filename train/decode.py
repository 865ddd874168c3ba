"""Many answers at once from the network in PyTorch: prompts of any length, padded on the left, keys and values kept.
For writing training texts on a GPU; the engine itself is not needed there.
"""

from __future__ import annotations

import time

import torch
import torch.nn.functional as F
from torch import Tensor

from train.model import Decoder, matrix_shapes, norm_shapes, rms_norm, rotate


class Streams:
    """`count` sequences of at most `length` tokens, padding included; one token of each a step."""

    def __init__(self, model: Decoder, count: int, length: int, dtype: torch.dtype) -> None:
        c = model.c
        self.model, self.c, self.dtype, self.device = model, c, dtype, model.embedding.device
        names = [n for n in (*matrix_shapes(c), *norm_shapes(c)) if n != "final_norm"]
        rounded = lambda n, x: x.detach().to(dtype) if n in matrix_shapes(c) else x.detach()
        self.layers = [{n: rounded(n, getattr(model, n)[i]) for n in names} for i in range(c.layers)]
        self.embedding = model.embedding.detach().to(dtype)
        shape = (c.layers, count, c.kv_heads, length, c.head_dim)
        self.keys, self.values = torch.zeros(shape, dtype=dtype, device=self.device), torch.zeros(
            shape, dtype=dtype, device=self.device
        )

    def feed(self, ids: Tensor, pad: Tensor, at: int) -> Tensor:
        """ids [count, n] stand at columns [at, at + n); `pad` [count] columns come before a sequence. Returns the
        logits of the last column, float32."""
        c, (count, n) = self.c, ids.shape
        columns = torch.arange(at, at + n, device=self.device)
        pos = (columns[None] - pad[:, None]).clamp_min(0)
        cos, sin = self.model.cos[pos][:, :, None], self.model.sin[pos][:, :, None]
        keys = torch.arange(at + n, device=self.device)
        seen = (keys[None, None] <= columns[None, :, None]) & (
            (keys[None, None] >= pad[:, None, None]) | (keys[None, None] == columns[None, :, None])
        )
        bias = torch.zeros(seen.shape, dtype=self.dtype, device=self.device)
        bias = bias.masked_fill_(~seen, float("-inf"))[:, None]  # [count, 1, n, keys]
        x = F.embedding(ids, self.embedding)
        group = c.heads // c.kv_heads
        for i, w in enumerate(self.layers):
            h = rms_norm(x, w["attn_norm"], c.eps)
            q, k, v = (F.linear(h, w[m]).view(count, n, -1, c.head_dim) for m in ("q", "k", "v"))
            q, k = rotate(q, cos, sin).transpose(1, 2), rotate(k, cos, sin).transpose(1, 2)
            self.keys[i, :, :, at : at + n], self.values[i, :, :, at : at + n] = k, v.transpose(1, 2)
            k, v = self.keys[i, :, :, : at + n], self.values[i, :, :, : at + n]
            if n == 1:  # a group of heads reads its keys once
                score = (q.reshape(count, c.kv_heads, group, c.head_dim) @ k.mT) * c.head_dim**-0.5 + bias
                y = (score.float().softmax(-1).to(self.dtype) @ v).reshape(count, c.heads, 1, c.head_dim)
            else:
                y = F.scaled_dot_product_attention(
                    q, k.repeat_interleave(group, 1), v.repeat_interleave(group, 1), attn_mask=bias
                )
            x = x + F.linear(y.transpose(1, 2).reshape(count, n, -1), w["o"])
            h = rms_norm(x, w["ffn_norm"], c.eps)
            x = x + F.linear(F.silu(F.linear(h, w["gate"])) * F.linear(h, w["up"]), w["down"])
        return F.linear(rms_norm(x[:, -1], self.model.final_norm, c.eps), self.embedding).float()


@torch.no_grad()
def complete(
    model: Decoder,
    prompts: list[list[int]],
    max_new: int,
    stop: int,
    dtype: torch.dtype,
    temperature: float = 0.0,
    best: int = 40,
    batch: int = 1024,
    deadline: float = float("inf"),
) -> list[tuple[list[int], float]]:
    """For each prompt its continuation without the stop token, and the sum of the log-probabilities of all its tokens,
    the stop included. `temperature` 0: greedy; else drawn among the `best` tokens. Prompts of similar length should be
    neighbours. Ends early at `deadline`.
    """
    out: list[tuple[list[int], float]] = []
    for first in range(0, len(prompts), batch):
        if time.time() > deadline:
            break
        part = prompts[first : first + batch]
        width = max(map(len, part))
        width += -width % 8
        streams = Streams(model, len(part), width + max_new, dtype)
        ids = torch.tensor([[stop] * (width - len(p)) + p for p in part], device=streams.device)
        pad = torch.tensor([width - len(p) for p in part], device=streams.device)
        logits = streams.feed(ids, pad, 0)
        made, total = [], torch.zeros(len(part), device=streams.device)
        done = torch.zeros(len(part), dtype=torch.bool, device=streams.device)
        for step in range(max_new):
            if temperature:
                top = torch.topk(logits, best, dim=-1)
                pick = torch.multinomial((top.values / temperature).softmax(-1), 1)
                token = top.indices.gather(1, pick).squeeze(1)
            else:
                token = logits.argmax(-1)
            total += torch.where(done, 0.0, logits.gather(1, token[:, None]).squeeze(1) - logits.logsumexp(-1))
            token = torch.where(done, stop, token)
            made.append(token)
            done = done | (token == stop)
            if step + 1 == max_new or (step % 8 == 7 and bool(done.all())):
                break
            logits = streams.feed(token[:, None], pad, width + step)
        for row, score in zip(torch.stack(made, 1).tolist(), total.tolist()):
            out.append((row[: row.index(stop)] if stop in row else row, score))
        del streams
    return out
