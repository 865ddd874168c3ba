#!/usr/bin/env python3
"""Models whose layers keep states, from GGUF: the oracles in tests/oracles/hybrids, written as llama.cpp's converters
write them, give the answers that Transformers gave; quantised files give those of their values; blocks that guess
further tokens are passed over; what a damaged file says. Usage: test_states_gguf.py BANYAN"""
import json
import math
import struct
import subprocess
import sys
import tempfile
from array import array
from pathlib import Path

BANYAN = sys.argv[1]
ORACLES = Path(__file__).resolve().parent.parent / "oracles" / "hybrids"
failures = 0


def check(ok: bool, what: str) -> None:
    global failures
    if not ok:
        failures += 1
        print("FAIL", what)


class Tensor:
    def __init__(self, shape: list[int], values: array):
        self.shape, self.values = shape, values

    def rows(self, order: list[int], width: int = 0) -> "Tensor":
        """The given rows, or those groups of `width` values."""
        width = width or len(self.values) // self.shape[0]
        values = array("f")
        for row in order:
            values += self.values[row * width:(row + 1) * width]
        return Tensor([len(order), *self.shape[1:]], values)

    def columns(self, order: list[int]) -> "Tensor":
        width = self.shape[1]
        return Tensor(self.shape, array("f", [self.values[row * width + column] for row in range(self.shape[0])
                                              for column in order]))

    def each(self, function) -> "Tensor":
        return Tensor(self.shape, array("f", map(function, self.values)))

    def squeezed(self) -> "Tensor":
        return Tensor([extent for extent in self.shape if extent != 1], self.values)


def read_safetensors(file: Path) -> dict[str, Tensor]:
    data = file.read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    tensors = {}
    for name, entry in json.loads(data[8:8 + length]).items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        tensors[name] = Tensor(entry["shape"], array("f", data[8 + length + begin:8 + length + end]))
    return tensors


# Endings of names in safetensors, and what GGUF calls them.
NAMES = {
    "input_layernorm": "attn_norm", "operator_norm": "attn_norm", "ffn_norm": "ffn_norm",
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "self_attn.out_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm", "self_attn.q_layernorm": "attn_q_norm", "self_attn.k_layernorm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "mlp.gate": "ffn_gate_inp",
    "mlp.shared_expert.gate_proj": "ffn_gate_shexp", "mlp.shared_expert.up_proj": "ffn_up_shexp",
    "mlp.shared_expert.down_proj": "ffn_down_shexp", "mlp.shared_expert_gate": "ffn_gate_inp_shexp",
    "feed_forward.w1": "ffn_gate", "feed_forward.w3": "ffn_up", "feed_forward.w2": "ffn_down",
    "feed_forward.gate": "ffn_gate_inp", "block_sparse_moe.router.layer": "ffn_gate_inp",
    "block_sparse_moe.output_linear": "ffn_down_exps", "conv.in_proj": "shortconv.in_proj",
    "conv.out_proj": "shortconv.out_proj", "conv.conv": "shortconv.conv", "linear_attn.in_proj_qkv": "attn_qkv",
    "linear_attn.in_proj_z": "attn_gate", "linear_attn.in_proj_a": "ssm_alpha", "linear_attn.in_proj_b": "ssm_beta",
    "linear_attn.in_proj_ba": "ssm_ba", "linear_attn.conv1d": "ssm_conv1d", "linear_attn.norm": "ssm_norm",
    "linear_attn.out_proj": "ssm_out", "mamba.in_proj": "ssm_in", "mamba.conv1d": "ssm_conv1d",
    "mamba.norm": "ssm_norm", "mamba.out_proj": "ssm_out",
}
TOP = {"model.embed_tokens.weight": "token_embd.weight", "lm_head.weight": "output.weight",
       "model.norm.weight": "output_norm.weight", "model.embedding_norm.weight": "token_embd_norm.weight"}


