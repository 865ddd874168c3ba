"""Our shapes of random weights (src/load/random_model.cc) as vLLM 0.24 wants them: config.json, and options of vllm.LLM
that a family needs. NAME-thin has fewer layers, as ours has."""

from __future__ import annotations

import importlib.util
from typing import Any

Fields = dict[str, Any]

QWEN3 = {
    "rms_norm_eps": 1e-6,
    "rope_theta": 1e6,
    "max_position_embeddings": 40960,
    "hidden_act": "silu",
    "attention_bias": False,
    "use_sliding_window": False,
    "head_dim": 128,
    "vocab_size": 151936,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "bos_token_id": 151643,
    "eos_token_id": 151645,
}
QWEN3_8B = {
    **QWEN3,
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "hidden_size": 4096,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 12288,
}
QWEN3_30B_A3B = {
    **QWEN3,
    "architectures": ["Qwen3MoeForCausalLM"],
    "model_type": "qwen3_moe",
    "hidden_size": 2048,
    "num_hidden_layers": 48,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "intermediate_size": 6144,
    "moe_intermediate_size": 768,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "norm_topk_prob": True,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
}
# Three layers of four keep a state by the gated delta rule.
QWEN3_5 = {
    "vocab_size": 248320,
    "head_dim": 256,
    "rms_norm_eps": 1e-6,
    "hidden_act": "silu",
    "max_position_embeddings": 262144,
    "tie_word_embeddings": False,
    "attention_bias": False,
    "attn_output_gate": True,
    "full_attention_interval": 4,
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
    "mamba_ssm_dtype": "float32",
    "rope_theta": 1e7,
    "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 1e7,
        "partial_rotary_factor": 0.25,
        "mrope_section": [11, 11, 10],
        "mrope_interleaved": True,
    },
    "dtype": "bfloat16",
}
QWEN3_5_9B = {
    **QWEN3_5,
    "model_type": "qwen3_5_text",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "intermediate_size": 12288,
}
QWEN3_5_35B_A3B = {
    **QWEN3_5,
    "model_type": "qwen3_5_moe_text",
    "hidden_size": 2048,
    "num_hidden_layers": 40,
    "num_attention_heads": 16,
    "num_key_value_heads": 2,
    "moe_intermediate_size": 512,
    "shared_expert_intermediate_size": 512,
    "num_experts": 256,
    "num_experts_per_tok": 8,
}
# The window slides in five layers of six; the sixth has heads of its own size.
GEMMA4 = {
    "architectures": ["Gemma4ForCausalLM"],
    "model_type": "gemma4_text",
    "vocab_size": 262144,
    "head_dim": 256,
    "global_head_dim": 512,
    "rms_norm_eps": 1e-6,
    "hidden_activation": "gelu_pytorch_tanh",
    "final_logit_softcapping": 30.0,
    "tie_word_embeddings": True,
    "attention_bias": False,
    "enable_moe_block": False,
    "use_double_wide_mlp": False,
    "rope_parameters": {
        "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
        "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1e6},
    },
    "bos_token_id": 2,
    "eos_token_id": 1,
    "pad_token_id": 0,
    "dtype": "bfloat16",
}
GEMMA4_E4B = {
    **GEMMA4,
    "hidden_size": 2560,
    "num_hidden_layers": 42,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "intermediate_size": 10240,
    "sliding_window": 512,
    "hidden_size_per_layer_input": 256,
    "vocab_size_per_layer_input": 262144,
    "num_kv_shared_layers": 18,
    "max_position_embeddings": 131072,
}
GEMMA4_31B = {
    **GEMMA4,
    "hidden_size": 5376,
    "num_hidden_layers": 60,
    "num_attention_heads": 32,
    "num_key_value_heads": 16,
    "num_global_key_value_heads": 4,
    "attention_k_eq_v": True,
    "intermediate_size": 21504,
    "sliding_window": 1024,
    "hidden_size_per_layer_input": 0,
    "max_position_embeddings": 262144,
}
TEXTS = {
    "qwen3-8b": QWEN3_8B,
    "qwen3-8b-thin": {**QWEN3_8B, "num_hidden_layers": 4, "vocab_size": 8192},
    "qwen3-30b-a3b": QWEN3_30B_A3B,
    "qwen3.5-9b": QWEN3_5_9B,
    "qwen3.5-9b-thin": {**QWEN3_5_9B, "num_hidden_layers": 4, "vocab_size": 8192},
    "qwen3.5-35b-a3b": QWEN3_5_35B_A3B,
    "qwen3.5-35b-a3b-thin": {**QWEN3_5_35B_A3B, "num_hidden_layers": 4, "vocab_size": 8192, "num_experts": 32},
    "gemma4-e4b": GEMMA4_E4B,
    "gemma4-e4b-thin": {
        **GEMMA4_E4B,
        "num_hidden_layers": 12,
        "num_kv_shared_layers": 6,
        "vocab_size": 8192,
        "vocab_size_per_layer_input": 8192,
    },
    "gemma4-31b": GEMMA4_31B,
    "gemma4-31b-thin": {**GEMMA4_31B, "num_hidden_layers": 6, "vocab_size": 8192},
}
# vLLM 0.24 knows Qwen3.5 with its images alone; `language_model_only` leaves them out.
WITH_IMAGES = {
    "qwen3_5_text": ("qwen3_5", "Qwen3_5ForConditionalGeneration"),
    "qwen3_5_moe_text": ("qwen3_5_moe", "Qwen3_5MoeForConditionalGeneration"),
}


def config_of(shape: str, smaller: Fields | None = None) -> Fields:
    """The fields of config.json; `smaller` replaces some of the text model's."""
    text = {**TEXTS[shape], **(smaller or {})}
    if text["model_type"] not in WITH_IMAGES:
        return text
    model_type, architecture = WITH_IMAGES[text["model_type"]]
    vision = {"model_type": model_type, "depth": 1, "out_hidden_size": text["hidden_size"]}
    return {
        "architectures": [architecture],
        "model_type": model_type,
        "text_config": text,
        "vision_config": vision,
        "tie_word_embeddings": False,
        "dtype": "bfloat16",
    }


def options_of(shape: str) -> Fields:
    """What vllm.LLM needs to be told for it."""
    text = TEXTS[shape]
    options: Fields = {}
    if text["model_type"] in WITH_IMAGES:
        options["language_model_only"] = True
        if importlib.util.find_spec("flashinfer") is None:
            # By default it takes FlashInfer's kernel on Hopper without looking whether it is there.
            options["additional_config"] = {"gdn_prefill_backend": "triton"}
    if text["model_type"] == "gemma4_text":
        # Transformers 5.17 keeps what differs by layer there, and refuses to name it for all; vLLM 0.24 asks so.
        names = ("global_head_dim", "num_global_key_value_heads")
        options["hf_overrides"] = {
            "allow_global_per_layer_attribute_access": True,
            **{name: text[name] for name in names if name in text},
        }
    return options
