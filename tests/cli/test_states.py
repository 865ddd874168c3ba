#!/usr/bin/env python3
"""A model whose layers keep states, through the program: the same answers with every strategy, alone and together;
what is shown of its memory; what is refused, with exit code and reason. The model is made here: tiny, random, of LFM2's
family, with a vocabulary of bytes. Usage: test_states.py BANYAN"""
import json
import random
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

BANYAN = sys.argv[1]
HIDDEN, HEADS, KV_HEADS, FFN, VOCAB = 32, 4, 2, 48, 257  # bytes, and an end of text
LAYERS = ["conv", "full_attention", "conv"]
failures = 0


def check(ok: bool, what: str) -> None:
    global failures
    if not ok:
        failures += 1
        print("FAIL", what)


def make_tokenizer(folder: Path) -> None:
    """Byte-level, without merges: GPT-2's printable character for every byte."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in printable]
    character = {b: chr(b) for b in printable} | {b: chr(256 + i) for i, b in enumerate(others)}
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "normalizer": None, "post_processor": None, "truncation": None, "padding": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "added_tokens": [{"id": 256, "content": "<end>", "single_word": False, "lstrip": False, "rstrip": False,
                          "normalized": False, "special": True}],
        "model": {"type": "BPE", "vocab": {character[b]: b for b in range(256)}, "merges": []}}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<end>"}))


# Names of GGUF, by the ending of those in safetensors.
GGUF_NAMES = {"operator_norm": "attn_norm", "ffn_norm": "ffn_norm", "w1": "ffn_gate", "w3": "ffn_up", "w2": "ffn_down",
              "conv.in_proj": "shortconv.in_proj", "conv.out_proj": "shortconv.out_proj",
              "conv.conv": "shortconv.conv", "q_proj": "attn_q", "k_proj": "attn_k", "v_proj": "attn_v",
              "self_attn.out_proj": "attn_output", "q_layernorm": "attn_q_norm", "k_layernorm": "attn_k_norm"}


def gguf_name(name: str) -> str:
    top = {"model.embed_tokens.weight": "token_embd.weight", "lm_head.weight": "output.weight",
           "model.embedding_norm.weight": "token_embd_norm.weight"}
    if name in top:
        return top[name]
    layer, rest = name.removeprefix("model.layers.").split(".", 1)
    (ours,) = (ours for theirs, ours in GGUF_NAMES.items() if rest.endswith(theirs + ".weight"))
    return f"blk.{layer}.{ours}.weight"


def write_gguf(tensors: dict[str, tuple[list[int], bytes]], file: Path) -> None:
    """The same weights and sizes as llama.cpp's converter writes them: a convolution has two dimensions."""
    text = lambda value: struct.pack("<Q", len(value.encode())) + value.encode()
    uint, real = (lambda value: struct.pack("<II", 4, value)), (lambda value: struct.pack("<If", 6, value))
    heads = [0 if kind == "conv" else KV_HEADS for kind in LAYERS]
    keys = {"general.architecture": struct.pack("<I", 8) + text("lfm2"), "lfm2.context_length": uint(4096),
            "lfm2.embedding_length": uint(HIDDEN), "lfm2.block_count": uint(len(LAYERS)),
            "lfm2.feed_forward_length": uint(FFN), "lfm2.attention.head_count": uint(HEADS),
            "lfm2.attention.head_count_kv": struct.pack(f"<IIQ{len(heads)}I", 9, 4, len(heads), *heads),
            "lfm2.attention.layer_norm_rms_epsilon": real(1e-5), "lfm2.rope.freq_base": real(1e6),
            "lfm2.shortconv.l_cache": uint(3), "lfm2.vocab_size": uint(VOCAB)}
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys))
    for key, value in keys.items():
        head += text(key) + value
    data = b""
    for name, (shape, values) in tensors.items():
        shape = [extent for extent in shape if extent != 1]
        head += text(gguf_name(name)) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *reversed(shape), 0, len(data))
        data += values + bytes(-len(values) % 32)
    file.write_bytes(head + bytes(-len(head) % 32) + data)