class Conversion:
    """Keys and tensors of the GGUF file. `old`: Qwen3-Next as its first files were."""

    def __init__(self, folder: Path, old: bool = False):
        self.config = json.loads((folder / "config.json").read_text())
        self.family, self.old = self.config["model_type"], old
        self.architecture = {"granitemoehybrid": "granitehybrid", "lfm2": "lfm2", "lfm2_moe": "lfm2moe",
                             "qwen3_next": "qwen3next", "qwen3_5_text": "qwen35",
                             "qwen3_5_moe_text": "qwen35moe"}[self.family]
        self.tensors: dict[str, Tensor] = {}
        self.experts: dict[str, dict[int, Tensor]] = {}
        for name, tensor in read_safetensors(folder / "model.safetensors").items():
            if name in TOP:
                self.tensors[TOP[name]] = self.plus_one(name, tensor)
            else:
                layer, rest = name.removeprefix("model.layers.").split(".", 1)
                self.add(f"blk.{layer}.", rest, tensor)
        for name, parts in self.experts.items():
            values = array("f")
            for expert in range(len(parts)):
                values += parts[expert].values
            self.tensors[name] = Tensor([len(parts), *parts[0].shape], values)
        self.keys = self.make_keys()

    def plus_one(self, name: str, tensor: Tensor) -> Tensor:
        """Qwen's norms are stored minus one."""
        qwen = self.family.startswith("qwen") and name.endswith("norm.weight") and "linear_attn" not in name
        return tensor.each(lambda value: value + 1.0) if qwen else tensor

    def tiles(self) -> list[int]:
        """Value heads in the order of Qwen3.5's files: the first of every key head, then the second, …"""
        keys, values = self.config["linear_num_key_heads"], self.config["linear_num_value_heads"]
        together = values // keys
        tiled = not self.family.startswith("qwen3_next")
        return [key * together + i for i in range(together) for key in range(keys)] if tiled else list(range(values))

    def delta(self, prefix: str, rest: str, tensor: Tensor) -> None:
        c = self.config
        keys, key, value = c["linear_num_key_heads"], c["linear_key_head_dim"], c["linear_value_head_dim"]
        before, heads = 2 * keys * key, self.tiles()
        values = [head * value + i for head in heads for i in range(value)]
        part = rest.removeprefix("linear_attn.")
        if part == "in_proj_qkvz.weight":
            if self.old:
                self.tensors[prefix + "ssm_in.weight"] = tensor
                return
            own = c["linear_num_value_heads"] // keys * value
            group = 2 * key + 2 * own
            rows = lambda first, count: [g * group + first + i for g in range(keys) for i in range(count)]
            self.tensors[prefix + "attn_qkv.weight"] = tensor.rows(rows(0, key) + rows(key, key) + rows(2 * key, own))
            self.tensors[prefix + "attn_gate.weight"] = tensor.rows(rows(2 * key + own, own))
            return
        if part in ("A_log", "dt_bias"):
            name = "ssm_a" if part == "A_log" else "ssm_dt.bias"
            tensor = tensor.each(lambda x: -math.exp(x)) if part == "A_log" else tensor
            self.tensors[prefix + name] = tensor.rows(heads)
            return
        if part in ("in_proj_qkv.weight", "conv1d.weight"):
            tensor = tensor.squeezed().rows([*range(before), *(before + row for row in values)])
        elif part == "in_proj_z.weight":
            tensor = tensor.rows(values)
        elif part in ("in_proj_a.weight", "in_proj_b.weight"):
            tensor = tensor.rows(heads)
        elif part == "out_proj.weight":
            tensor = tensor.columns(values)
        self.tensors[prefix + NAMES[rest.removesuffix(".weight")] + ".weight"] = tensor

    def halves(self, tensor: Tensor) -> list[Tensor]:
        """Rows of gates, and those of what they gate, of a block or of every expert."""
        half = tensor.shape[-2] // 2
        count = len(tensor.values) // (tensor.shape[-2] * tensor.shape[-1])
        width = half * tensor.shape[-1]
        shape = [*tensor.shape[:-2], half, tensor.shape[-1]]
        return [Tensor(shape, tensor.rows([2 * i + side for i in range(count)], width).values) for side in (0, 1)]

    def add(self, prefix: str, rest: str, tensor: Tensor) -> None:
        c = self.config
        if rest.startswith("linear_attn."):
            self.delta(prefix, rest, tensor)
        elif ".experts." in rest:
            number, part = rest.split(".experts.")[1].split(".", 1)
            name = {"gate": "ffn_gate_exps", "w1": "ffn_gate_exps", "up": "ffn_up_exps", "w3": "ffn_up_exps",
                    "down": "ffn_down_exps", "w2": "ffn_down_exps"}[part.split(".")[0].split("_")[0]]
            self.experts.setdefault(f"{prefix}{name}.weight", {})[int(number)] = tensor
        elif rest == "feed_forward.expert_bias":
            self.tensors[prefix + "exp_probs_b.bias"] = tensor
        elif rest == "post_attention_layernorm.weight":
            name = "post_attention_norm" if self.family.startswith("qwen") else "ffn_norm"
            self.tensors[f"{prefix}{name}.weight"] = self.plus_one(rest, tensor)
        elif rest in ("mamba.A_log", "mamba.D"):  # [heads, 1]
            tensor = tensor.each(lambda x: -math.exp(x)) if rest.endswith("A_log") else tensor
            name = "ssm_a" if rest.endswith("A_log") else "ssm_d"
            self.tensors[prefix + name] = Tensor([*tensor.shape, 1], tensor.values)
        elif rest == "mamba.dt_bias":
            self.tensors[prefix + "ssm_dt.bias"] = tensor
        elif rest == "mamba.conv1d.bias":
            self.tensors[prefix + "ssm_conv1d.bias"] = tensor
        elif rest == "mamba.norm.weight":
            groups = c["mamba_n_groups"]
            self.tensors[prefix + "ssm_norm.weight"] = Tensor([groups, tensor.shape[0] // groups], tensor.values)
        elif rest == "block_sparse_moe.input_linear.weight":
            for name, half in zip(("ffn_gate_exps", "ffn_up_exps"), self.halves(tensor)):
                self.tensors[f"{prefix}{name}.weight"] = half
        elif rest.startswith("shared_mlp."):
            more = "_shexp" if c["num_local_experts"] else ""
            if "input" in rest:
                for name, half in zip(("ffn_gate", "ffn_up"), self.halves(tensor)):
                    self.tensors[f"{prefix}{name}{more}.weight"] = half
            else:
                self.tensors[f"{prefix}ffn_down{more}.weight"] = tensor
        else:
            if self.family == "granitemoehybrid" and rest in ("self_attn.q_proj.weight", "self_attn.k_proj.weight"):
                size = c["hidden_size"] // c["num_attention_heads"]  # the halves of a head alternate
                tensor = tensor.rows([first + i // 2 + i % 2 * (size // 2) for first in range(0, tensor.shape[0], size)
                                      for i in range(size)])
            tensor = tensor.squeezed() if rest.endswith(("conv1d.weight", "conv.conv.weight")) else tensor
            self.tensors[prefix + NAMES[rest.removesuffix(".weight")] + ".weight"] = self.plus_one(rest, tensor)

    def make_keys(self) -> dict:
        c, layers = self.config, self.config["layer_types"]
        states = [kind in ("conv", "linear_attention", "mamba") for kind in layers]
        keys = {"block_count": len(layers), "context_length": c["max_position_embeddings"],
                "embedding_length": c["hidden_size"], "attention.head_count": c["num_attention_heads"],
                "feed_forward_length": c["intermediate_size"], "rope.freq_base": c["rope_parameters"]["rope_theta"],
                "attention.layer_norm_rms_epsilon": c.get("rms_norm_eps", c.get("norm_eps"))}
        experts = c.get("num_experts") or c.get("num_local_experts") or 0
        if experts:
            keys |= {"expert_count": experts, "expert_used_count": c["num_experts_per_tok"]}
        if "moe_intermediate_size" in c:
            keys["expert_feed_forward_length"] = c["moe_intermediate_size"]
        beside = c.get("shared_expert_intermediate_size") or c.get("shared_intermediate_size")
        if beside:
            keys["expert_shared_feed_forward_length"] = beside
        if self.family.startswith("qwen"):
            return keys | {
                "attention.head_count_kv": c["num_key_value_heads"], "attention.key_length": c["head_dim"],
                "attention.value_length": c["head_dim"], "attention.recurrent_layers": states,
                "rope.dimension_count": int(c["head_dim"] * c["rope_parameters"]["partial_rotary_factor"]),
                "rope.dimension_sections": [1, 1, 0, 0], "ssm.conv_kernel": c["linear_conv_kernel_dim"],
                "ssm.state_size": c["linear_key_head_dim"], "ssm.group_count": c["linear_num_key_heads"],
                "ssm.time_step_rank": c["linear_num_value_heads"],
                "ssm.inner_size": c["linear_num_value_heads"] * c["linear_value_head_dim"]}
        keys["attention.head_count_kv"] = [0 if state else c["num_key_value_heads"] for state in states]
        if self.family == "lfm2_moe":
            keys |= {"leading_dense_block_count": c["num_dense_layers"], "expert_gating_func": 2}
        if self.family.startswith("lfm2"):
            return keys | {"shortconv.l_cache": c["conv_L_cache"], "vocab_size": c["vocab_size"]}
        return keys | {
            "attention.scale": c["attention_multiplier"], "embedding_scale": c["embedding_multiplier"],
            "residual_scale": c["residual_multiplier"], "logit_scale": c["logits_scaling"],
            "rope.scaling.finetuned": False, "ssm.conv_kernel": c["mamba_d_conv"],
            "ssm.state_size": c["mamba_d_state"], "ssm.group_count": c["mamba_n_groups"],
            "ssm.time_step_rank": c["mamba_n_heads"], "ssm.inner_size": c["mamba_expand"] * c["hidden_size"]}

    def write(self, file: Path, kind: str = "F32") -> str:
        text = lambda value: struct.pack("<Q", len(value.encode())) + value.encode()

        def packed(value) -> bytes:
            if isinstance(value, list):
                bools = isinstance(value[0], bool)
                return struct.pack(f"<IIQ{len(value)}{'?' if bools else 'i'}", 9, 7 if bools else 5, len(value), *value)
            if isinstance(value, bool):
                return struct.pack("<I?", 7, value)
            return struct.pack("<If", 6, value) if isinstance(value, float) else struct.pack("<II", 4, value)

        head = b"GGUF" + struct.pack("<IQQ", 3, len(self.tensors), len(self.keys) + 1)
        head += text("general.architecture") + struct.pack("<I", 8) + text(self.architecture)
        for key, value in self.keys.items():
            head += text(f"{self.architecture}.{key}") + packed(value)
        data = b""
        for name, tensor in self.tensors.items():
            bits, values, shape = 0, tensor.values.tobytes(), tensor.shape
            if quantisable(name, tensor) and kind != "F32":
                bits, values = QUANTISED[kind](tensor.values)
            if kind != "F32" and len(shape) == 2 and shape[0] == 1:
                shape = shape[1:]  # as llama.cpp's quantiser writes it
            head += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *reversed(shape), bits, len(data))
            data += values + bytes(-len(values) % 32)
        file.write_bytes(head + bytes(-len(head) % 32) + data)
        return str(file)

    def rounded(self, kind: str) -> None:
        """The values that a quantised file has."""
        for name, tensor in self.tensors.items():
            if quantisable(name, tensor):
                tensor.values = array("f", dequantised(kind, QUANTISED[kind](tensor.values)[1]))


def quantisable(name: str, tensor: Tensor) -> bool:
    return len(tensor.shape) > 1 and tensor.shape[0] > 1 and tensor.shape[-1] % 32 == 0 and "norm" not in name


def q8_0(values: array) -> tuple[int, bytes]:
    data = b""
    for at in range(0, len(values), 32):
        block = values[at:at + 32]
        (scale,) = struct.unpack("<e", struct.pack("<e", max(map(abs, block)) / 127 or 1.0))
        data += struct.pack("<e32b", scale, *(max(-127, min(127, round(value / scale))) for value in block))
    return 8, data


def q4_0(values: array) -> tuple[int, bytes]:
    data = b""
    for at in range(0, len(values), 32):
        block = values[at:at + 32]
        (scale,) = struct.unpack("<e", struct.pack("<e", max(block, key=abs) / -8 or 1.0))
        codes = [max(0, min(15, round(value / scale) + 8)) for value in block]
        data += struct.pack("<e16B", scale, *(codes[i] | codes[i + 16] << 4 for i in range(16)))
    return 2, data


QUANTISED = {"Q8_0": q8_0, "Q4_0": q4_0}


def dequantised(kind: str, data: bytes) -> list[float]:
    values = []
    if kind == "Q8_0":
        for scale, *codes in struct.iter_unpack("<e32b", data):
            values += [scale * code for code in codes]
    else:
        for scale, *pairs in struct.iter_unpack("<e16B", data):
            values += [scale * ((pair & 15) - 8) for pair in pairs] + [scale * ((pair >> 4) - 8) for pair in pairs]
    return values


def run(model: str, prompts: list[dict], *more: str) -> tuple[list, list]:
    """Logits after each prompt, and what is generated."""
    lines = [{"id": f"l{i}", "kind": "logits", "ids": prompt["ids"]} for i, prompt in enumerate(prompts)]
    lines += [{"id": f"g{i}", "kind": "greedy", "ids": prompt["ids"], "max_new": len(prompt["greedy"])}
              for i, prompt in enumerate(prompts)]
    result = subprocess.run([BANYAN, "ids", "-m", model, "--kv-memory", "16M", *more], input="".join(json.dumps(x) + "\n" for x in lines),
                            capture_output=True, text=True, timeout=300)
    if result.returncode != 0:
        return [], [result.stderr[-300:]]
    rows = {row["id"]: row for row in map(json.loads, result.stdout.splitlines())}
    return ([rows[f"l{i}"]["last_logits"] for i in range(len(prompts))],
            [rows[f"g{i}"]["tokens"] for i in range(len(prompts))])


def apart(found: list, expected: list) -> float:
    if not found or len(found) != len(expected):
        return math.inf
    return max(abs(a - b) for one, other in zip(found, expected) for a, b in zip(one, other))


def refused(conversion: Conversion, file: Path, reason: str) -> None:
    result = subprocess.run([BANYAN, "ids", "-m", conversion.write(file)], input="", capture_output=True, text=True)
    check(result.returncode == 2 and reason in result.stderr, f"refused with '{reason}': {result.stderr[-300:]}")


# Heads in another order are summed in another order: these alone have the bits of safetensors.
SAME_BITS = {"granite4-h", "granite4-h-mixture", "lfm2", "lfm2-mixture", "qwen3-next"}

with tempfile.TemporaryDirectory() as temporary:
    FILE = Path(temporary) / "model.gguf"
    for folder in sorted(ORACLES.iterdir()):
        prompts = json.loads((folder / "golden.json").read_text())["prompts"]
        expected = [prompt["last_logits"] for prompt in prompts], [prompt["greedy"] for prompt in prompts]
        model = Conversion(folder)
        found = run(model.write(FILE), prompts)
        check(apart(found[0], expected[0]) <= 1e-3 and found[1] == expected[1],
              f"{folder.name} from GGUF: {apart(found[0], expected[0])}, {found[1]}")
        if folder.name in SAME_BITS:
            check(run(str(FILE), prompts)[0] == run(str(folder), prompts)[0], f"{folder.name}: the bits of safetensors")
        kind = "Q4_0" if folder.name in SAME_BITS else "Q8_0"
        quantised = run(model.write(FILE, kind), prompts, "--precision", "f32")
        model.rounded(kind)
        values = run(model.write(FILE), prompts, "--precision", "f32")
        check(apart(quantised[0], values[0]) <= 1e-4 and quantised[1] == values[1],
              f"{folder.name} in {kind}: the logits of its values, {apart(quantised[0], values[0])}")
        check(apart(quantised[0], expected[0]) > 1e-3, f"{folder.name} in {kind} is another model")
    NEXT, QWEN = ORACLES / "qwen3-next", ORACLES / "qwen3_5"
    prompts = json.loads((NEXT / "golden.json").read_text())["prompts"]
    check(run(Conversion(NEXT, old=True).write(FILE), prompts)[0] == run(str(NEXT), prompts)[0],
          "Qwen3-Next as its first files were: the same bits")

    prompts = json.loads((QWEN / "golden.json").read_text())["prompts"]
    plain = run(Conversion(QWEN).write(FILE), prompts)
    reference = run(str(FILE), prompts, "--device", "reference")
    check(apart(reference[0], plain[0]) <= 1e-4 and reference[1] == plain[1], "cpu and reference agree")
    guessing = Conversion(QWEN)
    guessing.keys |= {"block_count": 5, "nextn_predict_layers": 1}
    guessing.keys["attention.recurrent_layers"] = [*guessing.keys["attention.recurrent_layers"], False]
    for name in [name for name in guessing.tensors if name.startswith("blk.2.")]:
        guessing.tensors[name.replace("blk.2.", "blk.4.")] = guessing.tensors[name]
    guessing.tensors["blk.4.nextn.eh_proj.weight"] = Tensor([32, 64], array("f", bytes(4 * 32 * 64)))
    check(run(guessing.write(FILE), prompts) == plain, "a block that guesses further tokens is passed over")
    listed = Conversion(QWEN)
    listed.keys["full_attention_interval"] = 3
    del listed.keys["attention.recurrent_layers"]
    listed.keys["rope.dimension_sections"] = [1, 1, 0, 0]
    check(run(listed.write(FILE), prompts) == plain, "every third layer has attention")

    ollama = Conversion(QWEN)  # its files have other names, and the parts that see and guess
    states = ollama.keys.pop("attention.recurrent_layers")
    ollama.keys["attention.head_count_kv"] = [0 if state else ollama.keys["attention.head_count_kv"] for state in states]
    ollama.keys["rope.dimension_sections"] = [1, 1, 0]
    for name in [name for name in ollama.tensors if name.endswith("ssm_dt.bias")]:
        ollama.tensors[name.removesuffix(".bias")] = ollama.tensors.pop(name)
    for name in ("v.blk.0.attn_q.weight", "mtp.fc.weight"):
        ollama.tensors[name] = Tensor([2, 32], array("f", bytes(4 * 64)))
    check(run(ollama.write(FILE), prompts) == plain, "as Ollama writes it")
    short = json.loads((ORACLES / "lfm2" / "golden.json").read_text())["prompts"]
    ollama = Conversion(ORACLES / "lfm2")
    ollama.tensors["output_norm.weight"] = ollama.tensors.pop("token_embd_norm.weight")
    check(run(ollama.write(FILE), short)[0] == run(str(ORACLES / "lfm2"), short)[0], "LFM2 as Ollama writes it")
    ollama = Conversion(QWEN)
    ollama.keys["attention.head_count_kv"] = [0, 2]
    refused(ollama, FILE, "head_count_kv': expected 4 entries, found 2")

    damaged = Conversion(QWEN)
    damaged.keys["attention.recurrent_layers"].pop()
    refused(damaged, FILE, "recurrent_layers: expected 4 entries, found 3")
    damaged = Conversion(QWEN)
    damaged.keys["nextn_predict_layers"] = 4
    refused(damaged, FILE, "nextn_predict_layers is 4, expected 0 to 3")
    damaged = Conversion(QWEN)
    damaged.keys["ssm.inner_size"] = 47
    refused(damaged, FILE, "ssm.inner_size is 47, expected a multiple of 4 heads")
    damaged = Conversion(QWEN)
    damaged.tensors["blk.1.ssm_a"] = damaged.tensors["blk.1.ssm_a"].each(abs)
    refused(damaged, FILE, "tensor 'blk.1.ssm_a': a rate of ")
    damaged = Conversion(ORACLES / "lfm2-mixture")
    damaged.keys["expert_gating_func"] = 1
    refused(damaged, FILE, "expert_gating_func is 1, expected 2")

if failures:
    sys.exit(1)
print("states from GGUF: ok")
