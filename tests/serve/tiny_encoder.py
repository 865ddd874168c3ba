"""A small random encoder of letters, as a folder of Hugging Face's form: what tests of embeddings serve."""
import array
import json
import pathlib
import random

HIDDEN, FFN, CONTEXT = 48, 80, 300
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
LETTERS = [prefix + chr(ord("a") + i) for prefix in ("", "##") for i in range(26)]


def tokenizer():
    def special(token):
        return {"SpecialToken": {"id": token, "type_id": 0}}
    return {"version": "1.0",
            "added_tokens": [{"id": i, "content": token, "special": True, "single_word": False, "lstrip": False, "rstrip": False,
                              "normalized": False} for i, token in enumerate(SPECIAL)],
            "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True},
            "pre_tokenizer": {"type": "BertPreTokenizer"},
            "post_processor": {"type": "TemplateProcessing", "single": [special("[CLS]"), {"Sequence": {"id": "A", "type_id": 0}}, special("[SEP]")],
                               "pair": [], "special_tokens": {token: {"id": token, "ids": [i], "tokens": [token]}
                                                              for i, token in enumerate(SPECIAL) if i >= 2}},
            "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
            "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
                      "vocab": {token: i for i, token in enumerate(SPECIAL + LETTERS)}}}


def shapes(layers):
    """Name → (shape, mean): weights of the layers in the order in which they are computed."""
    found = {"embeddings.word_embeddings.weight": ([len(SPECIAL + LETTERS), HIDDEN], 0.0),
             "embeddings.position_embeddings.weight": ([CONTEXT, HIDDEN], 0.0),
             "embeddings.token_type_embeddings.weight": ([2, HIDDEN], 0.0)}
    norms = ["embeddings.LayerNorm"]
    for layer in range(layers):
        name = f"encoder.layer.{layer}."
        for part, outputs, inputs in (("attention.self.query", HIDDEN, HIDDEN), ("attention.self.key", HIDDEN, HIDDEN),
                                      ("attention.self.value", HIDDEN, HIDDEN), ("attention.output.dense", HIDDEN, HIDDEN),
                                      ("intermediate.dense", FFN, HIDDEN), ("output.dense", HIDDEN, FFN)):
            found[f"{name}{part}.weight"], found[f"{name}{part}.bias"] = ([outputs, inputs], 0.0), ([outputs], 0.0)
        norms += [name + "attention.output.LayerNorm", name + "output.LayerNorm"]
    for norm in norms:
        found[norm + ".weight"], found[norm + ".bias"] = ([HIDDEN], 1.0), ([HIDDEN], 0.0)
    return found


def write(folder, layers=2):
    """config.json, tokenizer.json and model.safetensors; returns the folder's path as a text."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    config = {"architectures": ["BertModel"], "model_type": "bert", "vocab_size": len(SPECIAL + LETTERS), "hidden_size": HIDDEN,
              "num_hidden_layers": layers, "num_attention_heads": 4, "intermediate_size": FFN, "max_position_embeddings": CONTEXT,
              "pad_token_id": 0, "type_vocab_size": 2, "hidden_act": "gelu", "layer_norm_eps": 1e-5}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer()))
    rng, header, data = random.Random(7), {}, b""
    for name, (shape, mean) in shapes(layers).items():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        values = array.array("f", (mean + rng.gauss(0, 0.2) for _ in range(count))).tobytes()
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    (folder / "model.safetensors").write_bytes(len(head).to_bytes(8, "little") + head + data)
    return str(folder)
