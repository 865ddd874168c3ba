"""LoRA on the stacked matrices of `train.model.Decoder`, and the result as PEFT writes it.

The matrices of a layer are used merged, W + s · B A, as the engine uses them: the step costs what a step of the whole
model costs, and what is trained is what runs. W stays as it is in the model file.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from train import safetensors
from train.large_model import TRANSFORMERS_NAMES
from train.model import Decoder, matrix_shapes


class LoraDecoder(Decoder):
    def __init__(self, base: Decoder, rank: int, alpha: float, seed: int = 1) -> None:
        nn.Module.__init__(self)
        self.__dict__.update({k: v for k, v in base.__dict__.items() if not k.startswith("_")})
        self.base, self.rank, self.scale = (
            [base],
            rank,
            alpha / rank,
        )  # in a list: its parameters are none of this module's
        for name, value in (*base.named_parameters(), *base.named_buffers()):
            if name not in matrix_shapes(base.c):
                self.register_buffer(name, value.detach())
        g = torch.Generator().manual_seed(seed)
        for name, (layers, out, into) in matrix_shapes(base.c).items():
            self.register_buffer(name, getattr(base, name).detach())
            self.register_parameter(
                f"{name}_a", nn.Parameter((torch.rand(layers, rank, into, generator=g) * 2 - 1) / into**0.5)
            )
            self.register_parameter(f"{name}_b", nn.Parameter(torch.zeros(layers, out, rank)))
        self.base = []

    def matrix(self, name: str) -> Tensor:
        if name == "embedding":
            return self.embedding
        return torch.baddbmm(
            getattr(self, name), getattr(self, f"{name}_b"), getattr(self, f"{name}_a"), alpha=self.scale
        )


def adapter_tensors(model: LoraDecoder) -> dict[str, np.ndarray]:
    out = {}
    for name in matrix_shapes(model.c):
        for part, mark in (("a", "A"), ("b", "B")):
            stack = getattr(model, f"{name}_{part}").detach().float().cpu().numpy()
            out |= {
                f"base_model.model.model.layers.{i}.{TRANSFORMERS_NAMES[name]}.lora_{mark}.weight": x
                for i, x in enumerate(stack)
            }
    return dict(sorted(out.items()))


def save_adapter(model: LoraDecoder, folder: Path, base_name: str) -> int:
    """As PEFT does, values in bf16; returns the bytes of the tensors' file."""
    folder.mkdir(parents=True, exist_ok=True)
    safetensors.write_bf16(folder / "adapter_model.safetensors", adapter_tensors(model))
    config = dict(
        peft_type="LORA",
        task_type="CAUSAL_LM",
        base_model_name_or_path=base_name,
        inference_mode=True,
        r=model.rank,
        lora_alpha=model.rank * model.scale,
        lora_dropout=0.0,
        bias="none",
        use_rslora=False,
        use_dora=False,
        fan_in_fan_out=False,
        init_lora_weights=True,
        modules_to_save=None,
        rank_pattern={},
        alpha_pattern={},
        layers_to_transform=None,
        layers_pattern=None,
        target_modules=sorted(n.split(".")[-1] for k, n in TRANSFORMERS_NAMES.items() if "norm" not in k),
    )
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=2) + "\n")
    return (folder / "adapter_model.safetensors").stat().st_size
