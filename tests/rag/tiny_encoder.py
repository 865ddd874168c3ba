"""Encoders that a test can reckon with: no attention, so that a text's vector is the mean of its words' vectors, and words of
one group have the same vector ("boat" and "ferry"). Written as Hugging Face directories.
"""
import json
import math
import pathlib
import struct

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]


def save(path: pathlib.Path, tensors: dict[str, tuple[list[int], list[float]]]) -> None:
    """As safetensors, float32."""
    header, data = {}, b""
    for name, (shape, values) in tensors.items():
        raw = struct.pack(f"<{len(values)}f", *values)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    head = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(head)) + head + data)


def tokenizer(vocabulary: list[str]) -> dict:
    part = lambda name: {"SpecialToken": {"id": name, "type_id": 0}}
    added = [dict(id=i, content=t, special=True, single_word=False, lstrip=False, rstrip=False, normalized=False)
             for i, t in enumerate(SPECIAL)]
    return {"version": "1.0", "added_tokens": added,
            "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True},
            "pre_tokenizer": {"type": "BertPreTokenizer"},
            "post_processor": {"type": "TemplateProcessing", "single": [part("[CLS]"), {"Sequence": {"id": "A", "type_id": 0}}, part("[SEP]")],
                               "pair": [], "special_tokens": {t: {"id": t, "ids": [SPECIAL.index(t)], "tokens": [t]} for t in ("[CLS]", "[SEP]")}},
            "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
            "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
                      "vocab": {t: i for i, t in enumerate(vocabulary)}}}


def write(folder: pathlib.Path, groups: list[list[str]], kind: str = "bert", logit: float = 0.0, size: int = 64) -> str:
    """kind: bert (dense), m3 (dense, sparse with weight 1 for every token, multi-vector) or reranker (the same logit for all)."""
    folder.mkdir(parents=True, exist_ok=True)
    words = [word for group in groups for word in group]
    vocabulary = SPECIAL + words
    place = {word: len(SPECIAL) + g for g, group in enumerate(groups) for word in group} | {t: i for i, t in enumerate(SPECIAL)}
    xlm = kind != "bert"
    first = 2 if xlm else 0
    table = []
    for token in vocabulary:  # one pair of values for each group: norms see mean 0
        vector = [0.0] * size
        quiet = token in SPECIAL
        vector[2 * place[token] % size], vector[(2 * place[token] + 1) % size] = (0.1, -0.1) if quiet else (1.0, -1.0)
        table += vector
    zeros = lambda *shape: (list(shape), [0.0] * math.prod(shape))
    ones = lambda n: ([n], [1.0] * n)
    tensors = {"embeddings.word_embeddings.weight": ([len(vocabulary), size], table),
               "embeddings.position_embeddings.weight": zeros(512 + first, size),
               "embeddings.token_type_embeddings.weight": zeros(1 if xlm else 2, size),
               "embeddings.LayerNorm.weight": ones(size), "embeddings.LayerNorm.bias": zeros(size)}
    layer = "encoder.layer.0."
    for name, rows, columns in (("attention.self.query", size, size), ("attention.self.key", size, size), ("attention.self.value", size, size),
                                ("attention.output.dense", size, size), ("intermediate.dense", size, size), ("output.dense", size, size)):
        tensors[f"{layer}{name}.weight"], tensors[f"{layer}{name}.bias"] = zeros(rows, columns), zeros(rows)
    for name in ("attention.output.LayerNorm", "output.LayerNorm"):
        tensors[f"{layer}{name}.weight"], tensors[f"{layer}{name}.bias"] = ones(size), zeros(size)
    name = "BertModel" if not xlm else "XLMRobertaForSequenceClassification" if kind == "reranker" else "XLMRobertaModel"
    if kind == "reranker":
        tensors = {"roberta." + key: value for key, value in tensors.items()}
        tensors |= {"classifier.dense.weight": zeros(size, size), "classifier.dense.bias": zeros(size),
                    "classifier.out_proj.weight": zeros(1, size), "classifier.out_proj.bias": ([1], [logit])}
    if kind == "m3":
        identity = [1.0 if i == j else 0.0 for i in range(size) for j in range(size)]
        save(folder / "heads.safetensors", {"sparse_linear.weight": zeros(1, size), "sparse_linear.bias": ([1], [1.0]),
                                            "colbert_linear.weight": ([size, size], identity), "colbert_linear.bias": zeros(size)})
        (folder / "1_Pooling").mkdir(exist_ok=True)
        (folder / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_mean_tokens": True}))
    save(folder / "model.safetensors", tensors)
    config = dict(architectures=[name], model_type="xlm-roberta" if xlm else "bert", vocab_size=len(vocabulary), hidden_size=size, num_hidden_layers=1,
                  num_attention_heads=4, intermediate_size=size, max_position_embeddings=512 + first, pad_token_id=1 if xlm else 0,
                  type_vocab_size=1 if xlm else 2, hidden_act="gelu", layer_norm_eps=1e-5)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer(vocabulary)))
    return str(folder)
