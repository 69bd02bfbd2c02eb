"""Writes a tiny model as a Hugging Face folder and as a GGUF file. Used by models.py and quantised.py.

The GGUF follows llama.cpp's converter: its tensor names, its metadata keys, the row order of llama's Q and K, gemma's
norms stored with 1 added, experts stacked, rope_freqs for Llama 3's scaling. verify_llamacpp.py compares the files with
that converter's and their logits with llama.cpp's.
"""

import json
import math
import pathlib

import gguf
import numpy as np
import torch
from safetensors.torch import save_file

from tiny_specs import Spec, head_dim

SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
MERGES = ["Ġ t", "h e", "i n", "r e", "o n", "Ġt he", "a t", "e r", "n d", "Ġ a", "e s", "o r", "Ġ s", "e n", "i s",
          "Ġ w", "i t", "o u", "Ġ o", "Ġ c", "in g", "a n", "Ġ b", "e d"]
CHAT_TEMPLATE = ("{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
                 "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")


def byte_alphabet() -> list[str]:
    """GPT-2's printable stand-ins for the 256 bytes, in the order of GPT-2's vocabulary."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in plain]
    return [chr(b) for b in plain] + [chr(256 + i) for i in range(len(rest))]


def vocabulary(size: int) -> tuple[list[str], list[str], list[str]]:
    """(ordinary tokens, merges, special tokens) of a byte-level BPE of `size` tokens.

    A size below 256 leaves bytes out: letters and a few signs remain, for models that are only run, never tokenised.
    """
    if size >= 256 + len(MERGES) + len(SPECIALS):
        return byte_alphabet() + [m.replace(" ", "") for m in MERGES], MERGES, SPECIALS
    signs = "ĠĊ.,!?:;'-()" + "abcdefghijklmnopqrstuvwxyz" + "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    merges = ["t h", "th e"]
    return list(signs[: size - len(merges) - len(SPECIALS)]) + ["th", "the"], merges, SPECIALS


def write_hf(spec: Spec, tensors: dict[str, torch.Tensor], folder: pathlib.Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    dtype = str(spec.hf_dtype).removeprefix("torch.")
    write_json(folder / "config.json", spec.config | {"torch_dtype": dtype}, indent=2)
    names = list(tensors)
    if spec.hf_shards == 1:
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    else:
        index = {"metadata": {"total_size": sum(t.numel() * t.element_size() for t in tensors.values())},
                 "weight_map": {}}
        step = -(-len(names) // spec.hf_shards)
        for i in range(spec.hf_shards):
            file = f"model-{i + 1:05d}-of-{spec.hf_shards:05d}.safetensors"
            part = {n: tensors[n] for n in names[i * step : (i + 1) * step]}
            save_file(part, folder / file, metadata={"format": "pt"})
            index["weight_map"] |= {n: file for n in part}
        write_json(folder / "model.safetensors.index.json", index, indent=2)
    write_tokenizer(spec, folder)


def write_tokenizer(spec: Spec, folder: pathlib.Path) -> None:
    tokens, merges, specials = vocabulary(spec.config["vocab_size"])
    base = len(tokens)
    write_json(folder / "tokenizer.json", {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{"id": base + i, "content": s, "single_word": False, "lstrip": False, "rstrip": False,
                          "normalized": False, "special": True} for i, s in enumerate(specials)],
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": {t: i for i, t in enumerate(tokens)}, "merges": [m.split(" ") for m in merges]}})
    by_id = {base + i: s for i, s in enumerate(specials)}
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast", "add_bos_token": False,
        "bos_token": by_id[spec.config["bos_token_id"]], "eos_token": by_id[spec.config["eos_token_id"]],
        "model_max_length": spec.config["max_position_embeddings"]}
    if spec.config["model_type"].startswith("qwen3"):  # newer checkpoints have the template in a file of its own
        (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE, "utf-8")
        write_json(folder / "generation_config.json", {
            "bos_token_id": spec.config["bos_token_id"], "eos_token_id": [base + 2, base], "do_sample": True,
            "temperature": 0.6, "top_k": 20, "top_p": 0.95}, indent=2)
    else:
        settings["chat_template"] = CHAT_TEMPLATE
    write_json(folder / "tokenizer_config.json", settings, indent=2)


def write_json(path: pathlib.Path, value: dict, indent: int | None = None) -> None:
    separators = None if indent else (",", ":")
    path.write_text(json.dumps(value, indent=indent, separators=separators, ensure_ascii=False) + "\n", "utf-8")


GGUF_NAMES = {
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm", "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "mlp.gate": "ffn_gate_inp",
    "mlp.experts.gate_proj": "ffn_gate_exps", "mlp.experts.up_proj": "ffn_up_exps",
    "mlp.experts.down_proj": "ffn_down_exps",
}
GEMMA_NAMES = GGUF_NAMES | {"post_attention_layernorm": "post_attention_norm",
                            "pre_feedforward_layernorm": "ffn_norm", "post_feedforward_layernorm": "post_ffw_norm"}
TOP_NAMES = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight",
             "lm_head.weight": "output.weight"}
ARCHS = {"llama": "llama", "qwen2": "qwen2", "qwen3": "qwen3", "qwen3_moe": "qwen3moe", "gemma3_text": "gemma3"}


def gguf_name(name: str, gemma: bool) -> str:
    if name in TOP_NAMES:
        return TOP_NAMES[name]
    _, _, layer, *middle, suffix = name.split(".")
    return f"blk.{layer}.{(GEMMA_NAMES if gemma else GGUF_NAMES)['.'.join(middle)]}.{suffix}"


def permute_rows(x: torch.Tensor, heads: int) -> torch.Tensor:
    """The row order of Q and K in llama's GGUF: a head's two rotary halves interleaved."""
    return x.reshape(heads, 2, x.shape[0] // heads // 2, *x.shape[1:]).swapaxes(1, 2).reshape(x.shape)


def unpermute_rows(x: torch.Tensor, heads: int) -> torch.Tensor:
    return x.reshape(heads, x.shape[0] // heads // 2, 2, *x.shape[1:]).swapaxes(1, 2).reshape(x.shape)


def gguf_tensors(config: dict, tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Float32 tensors under their GGUF names, in the converter's layout."""
    gemma = config["model_type"] == "gemma3_text"
    out, experts = {}, {}
    if (scaling := config.get("rope_scaling")) and scaling["rope_type"] == "llama3":
        out["rope_freqs.weight"] = llama3_factors(config["rope_theta"], head_dim(config), scaling)
    for name, x in tensors.items():
        x = x.float()
        if ".experts." in name:
            before, after = name.split(".experts.")
            expert, after = after.split(".", 1)
            experts.setdefault(f"{before}.experts.{after}", {})[int(expert)] = x
            continue
        if gemma and "norm" in name:
            x = x + 1
        if config["model_type"] == "llama" and ".q_proj." in name:
            x = permute_rows(x, config["num_attention_heads"])
        if config["model_type"] == "llama" and ".k_proj." in name:
            x = permute_rows(x, config["num_key_value_heads"])
        out[gguf_name(name, gemma)] = x
    for name, parts in experts.items():
        out[gguf_name(name, gemma)] = torch.stack([parts[i] for i in range(len(parts))])
    return out


