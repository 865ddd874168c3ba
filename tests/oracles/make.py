#!/usr/bin/env python3
"""Makes the oracles of this folder: tiny random models, and what other software computes with them.

usage: make.py [GROUP[/NAME] ...]     groups: models families hybrids lora encoders gguf texts (default: all)

README.md says what is here and which packages made it. Weights come from seeds, so a second run writes the same
weights; expected values may differ in the last printed digit on another processor.
"""
import functools
import json
import pathlib
import random
import shutil
import sys

import torch
import transformers
from safetensors.torch import save_file

import gguf_files
import methods
import texts

HERE = pathlib.Path(__file__).resolve().parent
VOCABULARY = 256
LEAST_MARGIN = 0.005  # float32 sums in another order differ by about 1e-5
# Of every decoder; what a model says otherwise stands in MODELS and FAMILIES.
COMMON = {"vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
          "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 2048,
          "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0, "tie_word_embeddings": False}


def rope(theta, **scaling):
    return {"rope_type": "default", "rope_theta": theta, **scaling}


# Folder: configuration class, and what differs from COMMON. No layer of these has a sliding window.
MODELS = {
    "llama-tied": ("Llama", {"num_hidden_layers": 3, "tie_word_embeddings": True, "rope_parameters": rope(1e5)}),
    "llama3-scaled": ("Llama", {"rope_parameters": rope(
        5e5, rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
        original_max_position_embeddings=64)}),
    "mistral-nemo": ("Mistral", {"hidden_size": 40, "intermediate_size": 40, "sliding_window": None,
                                 "rope_parameters": rope(1e6)}),
    "olmo2": ("Olmo2", {"num_attention_heads": 2, "head_dim": None, "rope_parameters": rope(5e5)}),
    "phi3": ("Phi3", {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": None, "sliding_window": None,
                      "rope_parameters": rope(1e4)}),
    "qwen2": ("Qwen2", {"num_hidden_layers": 3, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": None,
                        "tie_word_embeddings": True, "rope_parameters": rope(1e6)}),
    "qwen3": ("Qwen3", {"num_hidden_layers": 3, "tie_word_embeddings": True, "rope_parameters": rope(1e6)}),
}
SLIDING, FULL = "sliding_attention", "full_attention"
FAMILIES = {
    "gemma3": ("Gemma3Text", {
        "num_hidden_layers": 4, "num_key_value_heads": 1, "intermediate_size": 40, "query_pre_attn_scalar": 16,
        "layer_types": [SLIDING, SLIDING, FULL, SLIDING], "sliding_window": 24, "tie_word_embeddings": True,
        "rope_parameters": {FULL: rope(1e6), SLIDING: rope(1e4)}}),
    "smollm3": ("SmolLM3", {
        "num_hidden_layers": 4, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": None,
        "no_rope_layers": [1, 1, 1, 0], "tie_word_embeddings": True, "rope_parameters": rope(5e6)}),
    "olmo3": ("Olmo3", {
        "num_hidden_layers": 3, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": None,
        "layer_types": [SLIDING, SLIDING, FULL], "sliding_window": 24, "rope_parameters": {
            FULL: rope(5e5, rope_type="yarn", factor=8.0, beta_fast=32, beta_slow=1,
                       attention_factor=1.2079441541679836, original_max_position_embeddings=64),
            SLIDING: rope(5e5)}}),
    "granite": ("Granite", {
        "num_hidden_layers": 3, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": None,
        "attention_multiplier": 0.0625, "embedding_multiplier": 4.0, "residual_multiplier": 0.6, "logits_scaling": 2.0,
        "tie_word_embeddings": True, "rope_parameters": rope(1e7)}),
    "qwen3-moe": ("Qwen3Moe", {
        "num_experts": 7, "num_experts_per_tok": 3, "moe_intermediate_size": 16, "norm_topk_prob": True,
        "decoder_sparse_step": 1, "tie_word_embeddings": True, "rope_parameters": rope(1e6)}),
    "gpt-oss": ("GptOss", {
        "num_key_value_heads": 1, "intermediate_size": 20, "num_local_experts": 4, "num_experts_per_tok": 2,
        "layer_types": [SLIDING, FULL], "sliding_window": 24, "rope_parameters": rope(
            1.5e5, rope_type="yarn", factor=32.0, beta_fast=32.0, beta_slow=1.0, truncate=False,
            original_max_position_embeddings=64)}),
    "mistral-window": ("Mistral", {"sliding_window": 20, "rope_parameters": rope(1e4)}),
    "ministral3": ("Ministral3", {"sliding_window": None, "rope_parameters": rope(
        1e6, rope_type="yarn", factor=16.0, beta_fast=32.0, beta_slow=1.0, mscale=1.0, mscale_all_dim=1.0,
        llama_4_scaling_beta=0.1, original_max_position_embeddings=16)}),
    "granite4": ("GraniteMoeHybrid", {
        "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": None, "num_local_experts": 0,
        "num_experts_per_tok": 0, "shared_intermediate_size": 64, "mamba_n_heads": 8, "layer_types": [FULL, FULL],
        "position_embedding_type": "rope", "attention_multiplier": 0.125, "embedding_multiplier": 4.0,
        "residual_multiplier": 0.6, "logits_scaling": 2.0, "tie_word_embeddings": True,
        "rope_parameters": rope(1e4)}),
    # Transformers takes the long factors for prompts above the original context, Banyan whenever the context is longer:
    # every prompt here has more than 4 tokens.
    "phi3-longrope": ("Phi3", {
        "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": None, "sliding_window": 32,
        "original_max_position_embeddings": 4, "rope_parameters": rope(
            1e4, rope_type="longrope", partial_rotary_factor=0.75, short_factor=[1.0] * 6,
            long_factor=[1.0, 1.3, 1.7, 2.5, 4.0, 7.0], original_max_position_embeddings=4)}),
    "llama-biased": ("Llama", {"attention_bias": True, "mlp_bias": True,
                               "rope_parameters": rope(1e4, rope_type="linear", factor=4.0)}),
    "qwen2-window": ("Qwen2", {
        "num_hidden_layers": 3, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": None,
        "use_sliding_window": True, "sliding_window": 16, "max_window_layers": 1, "tie_word_embeddings": True,
        "rope_parameters": rope(1e6, rope_type="yarn", factor=4.0, original_max_position_embeddings=512)}),
    "gemma4": ("Gemma4Text", {
        "num_hidden_layers": 6, "num_key_value_heads": 1, "intermediate_size": 40, "global_head_dim": 24,
        "layer_types": [SLIDING, SLIDING, FULL, SLIDING, SLIDING, FULL], "sliding_window": 24,
        "hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": VOCABULARY, "num_kv_shared_layers": 2,
        "use_double_wide_mlp": True, "final_logit_softcapping": 30.0, "tie_word_embeddings": True,
        "rope_parameters": {FULL: rope(1e6, rope_type="proportional", partial_rotary_factor=0.25),
                            SLIDING: rope(1e4)}}),
    "gemma4-mixture": ("Gemma4Text", {
        "num_hidden_layers": 3, "intermediate_size": 40, "global_head_dim": 24, "num_global_key_value_heads": 1,
        "attention_k_eq_v": True, "layer_types": [SLIDING, SLIDING, FULL], "sliding_window": 24,
        "hidden_size_per_layer_input": 0, "enable_moe_block": True, "num_experts": 7, "top_k_experts": 3,
        "moe_intermediate_size": 16, "tie_word_embeddings": True,
        "rope_parameters": {FULL: rope(1e6, rope_type="proportional", partial_rotary_factor=0.25),
                            SLIDING: rope(1e4)}}),
}

LINEAR = "linear_attention"
DELTA = {"head_dim": 16, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 12,
         "linear_num_key_heads": 2, "linear_num_value_heads": 4, "num_hidden_layers": 4,
         "layer_types": [LINEAR, LINEAR, FULL, LINEAR]}
MAMBA = {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": None, "mamba_n_heads": 8, "mamba_d_head": 8,
         "mamba_d_state": 12, "mamba_d_conv": 4, "mamba_n_groups": 2, "mamba_expand": 2, "mamba_chunk_size": 16,
         "num_hidden_layers": 4, "layer_types": [LINEAR, LINEAR, FULL, LINEAR], "attention_multiplier": 0.25,
         "embedding_multiplier": 1.5, "residual_multiplier": 0.7, "logits_scaling": 0.5,
         "position_embedding_type": "nope", "rope_parameters": rope(1e4)}
CONV = {"num_hidden_layers": 4, "layer_types": ["conv", FULL, "conv", FULL], "conv_L_cache": 3, "head_dim": None,
        "tie_word_embeddings": True, "rope_parameters": rope(1e6)}
# Some layers keep a state instead of keys: no skeletons with position gaps.
HYBRIDS = {
    "lfm2": ("Lfm2", {**CONV, "block_auto_adjust_ff_dim": False}),
    "lfm2-mixture": ("Lfm2Moe", {**CONV, "num_dense_layers": 1, "num_experts": 6, "num_experts_per_tok": 2,
                                 "moe_intermediate_size": 16, "use_expert_bias": True, "norm_topk_prob": True}),
    "qwen3_5": ("Qwen3_5Text", {**DELTA, "rope_parameters": rope(
        1e7, partial_rotary_factor=0.25, mrope_interleaved=True, mrope_section=[1, 1, 0])}),
    "qwen3_5-mixture": ("Qwen3_5MoeText", {
        **DELTA, "num_experts": 7, "num_experts_per_tok": 3, "moe_intermediate_size": 16,
        "shared_expert_intermediate_size": 24, "rope_parameters": rope(
            1e7, partial_rotary_factor=0.25, mrope_interleaved=True, mrope_section=[1, 1, 0])}),
    "qwen3-next": ("Qwen3Next", {
        **DELTA, "num_experts": 7, "num_experts_per_tok": 3, "moe_intermediate_size": 16,
        "shared_expert_intermediate_size": 24, "decoder_sparse_step": 1, "norm_topk_prob": True,
        "mlp_only_layers": [1], "rope_parameters": rope(1e7, partial_rotary_factor=0.25)}),
    "granite4-h": ("GraniteMoeHybrid", {**MAMBA, "num_local_experts": 0, "num_experts_per_tok": 0,
                                        "shared_intermediate_size": 64}),
    "granite4-h-mixture": ("GraniteMoeHybrid", {
        **MAMBA, "num_local_experts": 6, "num_experts_per_tok": 2, "intermediate_size": 16,
        "shared_intermediate_size": 24}),
}


def fill(model, seed):
    """Random weights that give logits of ordinary spread: matrices keep the size of what they multiply."""
    generator = torch.Generator().manual_seed(seed)
    model.eval()
    minus_one = model.config.model_type.startswith(("gemma3_text", "qwen3_5", "qwen3_next"))  # stored so
    # Where embeddings are the output matrix too, a token would mostly predict itself unless they are small beside what
    # layers add; the last norm makes up for it.
    tied = hasattr(model, "lm_head") and model.config.tie_word_embeddings
    for name, value in sorted(model.named_parameters()):
        noise = torch.randn(value.shape, generator=generator)
        if name.endswith("norm.weight") or "LayerNorm.weight" in name:
            noise = 0.2 * noise + (0.0 if minus_one and "linear_attn" not in name else 1.0)
            if tied and name in ("model.norm.weight", "model.embedding_norm.weight"):
                noise += 5.0
        elif "conv" in name and value.ndim == 3:
            noise *= 0.6
        elif value.ndim == 1 or name.endswith("_bias"):
            noise = 0.3 * noise  # biases, sinks
        elif "embed" in name or "lm_head" in name:
            noise *= 0.1 if tied else 0.6
        else:
            noise = 1.3 * noise / model.config.hidden_size ** 0.5
        value.data = noise
    return model


def decoder(kind, changes, seed):
    settings = {**COMMON, **changes}
    if settings["head_dim"] is None:  # hidden_size / num_attention_heads
        del settings["head_dim"]
    config = getattr(transformers, kind + "Config")(**settings, attn_implementation="eager", dtype="float32")
    class_name = kind.replace("Text", "") + "ForCausalLM"
    return fill(getattr(transformers, class_name)(config), seed)


def draw(source, compute, least=LEAST_MARGIN, tries=200):
    """Inputs of `source`, a function without arguments, drawn until every choice of `compute` has a clear winner."""
    for _ in range(tries):
        given = source()
        result, margin = compute(given)
        if margin >= least:
            return given, result, margin
    raise RuntimeError("no inputs with clear choices")


class Oracle:
    """Expected values of one decoder, in the format that README.md describes."""

    def __init__(self, model, seed):
        self.model = model
        self.random = random.Random(seed)
        self.vocabulary = model.config.vocab_size

    def ids(self, count):
        return [self.random.randrange(3, self.vocabulary) for _ in range(count)]

    def prompts(self, lengths, max_new):
        found = []
        for length in lengths:
            ids, answer, margin = draw(lambda: self.ids(length),
                                       lambda ids: methods.greedy(self.model, ids, max_new))
            logits = methods.last_logits(self.model, ids)
            found.append({"ids": ids, "last_logits": [round(float(x), 6) for x in logits], "greedy": answer,
                          "min_gap": margin})
        return found

    def stacked(self):
        """Method 2: every question is answered alone."""
        instruction, max_new, stop, contexts = self.ids(9), 12, 2, []
        for context_length, question_lengths in ((21, (4, 7, 3)), (13, (6,)), (34, (5, 2, 8))):
            context, questions = self.ids(context_length), []
            for length in question_lengths:
                question, answer, margin = draw(
                    lambda: self.ids(length),
                    lambda x: methods.greedy(self.model, instruction + context + x, max_new, stop))
                questions.append({"x": question, "answer": answer, "min_gap": margin})
            contexts.append({"c": context, "questions": questions})
        return {"p": instruction, "contexts": contexts, "max_new": max_new, "stop": stop}

    def skeleton(self, length, pieces, kmax):
        """Method 4. The stop token is one that a first run writes, so that some values end before their budget."""
        budgets = kmax if isinstance(kmax, list) else [kmax] * len(pieces)

        def source():
            prompt, attributes = self.ids(length), [self.ids(size) for size in pieces]
            values, _ = methods.skeleton(self.model, prompt, attributes, budgets, None)
            return prompt, attributes, self.random.choice([token for value in values for token in value[1:]])

        (prompt, attributes, stop), values, margin = draw(
            source, lambda given: methods.skeleton(self.model, given[0], given[1], budgets, given[2]))
        return {"prompt": prompt, "attributes": attributes, "kmax": kmax, "stop": stop, "values": values,
                "min_gap": margin}

    def experts(self):
        """Method 5 with every rule and beta, all on the same documents and question."""
        dense, logits = [0.55, 0.2, -0.3, 0.4], [1.7, -0.4, -2.5, 0.9]
        shared = {"r": [methods.relevance(s, z) for s, z in zip(dense, logits)], "gamma": 2.5, "stop": 2}
        rules = {"dynamic": {}, "fixed_beta_05": {"beta": 0.5}, "gamma0": {"gamma": 0.0},
                 "shared_beta": {"beta": "shared"}, "mixture": {"rule": "mixture"}, "product": {"rule": "product"}}

        def compute(given):
            results, least = {}, float("inf")
            for name, rule in rules.items():
                results[name], margin = methods.experts(self.model, **given, **{**shared, **rule}, max_new=12)
                results[name]["min_gap"] = margin
                least = min(least, margin)
                if least < LEAST_MARGIN:
                    break
            return results, least

        given, results, _ = draw(lambda: {"system": self.ids(6), "question": self.ids(8),
                                          "documents": [self.ids(n) for n in (18, 11, 25, 14)]}, compute)
        return {**given, "dense_scores": dense, "reranker_logits": logits, **shared, **results}


def write_json(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")


def fresh(path):
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    return path


def make_decoders(group, table, only=None):
    for number, (name, (kind, changes)) in enumerate(table.items()):
        if only and name != only:
            continue
        folder = fresh(HERE / group / name)
        model = decoder(kind, changes, seed=100 + number)
        model.save_pretrained(folder)
        oracle = Oracle(model, seed=f"{group} {name}")
        golden = {"prompts": oracle.prompts((5, 23, 61), 24), "stacked": oracle.stacked()}
        if group != "hybrids":
            golden["skeleton"] = oracle.skeleton(20, (4, 2, 5, 3, 1), 10)
            golden["skeleton_k"] = oracle.skeleton(26, (3, 4, 2, 6), [4, 12, 1, 7])
        write_json(folder / "golden.json", {**golden, "experts": oracle.experts()})
        print(group, name, flush=True)


ADAPTERS = {
    "models/llama-tied": {"r": 2, "lora_alpha": 4, "target_modules": ["q_proj", "v_proj"]},
    "models/phi3": {"r": 4, "lora_alpha": 6, "use_rslora": True,
                    "target_modules": ["qkv_proj", "o_proj", "gate_up_proj", "down_proj"]},
    "models/qwen3": {"r": 4, "lora_alpha": 8, "target_modules": [
        "q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]},
    # Modules whose rows belong to several products.
    "hybrids/qwen3_5": {"r": 3, "lora_alpha": 3, "target_modules": [
        "q_proj", "k_proj", "o_proj", "in_proj_qkv", "in_proj_z", "in_proj_a", "in_proj_b", "out_proj", "up_proj"]},
    "hybrids/qwen3-next": {"r": 2, "lora_alpha": 2, "target_modules": [
        "q_proj", "v_proj", "in_proj_qkvz", "in_proj_ba", "out_proj"]},
    "hybrids/granite4-h": {"r": 2, "lora_alpha": 2, "target_modules": ["q_proj", "in_proj", "out_proj"]},
}


def make_lora(only=None):
    """PEFT adapters on some of MODELS and HYBRIDS."""
    import peft
    for number, (path, settings) in enumerate(ADAPTERS.items()):
        name = path.split("/")[1]
        if only and name != only:
            continue
        folder = fresh(HERE / "lora" / name)
        base = transformers.AutoModelForCausalLM.from_pretrained(HERE / path, attn_implementation="eager",
                                                                 dtype="float32")
        base.name_or_path = name
        model = peft.get_peft_model(base, peft.LoraConfig(task_type="CAUSAL_LM", **settings)).eval()
        generator = torch.Generator().manual_seed(200 + number)
        for parameter_name, value in sorted(model.named_parameters()):
            if "lora_" in parameter_name:
                value.data = 0.25 * torch.randn(value.shape, generator=generator)
        model.save_pretrained(folder)
        (folder / "README.md").unlink(missing_ok=True)  # an empty model card
        config = json.loads((folder / "adapter_config.json").read_text())
        config["base_model_name_or_path"], config["target_modules"] = name, sorted(config["target_modules"])
        (folder / "adapter_config.json").write_text(json.dumps(config, indent=1) + "\n")
        write_json(folder / "golden.json", {"model": f"../../{path}",
                                            "prompts": Oracle(model, seed=f"lora {name}").prompts((6, 31), 16)})
        print("lora", name, flush=True)


def make_encoders():
    """BERT with mean pooling, XLM-R with the three heads of BGE-M3, XLM-R as a reranker."""
    common = {"vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
              "num_attention_heads": 4, "hidden_dropout_prob": 0, "attention_probs_dropout_prob": 0,
              "attn_implementation": "eager", "dtype": "float32"}
    source = random.Random("encoders")
    ids = lambda count: [source.randrange(4, VOCABULARY) for _ in range(count)]
    unit = lambda x: x / x.norm(dim=-1, keepdim=True)
    numbers = lambda x: [round(float(v), 6) for v in x]

    folder = fresh(HERE / "encoders/bert-mean")
    bert = transformers.BertModel(
        transformers.BertConfig(**common, max_position_embeddings=128, type_vocab_size=2), add_pooling_layer=False)
    fill(bert, 300).save_pretrained(folder)
    with torch.no_grad():
        rows = [ids(n) for n in (1, 4, 19, 90)]
        write_json(folder / "golden.json", [
            {"ids": row, "dense_mean": numbers(unit(bert(torch.tensor([row])).last_hidden_state[0].mean(0)))}
            for row in rows])

    roberta = {**common, "max_position_embeddings": 130, "type_vocab_size": 1, "bos_token_id": 0, "pad_token_id": 1,
               "eos_token_id": 2}
    folder = fresh(HERE / "encoders/xlmr-m3")
    m3 = transformers.XLMRobertaModel(transformers.XLMRobertaConfig(**roberta), add_pooling_layer=False)
    fill(m3, 301).save_pretrained(folder)
    generator = torch.Generator().manual_seed(302)
    heads = {"colbert_linear.weight": torch.randn(32, 32, generator=generator) / 32 ** 0.5,
             "colbert_linear.bias": 0.3 * torch.randn(32, generator=generator),
             "sparse_linear.weight": torch.randn(1, 32, generator=generator) / 32 ** 0.5,
             "sparse_linear.bias": 0.3 * torch.randn(1, generator=generator)}
    save_file(heads, folder / "heads.safetensors")
    expected = []
    with torch.no_grad():
        for row in ([0] + ids(n) + [2] for n in (4, 17, 60)):
            hidden = m3(torch.tensor([row])).last_hidden_state[0]
            weights = torch.relu(hidden @ heads["sparse_linear.weight"].T + heads["sparse_linear.bias"])[:, 0]
            sparse = {}
            for token, weight in zip(row, weights.tolist()):
                if token > 3 and weight > 0:  # no special tokens
                    sparse[str(token)] = max(sparse.get(str(token), 0.0), round(weight, 6))
            colbert = unit(hidden[1:] @ heads["colbert_linear.weight"].T + heads["colbert_linear.bias"])
            expected.append({"ids": row, "dense_cls": numbers(unit(hidden[0])), "sparse": sparse,
                             "colbert": [numbers(x) for x in colbert]})
    write_json(folder / "golden.json", expected)

    folder = fresh(HERE / "encoders/xlmr-reranker")
    reranker = transformers.XLMRobertaForSequenceClassification(transformers.XLMRobertaConfig(**roberta, num_labels=1))
    fill(reranker, 303).save_pretrained(folder)
    with torch.no_grad():
        rows = [[0] + ids(n) + [2, 2] + ids(m) + [2] for n, m in ((4, 11), (9, 40), (1, 1))]
        write_json(folder / "golden.json", [
            {"ids": row, "logit": round(float(reranker(torch.tensor([row])).logits[0, 0]), 6)} for row in rows])
    print("encoders", flush=True)


def make_gguf():
    """Files whose weights are what gguf-py makes of quantised blocks; Transformers computes with these weights."""
    folder = fresh(HERE / "gguf")
    for number, (architecture, kind, type_name, width) in enumerate(gguf_files.FILES):
        name = f"{architecture}-{type_name.lower()}"
        settings = {"vocab_size": 128, "hidden_size": width, "intermediate_size": 32 if width == 256 else 64,
                    "rope_parameters": rope(1e5), "tie_word_embeddings": architecture == "qwen3"}
        model = decoder(kind, settings, seed=400 + number)
        types = gguf_files.write(model, architecture, type_name, folder / f"{name}.gguf", seed=400 + number)
        write_json(folder / f"{name}.json", {"tensor_types": types,
                                             "prompts": Oracle(model, seed=f"gguf {name}").prompts((6, 40), 12)})
        print("gguf", name, flush=True)


TABLES = {"models": MODELS, "families": FAMILIES, "hybrids": HYBRIDS}
NAMES = {**TABLES, "lora": {path.split("/")[1] for path in ADAPTERS}}
GROUPS = {
    **{group: functools.partial(make_decoders, group, table) for group, table in TABLES.items()},
    "lora": make_lora,
    "encoders": make_encoders,
    "gguf": make_gguf,
    "texts": lambda: texts.make(HERE, write_json, fresh),
}

if __name__ == "__main__":
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    for wanted in sys.argv[1:] or GROUPS:
        group, *name = wanted.split("/")
        if group not in GROUPS or (name and name[0] not in NAMES.get(group, ())):
            sys.exit(f"unknown: {wanted}; groups are {', '.join(GROUPS)}, names those of {', '.join(NAMES)}")
        GROUPS[group](*name)
