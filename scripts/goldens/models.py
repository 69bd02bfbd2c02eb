#!/usr/bin/env python3
"""Makes tests/data/models/<name>/: tiny random models of every architecture and transformers' logits for them.

    python3 -m venv VENV && VENV/bin/pip install -r scripts/goldens/requirements.txt
    VENV/bin/python scripts/goldens/models.py [NAME...]

Each model is a Hugging Face folder (hf/), where the format can say it a GGUF file, and goldens.json with goldens.bin
(see tiny_reference.py). The goldens are what transformers computes from the folder in float32 with eager attention.
"""

import pathlib
import shutil
import sys

import torch

import tiny_files
import tiny_reference as reference
import tiny_specs

DATA = pathlib.Path(__file__).resolve().parents[2] / "tests/data/models"
LIMIT = 1 << 20
# The least gap between the last chosen expert's router logit and the next one's, over all golden prompts.
ROUTER_GAP = 1e-4


def router_gap(model: torch.nn.Module, tokens: list[int], used: int) -> float:
    gaps = []
    hooks = [layer.mlp.register_forward_pre_hook(
        lambda m, args: gaps.append((args[0].reshape(-1, args[0].shape[-1]) @ m.gate.weight.T).sort(-1, True)[0]))
        for layer in model.model.layers]
    with torch.no_grad():
        model(torch.tensor([tokens]), use_cache=False)
    for hook in hooks:
        hook.remove()
    return min(float((g[:, used - 1] - g[:, used]).min()) for g in gaps)


def build(spec: tiny_specs.Spec) -> None:
    folder = DATA / spec.name
    shutil.rmtree(folder, ignore_errors=True)
    tensors = tiny_specs.weights(spec)
    tiny_files.write_hf(spec, tensors, folder / "hf")
    if spec.gguf:
        tiny_files.write_gguf(spec, tensors, folder / f"{spec.name}.gguf")
    model = reference.load(folder / "hf")
    store, prompts = reference.Store(), []
    for seed, length in enumerate(reference.PROMPT_LENGTHS):
        prompt = reference.draw_prompt(model, spec.config["vocab_size"], length, seed)
        if "num_experts" in spec.config:
            gap = router_gap(model, prompt["tokens"] + prompt["greedy"], spec.config["num_experts_per_tok"])
            if gap < ROUTER_GAP:
                sys.exit(f"{spec.name}: prompt of {length} has a router gap of {gap}: change its seed")
            prompt["router_gap"] = gap
        prompts.append(reference.golden_prompt(model, prompt, spec.hidden_layers, store))
    store.write(folder, {"vocab": spec.config["vocab_size"], "hidden_size": spec.config["hidden_size"],
                         "layers": spec.config["num_hidden_layers"], "prompts": prompts})
    size = sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())
    if size > LIMIT:
        sys.exit(f"{spec.name}: {size} bytes, at most {LIMIT} expected: make it smaller")
    print(f"{spec.name}: {size >> 10} KiB, greedy margins {[round(p['greedy_margin'], 4) for p in prompts]}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    for chosen in tiny_specs.SPECS:
        if len(sys.argv) == 1 or chosen.name in sys.argv[1:]:
            build(chosen)
