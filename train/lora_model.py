"""A GGUF file of the `llama` or `qwen2` architecture as a frozen network with a LoRA adapter on every matrix of its
layers: what is trained is what `banyan --adapter` adds to the same file.

The base stays in one 16-bit copy and gets no gradients, so a step costs two thirds of one that trains all weights. The
adapter's matrices of all layers are stacked, [layers, rank, in] and [layers, out, rank], in float32. Visibility is that
of `train.model`: (doc, branch, step), through FlexAttention on a GPU and a dense mask elsewhere.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from train import safetensors
from train.base_model import rows_by_halves
from train.gguf import read_metadata, tensor_table
from train.model import dense_attend, rms_norm, rotate, weighted_loss, wide_attend

# Name here → (of the model file, of PEFT).
MATRICES = {
    "q": ("attn_q", "self_attn.q_proj"),
    "k": ("attn_k", "self_attn.k_proj"),
    "v": ("attn_v", "self_attn.v_proj"),
    "o": ("attn_output", "self_attn.o_proj"),
    "gate": ("ffn_gate", "mlp.gate_proj"),
    "up": ("ffn_up", "mlp.up_proj"),
    "down": ("ffn_down", "mlp.down_proj"),
}
BIASED = ("q", "k", "v")


@dataclass(frozen=True)
class Shape:
    """Sizes of a network, as its file says."""

    architecture: str
    vocab: int
    dim: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    hidden: int
    rope_theta: float
    eps: float

    @staticmethod
    def of(metadata: dict) -> "Shape":
        architecture = metadata["general.architecture"]
        if architecture not in ("llama", "qwen2"):
            raise ValueError(f"expected architecture llama or qwen2, found {architecture}")
        get = lambda key, default=None: metadata.get(f"{architecture}.{key}", default)
        heads, dim = get("attention.head_count"), get("embedding_length")
        return Shape(
            architecture,
            len(metadata["tokenizer.ggml.tokens"]),
            dim,
            get("block_count"),
            heads,
            get("attention.head_count_kv", heads),
            get("attention.key_length", dim // heads),
            get("feed_forward_length"),
            get("rope.freq_base", 10000.0),
            get("attention.layer_norm_rms_epsilon"),
        )

    def matrices(self) -> dict[str, tuple[int, int]]:
        """[out, in] of each matrix of a layer."""
        query, key = self.heads * self.head_dim, self.kv_heads * self.head_dim
        return dict(
            q=(query, self.dim),
            k=(key, self.dim),
            v=(key, self.dim),
            o=(self.dim, query),
            gate=(self.hidden, self.dim),
            up=(self.hidden, self.dim),
            down=(self.dim, self.hidden),
        )

    def adapter_bytes(self, rank: int) -> int:
        """Of the adapter's tensors in 16 bits."""
        return 2 * rank * self.layers * sum(a + b for a, b in self.matrices().values())


def largest_rank(shape: Shape, limit: int) -> int:
    """The largest rank whose tensors take at most `limit` bytes; a multiple of 8, which a GPU's kernels want, where one
    fits."""
    most = limit // shape.adapter_bytes(1)
    return most // 8 * 8 or max(1, most)


def low_rank(h: Tensor, a: Tensor, b: Tensor, scale: float) -> Tensor:
    return F.linear(F.linear(h, a.to(h.dtype)), b.to(h.dtype) * scale)


def lora_block(
    x: Tensor,
    w: dict[str, Tensor],
    t: dict[str, Tensor],
    cos: Tensor,
    sin: Tensor,
    mask,
    c: Shape,
    scale: float,
    attend,
) -> Tensor:
    """One layer. x [rows, T, dim]; w: frozen, with `qkv` and `gate_up` joined; t: the adapter's A and B."""
    rows, length, _ = x.shape
    add = lambda h, name: low_rank(h, t[name + "_a"], t[name + "_b"], scale)
    h = rms_norm(x, w["attn_norm"], c.eps)
    qkv = F.linear(h, w["qkv"], w.get("qkv_bias")) + torch.cat([add(h, n) for n in ("q", "k", "v")], dim=-1)
    sizes = (c.heads * c.head_dim, c.kv_heads * c.head_dim, c.kv_heads * c.head_dim)
    q, k, v = (y.view(rows, length, -1, c.head_dim) for y in qkv.split(sizes, dim=-1))
    q, k = rotate(q, cos, sin), rotate(k, cos, sin)
    y = attend(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), mask)
    y = y.transpose(1, 2).reshape(rows, length, -1)
    x = x + F.linear(y, w["o"]) + add(y, "o")
    h = rms_norm(x, w["ffn_norm"], c.eps)
    gate, up = F.linear(h, w["gate_up"]).chunk(2, dim=-1)
    y = F.silu(gate + add(h, "gate")) * (up + add(h, "up"))
    return x + F.linear(y, w["down"]) + add(y, "down")


