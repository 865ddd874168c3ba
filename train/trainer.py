"""One training step, the learning-rate schedule, and batches that are moved to the device ahead of time."""

from __future__ import annotations

import queue
import threading

import torch

from train.model import Decoder, Visibility, matrix_shapes
from train.muon import Muon
from train.pack import Rows

_WIDE = {
    "ids": torch.int32,
    "pos": torch.int32,
    "doc": torch.int32,
    "branch": torch.int32,
    "step": torch.int32,
    "at": torch.int64,
    "label": torch.int64,
    "weight": torch.float32,
}


def to_batch(rows: Rows, device: torch.device) -> dict[str, torch.Tensor]:
    """Small integers travel; the device widens them."""
    out = {}
    for name, dtype in _WIDE.items():
        t = torch.from_numpy(getattr(rows, name))
        if device.type == "cuda":
            t = t.pin_memory()
        out[name] = t.to(device, non_blocking=True).to(dtype)
    return out


def schedule(progress: float, decay_from: float) -> float:
    """Stable at 1, then linear to 0.02 at the end."""
    return 1.0 if progress < decay_from else max(0.02, (1.0 - progress) / (1.0 - decay_from))


def prefetch(rows_iter, device: torch.device):
    """Moves batches to the device from a second thread, a few ahead."""
    waiting: queue.Queue = queue.Queue(maxsize=4)

    def run() -> None:
        try:
            for rows in rows_iter:
                waiting.put(to_batch(rows, device))
            waiting.put(None)
        except BaseException as error:  # handed to the training thread
            waiting.put(error)

    threading.Thread(target=run, daemon=True).start()
    while (item := waiting.get()) is not None:
        if isinstance(item, BaseException):
            raise item
        yield item


class Trainer:
    """Muon for the matrices, Adam for embedding and norms."""

    def __init__(
        self, model: Decoder, rows: int, length: int, lr: float, adam_lr: float, weight_decay: float = 0.02
    ) -> None:
        self.model, self.device = model, model.embedding.device
        self.mask = Visibility(rows, length, self.device)
        self.dtype = torch.bfloat16 if self.mask.flex else torch.float32
        matrices = [getattr(model, n) for n in matrix_shapes(model.c)]
        others = [p for p in model.parameters() if not any(p is m for m in matrices)]
        self.muon = Muon(matrices, lr, weight_decay=weight_decay)
        self.adam = torch.optim.AdamW(
            others, lr=adam_lr, betas=(0.9, 0.95), eps=1e-10, weight_decay=0.0, fused=self.mask.flex is not None
        )
        self.adam_lr = adam_lr

    def step(self, batch: dict[str, torch.Tensor], scale: float, momentum: float = 0.95) -> torch.Tensor:
        """One update; returns the plain loss, not yet waited for."""
        loss, plain = self.model(batch, self.mask(batch), self.dtype)
        loss.backward()
        self.muon.step(scale, momentum)
        for group in self.adam.param_groups:
            group["lr"] = self.adam_lr * scale
        self.adam.step()
        self.adam.zero_grad(set_to_none=True)
        return plain