def make_model(folder: Path) -> None:
    numbers = random.Random(7)
    tensors: dict[str, tuple[list[int], bytes]] = {}

    def add(name: str, shape: list[int], mean: float, spread: float) -> None:
        size = 1
        for extent in shape:
            size *= extent
        values = [mean + spread * numbers.gauss(0.0, 1.0) for _ in range(size)]
        tensors[name] = (shape, struct.pack(f"<{size}f", *values))

    def matrix(name: str, rows: int, columns: int) -> None:
        add(name + ".weight", [rows, columns], 0.0, columns**-0.5)

    add("model.embed_tokens.weight", [VOCAB, HIDDEN], 0.0, 1.0)
    add("model.embedding_norm.weight", [HIDDEN], 1.0, 0.1)
    add("lm_head.weight", [VOCAB, HIDDEN], 0.0, 2.0 * HIDDEN**-0.5)
    head_dim = HIDDEN // HEADS
    for layer, kind in enumerate(LAYERS):
        prefix = f"model.layers.{layer}."
        add(prefix + "operator_norm.weight", [HIDDEN], 1.0, 0.1)
        add(prefix + "ffn_norm.weight", [HIDDEN], 1.0, 0.1)
        for name, rows, columns in (("w1", FFN, HIDDEN), ("w3", FFN, HIDDEN), ("w2", HIDDEN, FFN)):
            matrix(prefix + "feed_forward." + name, rows, columns)
        if kind == "conv":
            matrix(prefix + "conv.in_proj", 3 * HIDDEN, HIDDEN)
            matrix(prefix + "conv.out_proj", HIDDEN, HIDDEN)
            add(prefix + "conv.conv.weight", [HIDDEN, 1, 3], 0.0, 0.6)
            continue
        for name, rows in (("q_proj", HIDDEN), ("k_proj", KV_HEADS * head_dim), ("v_proj", KV_HEADS * head_dim),
                           ("out_proj", HIDDEN)):
            matrix(prefix + "self_attn." + name, rows, HIDDEN)
        for name in ("q_layernorm", "k_layernorm"):
            add(prefix + f"self_attn.{name}.weight", [head_dim], 1.0, 0.1)
    header, data = {}, b""
    for name, (shape, values) in tensors.items():
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    (folder / "config.json").write_text(json.dumps({
        "model_type": "lfm2", "vocab_size": VOCAB, "hidden_size": HIDDEN, "num_hidden_layers": len(LAYERS),
        "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "intermediate_size": FFN,
        "block_auto_adjust_ff_dim": False, "layer_types": LAYERS, "conv_L_cache": 3, "eos_token_id": 256,
        "max_position_embeddings": 4096, "tie_word_embeddings": False}))
    make_tokenizer(folder)
    write_gguf(tensors, folder.with_suffix(".gguf"))


def make_adapter(folder: Path) -> None:
    """LoRA of rank 2 on products around states and around attention."""
    numbers = random.Random(11)
    header, data = {}, b""
    shapes = {"0.conv.in_proj": (3 * HIDDEN, HIDDEN), "2.conv.out_proj": (HIDDEN, HIDDEN),
              "1.self_attn.out_proj": (HIDDEN, HIDDEN), "1.feed_forward.w3": (FFN, HIDDEN)}
    for module, (rows, columns) in shapes.items():
        for part, shape in (("lora_A", [2, columns]), ("lora_B", [rows, 2])):
            values = struct.pack(f"<{shape[0] * shape[1]}f",
                                 *(0.3 * numbers.gauss(0.0, 1.0) for _ in range(shape[0] * shape[1])))
            name = f"base_model.model.model.layers.{module}.{part}.weight"
            header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
            data += values
    text = json.dumps(header).encode()
    folder.mkdir()
    (folder / "adapter_model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    (folder / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": 2, "lora_alpha": 4}))


def run(*args: str, lines: list[dict] = ()) -> subprocess.CompletedProcess:
    text = "".join(json.dumps(line) + "\n" for line in lines)
    return subprocess.run([BANYAN, *args], input=text, capture_output=True, text=True, timeout=300)


def refused(result: subprocess.CompletedProcess, reason: str) -> None:
    check(result.returncode == 2 and reason in result.stderr, f"refused with '{reason}': {result.stderr[-300:]}")