class LoraModel(nn.Module):
    """`rank` 0: the model alone."""

    def __init__(self, path: Path, rank: int, alpha: float, device: torch.device, dtype: torch.dtype, seed: int = 1):
        super().__init__()
        metadata = read_metadata(path)
        self.c, self.dtype, self.rank, self.scale = Shape.of(metadata), dtype, max(rank, 1), alpha / max(rank, 1)
        self.context, self.z = 0, 1e-5
        self.attend, self.block, self.loss = dense_attend, lora_block, weighted_loss
        self.load(path, device)
        g = torch.Generator().manual_seed(seed)
        for name, (out, into) in self.c.matrices().items():
            a = (torch.rand(self.c.layers, self.rank, into, generator=g) * 2 - 1) / into**0.5
            self.register_parameter(f"{name}_a", nn.Parameter(a.to(device)))
            self.register_parameter(
                f"{name}_b", nn.Parameter(torch.zeros(self.c.layers, out, self.rank, device=device))
            )
        self.positions(4096, device)

    def positions(self, count: int, device: torch.device) -> None:
        half = self.c.head_dim // 2
        powers = self.c.rope_theta ** (-torch.arange(half).double() / half)
        angle = torch.arange(count)[:, None].double() * powers[None]
        self.context, self.cos, self.sin = count, angle.cos().float().to(device), angle.sin().float().to(device)

    def load(self, path: Path, device: torch.device) -> None:
        """Decodes tensors beside one another, in the threads of this process."""
        table, found = tensor_table(path), {}

        def take(name: str) -> None:
            x = table[name]()
            part = name.split(".")[2] if name.startswith("blk.") else ""
            if self.c.architecture == "llama" and part in ("attn_q", "attn_k"):
                x = rows_by_halves(x, self.c.head_dim)
            kind = torch.float32 if "norm" in name else self.dtype
            found[name] = torch.from_numpy(np.array(x)).to(device, kind)

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(take, table))
        self.embedding = found["token_embd.weight"]
        self.head = found.get("output.weight", self.embedding)
        self.final_norm = found["output_norm.weight"]
        self.layers = []
        for i in range(self.c.layers):
            get = lambda part, kind="weight": found.pop(f"blk.{i}.{part}.{kind}")
            w = {n: get(n) for n in ("attn_norm", "ffn_norm")}
            w["qkv"] = torch.cat([get(MATRICES[n][0]) for n in BIASED])
            if f"blk.{i}.attn_q.bias" in found:
                w["qkv_bias"] = torch.cat([get(MATRICES[n][0], "bias") for n in BIASED])
            w["gate_up"] = torch.cat([get(MATRICES[n][0]) for n in ("gate", "up")])
            w |= {n: get(MATRICES[n][0]) for n in ("o", "down")}
            self.layers.append(w)

    def use_flex(self, compiled: bool = True) -> None:
        """FlexAttention and compiled layers."""
        from torch.nn.attention.flex_attention import flex_attention

        flex = flex_attention if compiled else torch.compile(flex_attention, dynamic=False)
        group = self.c.heads // self.c.kv_heads
        self.attend = lambda q, k, v, mask: flex(
            q, k.repeat_interleave(group, 1), v.repeat_interleave(group, 1), block_mask=mask
        )
        for limit in ("recompile_limit", "cache_size_limit"):  # the name depends on the version
            if hasattr(torch._dynamo.config, limit):
                setattr(torch._dynamo.config, limit, 64)
        if compiled:
            self.block, self.loss = (torch.compile(f, dynamic=False) for f in (lora_block, weighted_loss))

    def use_dense(self) -> None:
        """The way back, for a device that cannot run it."""
        self.attend, self.block, self.loss = wide_attend, lora_block, weighted_loss

    def hidden(self, ids: Tensor, pos: Tensor, mask) -> Tensor:
        """[rows, T, dim] after the last norm."""
        x = F.embedding(ids, self.embedding)
        cos, sin = self.cos[pos][:, :, None], self.sin[pos][:, :, None]
        names = [f"{n}_{part}" for n in MATRICES for part in "ab"]
        stacks = zip(*(getattr(self, n).unbind(0) for n in names))
        for w, tensors in zip(self.layers, stacks):
            x = self.block(x, w, dict(zip(names, tensors)), cos, sin, mask, self.c, self.scale, self.attend)
        return rms_norm(x, self.final_norm, self.c.eps)

    def forward(self, batch: dict[str, Tensor], mask) -> tuple[Tensor, Tensor]:
        """(the loss with its z-loss, the plain one), on the labels of `train.pack`."""
        h = self.hidden(batch["ids"], batch["pos"], mask)
        picked = h.gather(1, batch["at"][:, :, None].expand(-1, -1, h.shape[-1]))
        z = torch.full((), self.z, device=h.device)
        return self.loss(picked.flatten(0, 1), self.head, batch["label"].flatten(), batch["weight"].flatten(), z)


def tensor_names(c: Shape) -> dict[str, list[str]]:
    """Our stack → PEFT's names of its layers."""
    return {
        f"{n}_{part.lower()}": [
            f"base_model.model.model.layers.{i}.{MATRICES[n][1]}.lora_{part}.weight" for i in range(c.layers)
        ]
        for n in MATRICES
        for part in "AB"
    }


def save_adapter(model: LoraModel, folder: Path, base_name: str) -> int:
    """As PEFT does, values in bf16; returns the bytes of the tensors' file."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {
        name: x
        for stack, names in tensor_names(model.c).items()
        for name, x in zip(names, getattr(model, stack).detach().float().cpu().numpy())
    }
    safetensors.write_bf16(folder / "adapter_model.safetensors", dict(sorted(tensors.items())))
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
        target_modules=sorted(peft.split(".")[-1] for _, peft in MATRICES.values()),
    )
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=2) + "\n")
    return (folder / "adapter_model.safetensors").stat().st_size


@torch.no_grad()
def load_adapter(model: LoraModel, folder: Path) -> None:
    """An adapter of the same rank; its scale is taken into B where it differs."""
    config = json.loads((folder / "adapter_config.json").read_text())
    if config["r"] != model.rank:
        raise ValueError(f"{folder}: expected rank {model.rank}, found {config['r']}")
    ratio = config["lora_alpha"] / config["r"] / model.scale
    found = safetensors.read(folder / "adapter_model.safetensors")
    for stack, names in tensor_names(model.c).items():
        x = torch.from_numpy(np.stack([found[n] for n in names]))
        getattr(model, stack).copy_(x * ratio if stack.endswith("_b") else x)