def llama3_factors(base: float, dim: int, scaling: dict) -> torch.Tensor:
    """What Llama 3's scaling divides each of the dim/2 rotary frequencies by."""
    low, high, factor = scaling["low_freq_factor"], scaling["high_freq_factor"], scaling["factor"]
    context = scaling["original_max_position_embeddings"]
    factors = []
    for freq in 1.0 / (base ** (torch.arange(0, dim, 2, dtype=torch.float32) / dim)):
        wavelength = 2 * math.pi / freq
        if wavelength < context / high:
            factors.append(1.0)
        elif wavelength > context / low:
            factors.append(factor)
        else:
            smooth = (context / wavelength - low) / (high - low)
            factors.append(1 / ((1 - smooth) / factor + smooth))
    return torch.tensor(factors, dtype=torch.float32)


def write_gguf(spec: Spec, tensors: dict[str, torch.Tensor], path: pathlib.Path) -> None:
    converted = gguf_tensors(spec.config, tensors)
    split = -(-len(converted) // spec.gguf_shards) if spec.gguf_shards > 1 else 0
    writer = gguf.GGUFWriter(path, ARCHS[spec.config["model_type"]], split_max_tensors=split)
    write_metadata(spec, writer)
    for name, x in converted.items():
        matrix = x.ndim > 1 and "ffn_gate_inp" not in name
        add_tensor(writer, name, x, spec.gguf if matrix else "f32")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def add_tensor(writer: gguf.GGUFWriter, name: str, x: torch.Tensor, kind: str) -> None:
    if kind == "bf16":
        bits = x.to(torch.bfloat16).contiguous().view(torch.int16).numpy()
        writer.add_tensor(name, bits.view(np.uint8), raw_dtype=gguf.GGMLQuantizationType.BF16)
    else:
        writer.add_tensor(name, x.contiguous().numpy().astype(np.float16 if kind == "f16" else np.float32))


def write_metadata(spec: Spec, w: gguf.GGUFWriter) -> None:
    c = spec.config
    file_types = {"f32": gguf.LlamaFileType.ALL_F32, "f16": gguf.LlamaFileType.MOSTLY_F16,
                  "bf16": gguf.LlamaFileType.MOSTLY_BF16}
    w.add_type(gguf.GGUFType.MODEL)
    w.add_name(f"tiny-{spec.name}")
    w.add_block_count(c["num_hidden_layers"])
    w.add_context_length(c["max_position_embeddings"])
    w.add_embedding_length(c["hidden_size"])
    w.add_feed_forward_length(c["intermediate_size"])
    w.add_head_count(c["num_attention_heads"])
    w.add_head_count_kv(c["num_key_value_heads"])
    scaling = c.get("rope_scaling")
    if scaling and scaling["rope_type"] == "linear":
        w.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        w.add_rope_scaling_factor(scaling["factor"])
    w.add_rope_freq_base(c["rope_theta"])
    if "rope_local_base_freq" in c:
        w.add_rope_freq_base_swa(c["rope_local_base_freq"])
    w.add_layer_norm_rms_eps(c["rms_norm_eps"])
    if "num_experts" in c:
        w.add_expert_count(c["num_experts"])
        w.add_expert_used_count(c["num_experts_per_tok"])
        w.add_expert_feed_forward_length(c["moe_intermediate_size"])
    if "head_dim" in c:
        w.add_key_length(c["head_dim"])
        w.add_value_length(c["head_dim"])
    w.add_file_type(file_types[spec.gguf])
    if c["model_type"] == "llama":
        w.add_vocab_size(c["vocab_size"])
        w.add_rope_dimension_count(head_dim(c))
    if c["model_type"] == "gemma3_text":
        w.add_sliding_window(c["sliding_window"])
    w.add_quantization_version(gguf.GGML_QUANT_VERSION)
    tokens, merges, specials = vocabulary(c["vocab_size"])
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("gpt-2")
    w.add_token_list(tokens + specials)
    w.add_token_types([gguf.TokenType.NORMAL] * len(tokens) + [gguf.TokenType.CONTROL] * len(specials))
    w.add_token_merges(merges)
    w.add_bos_token_id(c["bos_token_id"])
    w.add_eos_token_id(c["eos_token_id"])
    w.add_add_bos_token(False)
    w.add_chat_template(CHAT_TEMPLATE)
