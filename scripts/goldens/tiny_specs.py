"""The tiny random models: their configurations and weights. Used by models.py and quantised.py.

A model is a `Spec`: a Hugging Face config as published checkpoints write it, and how its files are stored. Weights are
drawn tensor by tensor from a generator seeded by (model, tensor), so that adding a tensor leaves the others as they
were, and rounded to the dtype of the Hugging Face folder, so that the folder and the GGUF hold equal values.
The shapes avoid the tile grid on purpose: vocabularies and feed-forward widths that no kernel tile divides, an odd
number of heads, head dimensions of 32 and 80.
"""

import dataclasses
import zlib

import numpy as np
import torch

VOCAB = 283  # 256 bytes, 24 merges, 3 special tokens: 17 * 16 + 11
EOS, BOS, EOT = 280, 281, 282


@dataclasses.dataclass(frozen=True)
class Spec:
    name: str
    config: dict
    hf_dtype: torch.dtype = torch.float32
    # Of the norms, if another. Norms and quantised embeddings with few bits meet in products that lie exactly between
    # two int8 steps, and then the last bit of a float sum decides: models with quantised files have float32 norms.
    norm_dtype: torch.dtype | None = None
    gguf: str | None = "f32"  # type of the matrices in the GGUF; None: the GGUF format cannot say this model
    hf_shards: int = 1
    gguf_shards: int = 1
    hidden_layers: tuple = (0, 1)  # layers whose outputs are golden


def common(model_type: str, arch: str, **over) -> dict:
    config = {
        "architectures": [arch],
        "model_type": model_type,
        "vocab_size": VOCAB,
        "num_hidden_layers": 2,
        "max_position_embeddings": 512,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "attention_bias": False,
        "attention_dropout": 0.0,
        "tie_word_embeddings": False,
        "bos_token_id": BOS,
        "eos_token_id": EOS,
        "use_cache": True,
    }
    return config | over


def moe(norm_topk_prob: bool) -> dict:
    return common(
        "qwen3_moe", "Qwen3MoeForCausalLM", hidden_size=64, intermediate_size=96, num_attention_heads=2,
        num_key_value_heads=1, head_dim=32, num_experts=8, num_experts_per_tok=2, moe_intermediate_size=32,
        norm_topk_prob=norm_topk_prob, decoder_sparse_step=1, mlp_only_layers=[], rms_norm_eps=1e-6,
        rope_theta=1000000.0)


def gemma3(**over) -> dict:
    config = common(
        "gemma3_text", "Gemma3ForCausalLM", hidden_size=48, intermediate_size=40, num_attention_heads=3,
        num_key_value_heads=1, head_dim=32, query_pre_attn_scalar=32, sliding_window=16, rope_theta=1000000.0,
        rope_local_base_freq=10000.0, rms_norm_eps=1e-6, tie_word_embeddings=True, final_logit_softcapping=None,
        attn_logit_softcapping=None, hidden_activation="gelu_pytorch_tanh")
    del config["hidden_act"]
    if "rope_parameters" in over:
        del config["rope_theta"], config["rope_local_base_freq"]
    return config | over


