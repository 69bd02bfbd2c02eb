#!/usr/bin/env python3
"""Compares llama.cpp's drafts with ours: a random drafter with a Markov head in SmolLM2's shape is converted, run by
llama-server's draft-dspark and by draft_benchmark on the same tokens, and the first draft must be the same.

    scripts/check_llamacpp_drafter.py BUILD_FOLDER LLAMA_CPP_BIN MODEL.gguf

BUILD_FOLDER holds dspark and draft_benchmark. Needs the packages of scripts/goldens/requirements.txt.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import urllib.request

import gguf
import safetensors.torch
import torch

HIDDEN, FFN, HEADS, KV_HEADS, DIM, VOCAB, LAYERS, RANK, BLOCK = 576, 1536, 9, 3, 64, 49152, 30, 64, 7
PROMPT = [1000 + i * 37 % 5000 for i in range(160)]
PORT = 8391
PREDICT = 20


def write_folder(folder: pathlib.Path, vocabulary: int, model: str):
    torch.manual_seed(1)
    w = {}

    def add(name, *shape):
        w[name] = (torch.randn(shape) * shape[-1] ** -0.5).bfloat16()

    def add_norm(name, n):
        w[name] = (1 + 0.1 * torch.randn(n)).bfloat16()

    add("fc.weight", HIDDEN, 3 * HIDDEN)
    for name in ("hidden_norm", "norm", "layers.0.input_layernorm", "layers.0.post_attention_layernorm"):
        add_norm(name + ".weight", HIDDEN)
    at = "layers.0.self_attn."
    for name, rows in (("q", HEADS * DIM), ("k", KV_HEADS * DIM), ("v", KV_HEADS * DIM)):
        add(f"{at}{name}_proj.weight", rows, HIDDEN)
    add(at + "o_proj.weight", HIDDEN, HEADS * DIM)
    add_norm(at + "q_norm.weight", DIM)
    add_norm(at + "k_norm.weight", DIM)
    add("layers.0.mlp.gate_proj.weight", FFN, HIDDEN)
    add("layers.0.mlp.up_proj.weight", FFN, HIDDEN)
    add("layers.0.mlp.down_proj.weight", HIDDEN, FFN)
    w["markov_head.markov_w1.weight"] = (3 * torch.randn(VOCAB, RANK)).bfloat16()  # so that drafts are varied
    add("markov_head.markov_w2.weight", vocabulary, RANK)
    add("confidence_head.proj.weight", 1, HIDDEN + RANK)
    w["confidence_head.proj.bias"] = torch.zeros(1).bfloat16()
    if vocabulary < VOCAB:
        w["d2t"] = torch.zeros(vocabulary, dtype=torch.int64)
        tensor = next(t for t in gguf.GGUFReader(model).tensors if t.name == "token_embd.weight")
        embedding = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        w["lm_head.weight"] = torch.tensor(embedding[:vocabulary]).bfloat16()
    folder.mkdir()
    safetensors.torch.save_file(w, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["Qwen3DSparkModel"], "model_type": "qwen3", "num_hidden_layers": 1, "hidden_size": HIDDEN,
        "intermediate_size": FFN, "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "head_dim": DIM,
        "vocab_size": VOCAB, "hidden_act": "silu", "max_position_embeddings": 8192, "rms_norm_eps": 1e-5,
        "rope_theta": 100000.0, "block_size": BLOCK, "mask_token_id": 16, "target_layer_ids": [1, 14, 27],
        "num_target_layers": LAYERS, "markov_rank": RANK, "markov_head_type": "vanilla",
        "enable_confidence_head": True, "confidence_head_with_markov": True}))


def ask() -> list[int]:
    body = {"prompt": PROMPT, "n_predict": PREDICT, "temperature": 0, "return_tokens": True, "cache_prompt": False}
    request = urllib.request.Request(f"http://127.0.0.1:{PORT}/completion", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(request, timeout=300))["tokens"]


def llamacpp_draft(binaries: pathlib.Path, model: str, drafter: pathlib.Path) -> tuple[int, list[int]]:
    """The first token of the answer, and what was drafted behind it."""
    log = drafter.with_suffix(".log")
    with log.open("wb") as out:
        server = subprocess.Popen(
            [binaries / "llama-server", "-m", model, "-md", drafter, "--spec-type", "draft-dspark",
             "--spec-draft-n-max", str(BLOCK), "-c", "1024", "--port", str(PORT), "-t", "2", "-np", "1", "-v"],
            stdout=out, stderr=subprocess.STDOUT, env=os.environ | {"LD_LIBRARY_PATH": str(binaries)})
    try:
        for _ in range(120):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{PORT}/health", timeout=2)
                break
            except OSError:
                time.sleep(1)
        first = ask()[0]
    finally:
        server.terminate()
        server.wait()
    found = re.findall(r"draft candidate +0, pos +(\d+): +(\d+) ", log.read_text(errors="replace"))
    draft = []
    for position, token in found:
        if int(position) != len(draft):
            break
        draft.append(int(token))
    return first, draft


def main():
    build, binaries, model = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
    for vocabulary, flags in ((VOCAB, []), (8192, ["--quantize", "q8_0"])):
        with tempfile.TemporaryDirectory() as scratch:
            folder, drafter = pathlib.Path(scratch) / "folder", pathlib.Path(scratch) / "drafter.gguf"
            write_folder(folder, vocabulary, model)
            subprocess.run([build / "dspark", "convert-drafter", "-m", model, *flags, folder, drafter], check=True)
            first, theirs = llamacpp_draft(binaries, model, drafter)
            done = subprocess.run([build / "draft_benchmark", model, drafter, "2", str(len(theirs))], check=True,
                                  input=" ".join(map(str, PROMPT + [first])).encode(), capture_output=True)
            ours = [int(token) for token in re.findall(r"^ +(\d+) survival", done.stdout.decode(), re.M)]
            print(f"vocabulary {vocabulary}: llama.cpp {theirs}, ours {ours}")
            if not theirs or theirs != ours:
                sys.exit("the drafts differ")


if __name__ == "__main__":
    main()
