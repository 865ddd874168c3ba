"""Optimisers: Muon (orthogonalised momentum) for the stacked matrices, Adam for embedding and norms.

Written here, small: one step is a handful of batched products over [layers, out, in] stacks.
"""

from __future__ import annotations

import torch
from torch import Tensor


def orthogonalize(g: Tensor) -> Tensor:
    """Nearest semi-orthogonal matrices by a quintic Newton–Schulz iteration; five rounds bring singular values to about
    [0.7, 1.2]."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = g.bfloat16()
    tall = x.shape[-2] > x.shape[-1]
    if tall:
        x = x.mT
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(5):
        s = x @ x.mT
        x = a * x + (b * s + c * s @ s) @ x
    return x.mT if tall else x


class Muon:
    """lr is the step in units of spectral norm, times sqrt(out/in) for tall matrices; weight decay is decoupled."""

    def __init__(
        self, params: list[torch.nn.Parameter], lr: float, momentum: float = 0.95, weight_decay: float = 0.02
    ) -> None:
        self.params, self.lr, self.momentum, self.weight_decay = params, lr, momentum, weight_decay
        self.buffers = [torch.zeros_like(p) for p in params]

    @torch.no_grad()
    def step(self, scale: float, momentum: float | None = None) -> None:
        m = self.momentum if momentum is None else momentum
        for p, buf in zip(self.params, self.buffers):
            g = p.grad
            buf.lerp_(g, 1 - m)
            update = orthogonalize(g.lerp(buf, m))
            lr = self.lr * scale
            p.mul_(1 - lr * self.weight_decay)
            p.add_(update.to(p.dtype), alpha=-lr * max(1.0, p.shape[-2] / p.shape[-1]) ** 0.5)
            p.grad = None
