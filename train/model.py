"""The network in PyTorch: a Llama-style decoder, and visibility by (doc, branch, step) instead of a causal
mask.

Matrices of all layers are stacked in one parameter each, [layers, out, in], because the optimiser works on whole
stacks. On a GPU attention runs through FlexAttention with a block mask, elsewhere through a dense mask.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

BLOCK = 128  # FlexAttention skips tiles of this size that hold no visible pair


@dataclass(frozen=True)
class Config:
    vocab: int = 4096
    dim: int = 384
    layers: int = 8
    heads: int = 8
    kv_heads: int = 4
    head_dim: int = 64
    hidden: int = 896
    rope_theta: float = 100_000.0
    eps: float = 1e-6
    context: int = 4096

    def as_dict(self) -> dict:
        return asdict(self)


def matrix_shapes(c: Config) -> dict[str, tuple[int, int, int]]:
    return {
        "q": (c.layers, c.heads * c.head_dim, c.dim),
        "k": (c.layers, c.kv_heads * c.head_dim, c.dim),
        "v": (c.layers, c.kv_heads * c.head_dim, c.dim),
        "o": (c.layers, c.dim, c.heads * c.head_dim),
        "gate": (c.layers, c.hidden, c.dim),
        "up": (c.layers, c.hidden, c.dim),
        "down": (c.layers, c.dim, c.hidden),
    }


def norm_shapes(c: Config) -> dict[str, tuple[int, ...]]:
    return {"attn_norm": (c.layers, c.dim), "ffn_norm": (c.layers, c.dim), "final_norm": (c.dim,)}


def visible(
    doc_q: Tensor, doc_k: Tensor, branch_q: Tensor, branch_k: Tensor, step_q: Tensor, step_k: Tensor, causal: Tensor
) -> Tensor:
    """The rule of `train.encode`, on anything that broadcasts."""
    return causal & (doc_q == doc_k) & ((branch_k == 0) | (branch_k == branch_q)) & (step_k <= step_q)


def dense_mask(doc: Tensor, branch: Tensor, step: Tensor) -> Tensor:
    """[rows, 1, T, T], True where visible."""
    index = torch.arange(doc.shape[1], device=doc.device)
    causal = index[:, None] >= index[None, :]
    pair = lambda t: (t[:, :, None], t[:, None, :])
    return visible(*pair(doc), *pair(branch), *pair(step), causal)[:, None]


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    y = x.float()
    return (y * torch.rsqrt(y.square().mean(-1, keepdim=True) + eps) * weight.float()).to(x.dtype)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """x [rows, T, heads, head_dim]; cos, sin [rows, T, 1, head_dim / 2]; halves are paired, as in Transformers."""
    a, b = x.float().chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1).to(x.dtype)


def block(x: Tensor, w: dict[str, Tensor], cos: Tensor, sin: Tensor, mask, c: Config, attend) -> Tensor:
    """One layer. x [rows, T, dim]."""
    rows, length, _ = x.shape
    h = rms_norm(x, w["attn_norm"], c.eps)
    qkv = F.linear(h, torch.cat((w["q"], w["k"], w["v"])).to(h.dtype))
    q, k, v = qkv.split((c.heads * c.head_dim, c.kv_heads * c.head_dim, c.kv_heads * c.head_dim), dim=-1)
    q, k, v = (t.view(rows, length, -1, c.head_dim) for t in (q, k, v))
    q, k = rotate(q, cos, sin), rotate(k, cos, sin)
    y = attend(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), mask)
    x = x + F.linear(y.transpose(1, 2).reshape(rows, length, -1), w["o"].to(x.dtype))
    h = rms_norm(x, w["ffn_norm"], c.eps)
    gate, up = F.linear(h, torch.cat((w["gate"], w["up"])).to(h.dtype)).chunk(2, dim=-1)
    return x + F.linear(F.silu(gate) * up, w["down"].to(x.dtype))


def dense_attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)


def wide_attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """As `dense_attend`; kernels that keep no scores want as many keys as queries."""
    group = q.shape[1] // k.shape[1]
    return F.scaled_dot_product_attention(
        q, k.repeat_interleave(group, 1), v.repeat_interleave(group, 1), attn_mask=mask
    )


def fake_quantize(x: Tensor) -> Tensor:
    """The values that x [..., columns] has after Q4_0 (`train.gguf.quantize_q4_0`, the same rounding); the gradient
    passes unchanged."""
    blocks = x.detach().float().unflatten(-1, (-1, 32))
    largest = blocks.gather(-1, blocks.abs().argmax(-1, keepdim=True))
    scale = (largest / -8).half().float()
    codes = torch.where(scale != 0, blocks / torch.where(scale != 0, scale, 1.0), 0.0).round().clamp(-8, 7)
    return x + ((codes * scale).flatten(-2) - x.detach())


def weighted_loss(h: Tensor, embedding: Tensor, label: Tensor, weight: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
    """h [n, dim] → (weighted mean cross entropy + z-loss, the same without z-loss).

    The z-loss keeps log-sum-exp near 0, so raw logits are log-probabilities: expert decoding compares them across
    streams. `z` is its weight on answers; on the text, which weighs little, it counts that much less."""
    logits = F.linear(h, embedding.to(h.dtype)).float()
    lse = torch.logsumexp(logits, dim=-1)
    nll = lse - logits.gather(1, label[:, None]).squeeze(1)
    total = weight.sum().clamp_min(1e-6)
    plain = (weight * nll).sum() / total
    return plain + z * (weight * lse.square()).sum() / total, plain.detach()


class Decoder(nn.Module):
    def __init__(self, c: Config, seed: int = 0) -> None:
        super().__init__()
        self.c = c
        g = torch.Generator().manual_seed(seed)
        self.embedding = nn.Parameter(torch.randn(c.vocab, c.dim, generator=g) * 0.02)
        for name, shape in matrix_shapes(c).items():
            scale = 0.0 if name in ("o", "down") else 0.5 / shape[-1] ** 0.5  # residual branches start at zero
            self.register_parameter(name, nn.Parameter(torch.randn(*shape, generator=g) * scale))
        for name, shape in norm_shapes(c).items():
            self.register_parameter(name, nn.Parameter(torch.ones(*shape)))
        half = c.head_dim // 2
        angle = torch.arange(c.context)[:, None].double() * c.rope_theta ** (-torch.arange(half).double() / half)[None]
        self.register_buffer("cos", angle.cos().float(), persistent=False)
        self.register_buffer("sin", angle.sin().float(), persistent=False)
        self.block, self.loss, self.attend, self.quantize = block, weighted_loss, dense_attend, fake_quantize
        self.quantized, self.z = False, 1e-4  # train against Q4_0 matrices; weight of the z-loss

    def use_flex(self, compiled: bool = True) -> None:
        """FlexAttention and compiled layers; one compilation serves all layers. Without `compiled` attention alone
        is."""
        from torch.nn.attention.flex_attention import flex_attention

        flex_attention = flex_attention if compiled else torch.compile(flex_attention, dynamic=False)
        group = self.c.heads // self.c.kv_heads
        if group & (group - 1):  # groups that are no power of two are not supported everywhere
            self.attend = lambda q, k, v, mask: flex_attention(
                q, k.repeat_interleave(group, 1), v.repeat_interleave(group, 1), block_mask=mask
            )
        else:
            self.attend = lambda q, k, v, mask: flex_attention(q, k, v, block_mask=mask, enable_gqa=True)
        for limit in (
            "recompile_limit",
            "cache_size_limit",
        ):  # every stack of matrices has a shape of its own; the name depends on the version
            if hasattr(torch._dynamo.config, limit):
                setattr(torch._dynamo.config, limit, 64)
        if compiled:
            self.block, self.loss, self.quantize = (
                torch.compile(f, dynamic=False) for f in (block, weighted_loss, fake_quantize)
            )

    def use_dense(self) -> None:
        """The way back from `use_flex`, for a device that cannot run it."""
        self.block, self.loss, self.attend, self.quantize = block, weighted_loss, wide_attend, fake_quantize

    def matrix(self, name: str) -> Tensor:
        """A parameter of two dimensions or more, as the exported file will have it."""
        return self.quantize(getattr(self, name)) if self.quantized else getattr(self, name)

    def hidden(self, ids: Tensor, pos: Tensor, mask, dtype: torch.dtype, embedding: Tensor | None = None) -> Tensor:
        """[rows, T, dim] after the last norm."""
        c = self.c
        embedding = self.matrix("embedding") if embedding is None else embedding
        x = F.embedding(ids, embedding).to(dtype)
        cos, sin = self.cos[pos][:, :, None], self.sin[pos][:, :, None]
        names = [n for n in (*matrix_shapes(c), *norm_shapes(c)) if n != "final_norm"]
        layers = zip(*((self.matrix(n) if n in matrix_shapes(c) else getattr(self, n)).unbind(0) for n in names))
        for tensors in layers:
            x = self.block(x, dict(zip(names, tensors)), cos, sin, mask, c, self.attend)
        return rms_norm(x, self.final_norm, c.eps)

    def forward(self, batch: dict[str, Tensor], mask, dtype: torch.dtype = torch.bfloat16) -> tuple[Tensor, Tensor]:
        embedding = self.matrix("embedding")
        h = self.hidden(batch["ids"], batch["pos"], mask, dtype, embedding)
        at = batch["at"]
        picked = h.gather(1, at[:, :, None].expand(-1, -1, h.shape[-1]))
        z = torch.full((), self.z, device=h.device)
        return self.loss(picked.flatten(0, 1), embedding, batch["label"].flatten(), batch["weight"].flatten(), z)


class FlexMask:
    """Builds FlexAttention's block mask for each batch. The buffers are reused, so the mask function never changes."""

    def __init__(self, rows: int, length: int, device: torch.device) -> None:
        doc, branch, step = (torch.zeros(rows, length, dtype=torch.int32, device=device) for _ in range(3))
        self.doc, self.branch, self.step = doc, branch, step

        def rule(b, h, q, k):
            return visible(doc[b, q], doc[b, k], branch[b, q], branch[b, k], step[b, q], step[b, k], q >= k)

        self.rule, self.length = rule, length
        tiles = lambda mask: mask.view(rows, length // BLOCK, BLOCK, length // BLOCK, BLOCK).sum(
            (2, 4), dtype=torch.int32
        )
        self.count = torch.compile(lambda d, b, s: tiles(dense_mask(d, b, s)), dynamic=False)

    def build(self, batch: dict[str, Tensor]):
        from torch.nn.attention.flex_attention import BlockMask

        for name in ("doc", "branch", "step"):
            getattr(self, name).copy_(batch[name])
        count = self.count(self.doc, self.branch, self.step)[:, None]  # [rows, 1, blocks, blocks]

        def ordered(chosen: Tensor) -> tuple[Tensor, Tensor]:
            return chosen.sum(-1, dtype=torch.int32), torch.argsort(
                chosen.to(torch.int32), dim=-1, descending=True, stable=True
            ).to(torch.int32)

        full = count == BLOCK * BLOCK
        return BlockMask.from_kv_blocks(
            *ordered((count > 0) & ~full),
            *ordered(full),
            BLOCK_SIZE=BLOCK,
            mask_mod=self.rule,
            seq_lengths=(self.length, self.length),
        )


class Visibility:
    """The mask of a batch: a block mask on a GPU, a dense one elsewhere."""

    def __init__(self, rows: int, length: int, device: torch.device) -> None:
        self.flex = FlexMask(rows, length, device) if device.type == "cuda" else None

    def __call__(self, batch: dict[str, Tensor]):
        return self.flex.build(batch) if self.flex else dense_mask(batch["doc"], batch["branch"], batch["step"])