SPECS = [
    Spec("llama",
         common("llama", "LlamaForCausalLM", hidden_size=64, intermediate_size=88, num_attention_heads=2,
                num_key_value_heads=1),
         hf_shards=3),
    # With 64 original positions the 16 wavelengths (6 to 35,000) fall into all three branches of the scaling.
    Spec("llama3",
         common("llama", "LlamaForCausalLM", hidden_size=96, intermediate_size=104, num_attention_heads=3,
                num_key_value_heads=1, head_dim=32, tie_word_embeddings=True,
                rope_scaling={"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                              "original_max_position_embeddings": 64, "rope_type": "llama3"}),
         hf_dtype=torch.bfloat16, gguf_shards=2),
    # What few llamas have: biases of all four attention products, and linear scaling.
    Spec("llama-bias",
         common("llama", "LlamaForCausalLM", hidden_size=64, intermediate_size=40, num_attention_heads=2,
                num_key_value_heads=1, attention_bias=True, tie_word_embeddings=True,
                rope_scaling={"factor": 4.0, "rope_type": "linear"}),
         hf_dtype=torch.bfloat16),
    Spec("qwen2",
         common("qwen2", "Qwen2ForCausalLM", hidden_size=96, intermediate_size=76, num_attention_heads=3,
                num_key_value_heads=3, tie_word_embeddings=True, rms_norm_eps=1e-6, rope_theta=1000000.0,
                sliding_window=32, use_sliding_window=False, max_window_layers=2),
         hf_dtype=torch.float16, gguf="f16"),
    Spec("qwen3",
         common("qwen3", "Qwen3ForCausalLM", hidden_size=66, intermediate_size=88, num_attention_heads=3,
                num_key_value_heads=1, head_dim=80, tie_word_embeddings=True, rms_norm_eps=1e-6, rope_theta=1000000.0),
         hf_dtype=torch.bfloat16, gguf="bf16"),
    Spec("qwen3moe", moe(True), hf_dtype=torch.bfloat16, norm_dtype=torch.float32),
    # GGUF has no key for unnormalised expert weights of this architecture, hence no file.
    Spec("qwen3moe-nonorm", moe(False), hf_dtype=torch.bfloat16, gguf=None),
    # The pattern of six: layers 0 to 4 and 6 slide, layer 5 sees everything, with the 4B's linear scaling.
    Spec("gemma3", gemma3(num_hidden_layers=7, sliding_window_pattern=6,
                          rope_scaling={"factor": 8.0, "rope_type": "linear"}),
         hf_dtype=torch.bfloat16, hidden_layers=(0, 4, 5, 6)),
    # What only the folder can say: explicit layer types, an attention scale that is not 1/sqrt(head_dim), and the
    # rope parameters in the nested form that newer checkpoints have.
    Spec("gemma3-types", gemma3(num_hidden_layers=3, query_pre_attn_scalar=20,
                                layer_types=["sliding_attention", "full_attention", "sliding_attention"],
                                rope_parameters={"full_attention": {"rope_type": "default", "rope_theta": 500000.0},
                                                 "sliding_attention": {"rope_type": "default",
                                                                       "rope_theta": 5000.0}}),
         hf_dtype=torch.bfloat16, gguf=None, hidden_layers=(0, 1, 2)),
]

# One layer whose matrices have rows of 256, as K-quants need. The output projection of the attention (rows of 64) and
# the down projection (rows of 96) get the fallback types that llama-quantize chooses.
QUANT_VOCAB = 67
QUANT = Spec("quant",
             common("llama", "LlamaForCausalLM", hidden_size=256, intermediate_size=96, num_attention_heads=2,
                    num_key_value_heads=1, head_dim=32, num_hidden_layers=1, tie_word_embeddings=True,
                    vocab_size=QUANT_VOCAB, bos_token_id=65, eos_token_id=64),
             hf_dtype=torch.bfloat16, norm_dtype=torch.float32, hidden_layers=(0,))


def head_dim(config: dict) -> int:
    return config.get("head_dim", config["hidden_size"] // config["num_attention_heads"])


def shapes(config: dict) -> dict[str, tuple]:
    """Name to shape of every tensor, in the order of the Hugging Face file."""
    hidden, ffn, hd = config["hidden_size"], config["intermediate_size"], head_dim(config)
    q, kv = config["num_attention_heads"] * hd, config["num_key_value_heads"] * hd
    kind = config["model_type"]
    out = {"model.embed_tokens.weight": (config["vocab_size"], hidden)}
    for layer in range(config["num_hidden_layers"]):
        p = f"model.layers.{layer}."
        out[p + "input_layernorm.weight"] = (hidden,)
        for name, rows, cols in (("q", q, hidden), ("k", kv, hidden), ("v", kv, hidden), ("o", hidden, q)):
            out[p + f"self_attn.{name}_proj.weight"] = (rows, cols)
            if (kind == "qwen2" and name != "o") or config["attention_bias"]:
                out[p + f"self_attn.{name}_proj.bias"] = (rows,)
        if kind in ("qwen3", "qwen3_moe", "gemma3_text"):
            out[p + "self_attn.q_norm.weight"] = (hd,)
            out[p + "self_attn.k_norm.weight"] = (hd,)
        out[p + "post_attention_layernorm.weight"] = (hidden,)
        if kind == "gemma3_text":
            out[p + "pre_feedforward_layernorm.weight"] = (hidden,)
            out[p + "post_feedforward_layernorm.weight"] = (hidden,)
        mlps = [(p + "mlp.", ffn)]
        if kind == "qwen3_moe":
            out[p + "mlp.gate.weight"] = (config["num_experts"], hidden)
            mlps = [(p + f"mlp.experts.{e}.", config["moe_intermediate_size"]) for e in range(config["num_experts"])]
        for prefix, width in mlps:
            out[prefix + "gate_proj.weight"] = (width, hidden)
            out[prefix + "up_proj.weight"] = (width, hidden)
            out[prefix + "down_proj.weight"] = (hidden, width)
    out["model.norm.weight"] = (hidden,)
    if not config["tie_word_embeddings"]:
        out["lm_head.weight"] = (config["vocab_size"], hidden)
    return out


def draw(spec: Spec, name: str, shape: tuple) -> torch.Tensor:
    """One tensor: spread so that attention is peaked, experts are chosen clearly and logits differ by a few units."""
    rng = np.random.Generator(np.random.PCG64(zlib.crc32(f"{spec.name}/{name}".encode())))
    x = rng.standard_normal(shape)
    gemma = spec.config["model_type"] == "gemma3_text"
    if "norm" in name:
        x = 0.3 * x + (0.0 if gemma else 1.0)  # gemma stores the difference from 1
    elif name.endswith("bias"):
        x = 0.5 * x
    elif "embed_tokens" in name:
        x = (0.2 if gemma else 0.3) * x
    else:
        gain = {"q_proj": 1.5, "k_proj": 1.5, "gate": 3.0, "lm_head": 3.0}.get(name.split(".")[-2], 1.0)
        x = gain / shape[1] ** 0.5 * x
    dtype = spec.norm_dtype if "norm" in name and spec.norm_dtype else spec.hf_dtype
    return torch.from_numpy(x.astype(np.float32)).to(dtype)


def weights(spec: Spec) -> dict[str, torch.Tensor]:
    return {name: draw(spec, name, shape) for name, shape in shapes(spec.config).items()}