with tempfile.TemporaryDirectory() as temporary:
    MODEL = temporary + "/lfm2"
    Path(MODEL).mkdir()
    make_model(Path(MODEL))
    numbers = random.Random(3)
    tokens = lambda count: [numbers.randrange(256) for _ in range(count)]
    forest = {"id": "f", "kind": "stacked", "p": tokens(140), "max_new": 6, "logprobs": True,
              "contexts": [{"c": tokens(90), "questions": [{"x": tokens(9)}, {"x": tokens(1)}, {"x": tokens(70)}]}
                           for _ in range(3)]}
    alone = run("ids", "-m", MODEL, "--one-by-one", "--strategy", "flat", lines=[forest])
    check(alone.returncode == 0 and len(json.loads(alone.stdout)["answers"]) == 3, "a forest, answers alone")
    for strategy in ("flat", "paged", "tree", "auto"):
        for rows in ("3", "512"):
            together = run("ids", "-m", MODEL, "--strategy", strategy, "--batch-rows", rows, lines=[forest])
            check(together.stdout == alone.stdout, f"{strategy}, {rows} rows: the same bits as alone")
    check(run("ids", "-m", MODEL + ".gguf", lines=[forest]).stdout == alone.stdout, "GGUF: the same bits")
    refused(run("ids", "-m", MODEL, "--strategy", "stacked", lines=[forest]), "stacked by masks need attention")
    skeleton = {"id": "s", "kind": "skeleton", "prompt": [1, 2], "attributes": [[3], [4]], "kmax": 2, "stop": 5}
    result = run("ids", "-m", MODEL, lines=[skeleton])
    check(result.returncode == 1 and "attention in every layer" in result.stdout, "a skeleton is an error row")

    explained = run("ids", "-m", MODEL, "--explain", lines=[forest]).stderr
    check("states    at most 13 of 512 bytes: " in explained, "--explain counts the states")
    check("prompts   1530 tokens as if alone" not in explained and "saved by sharing" in explained,
          "--explain shows what is shared")

    record = {"id": 1, "context": "The ferry leaves at seven.", "questions": [
        {"id": "a", "question": "When?"}, {"id": "b", "question": "What leaves?"}]}
    result = run("ask", "-m", MODEL, "-", "--max-new", "5", "--receipt", temporary + "/receipt.json", lines=[record])
    check(result.returncode == 0 and result.stdout.count('"answer"') == 2, f"ask: {result.stderr[-300:]}")
    receipt = json.loads(Path(temporary + "/receipt.json").read_text())
    check(0 < receipt["state_bytes_peak"] <= receipt["state_bytes_total"] < receipt["kv_bytes_total"],
          "the receipt counts states")
    long = record | {"context": "The ferry leaves at seven. " * 30}
    store, fresh = temporary + "/store", run("ask", "-m", MODEL, "-", "--max-new", "5", lines=[long])
    result = run("kv", "add", store, "-", "-m", MODEL, lines=[long])
    check(result.returncode == 0, f"kv add: {result.stderr[-300:]}")
    result = run("kv", "add", store, "-", "-m", MODEL, lines=[long])
    check("1 were there" in result.stderr, f"kv add again: {result.stderr[-300:]}")
    stored = run("ask", "-m", MODEL, "-", "--max-new", "5", "--kv-store", store, "--receipt", store + ".json", lines=[long])
    check(stored.stdout == fresh.stdout, "ask with stored states: the same bytes")
    check(json.loads(Path(store + ".json").read_text())["loaded_tokens"] > 700, "stored states are loaded")
    check(run("kv", "verify", store).returncode == 0, "kv verify reads states")

    schema = temporary + "/schema.json"
    Path(schema).write_text(json.dumps({"attributes": [{"name": "time"}, {"name": "vessel"}]}))
    document = {"id": 1, "text": "The ferry leaves at seven."}
    values = {}
    for mode in ("skeleton", "isolated"):
        result = run("extract", "-m", MODEL, "-", "--schema", schema, "--values", mode, "--gap", "0", "--max-tokens",
                     "4", lines=[document])
        check(result.returncode == 0, f"extract, {mode}: {result.stderr[-300:]}")
        values[mode] = result.stdout
    check(values["skeleton"] == values["isolated"], "extract: values branch from the document's state")
    refused(run("extract", "-m", MODEL, "-", "--schema", schema, "--stack", "2", lines=[document]),
            "leave --stack out")

    adapter = temporary + "/adapter"
    make_adapter(Path(adapter))
    line = {"id": "x", "kind": "logits", "ids": tokens(40)}
    base, merged, apart = (
        json.loads(run("ids", "-m", MODEL, *more, lines=[row]).stdout)["last_logits"]
        for more, row in (([], line), (["--adapter", adapter], line),
                          (["--adapter", f"a={adapter}"], line | {"adapter": "a"})))
    differ = lambda a, b: max(abs(x - y) for x, y in zip(a, b))
    check(differ(merged, base) > 0.05 and differ(merged, apart) < 1e-3, "an adapter, merged and apart")

    result = run("model", "info", MODEL)
    check(result.returncode == 0 and "lfm2" in result.stdout, f"model info: {result.stderr[-300:]}")

if failures:
    sys.exit(1)
print("states: ok")
