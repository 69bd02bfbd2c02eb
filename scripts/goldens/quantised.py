#!/usr/bin/env python3
"""Makes tests/data/models/quant/ and the quantised file of qwen3moe: tiny models in every quantised type.

    VENV/bin/python scripts/goldens/quantised.py --llama-quantize PROGRAM      (models.py first)

llama-quantize makes the files (`--pure`, with its fallback types where a row is no multiple of 256); gguf-py
dequantises them; transformers runs the dequantised weights in float32. Two sets of logits are stored for each file:
  `logits`  float activations throughout,
  `rounded` the inputs of every product with a quantised matrix rounded as docs/numerics.md says: int8 in blocks of 32,
            scale = amax / 127, q = round(x / scale). An engine's integer arithmetic is exact, so it differs from this
            by float rounding only, except where an activation lies so close to the edge between two q that this
            decides: one q changed by a step shifts everything behind it, and the later roundings fall anew.
`steady` says for each position whether the second exception is out of reach: nudging every activation by NUDGE of its
block's amax, more than float sums in another order do, changes no logit visibly.
`sigma` is the standard deviation that the rounding of activations gives a logit of each position: over draws in which
each activation is moved by a random part of half a step, as rounding does. Tolerances of the tests are multiples of it.
"""

import argparse
import dataclasses
import json
import pathlib
import subprocess
import sys
import tempfile

import gguf
import numpy as np
import torch

import tiny_files
import tiny_reference as reference
import tiny_specs
from models import DATA, router_gap

TYPES = ["Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS"]
PROMPT_LENGTHS = (1, 1, 1, 4, 150)  # few activations stand behind the logits of a short one: most are steady
NOISE_DRAWS = 32
NUDGE, NUDGE_DRAWS = 2.5e-7, 8
VISIBLE = 2e-5  # as a share of the largest logit
LEAST_STEADY = 4  # positions of a file
MOE_PROMPT = 8
# Between the last chosen expert's router logit and the next one's: rounding must not change the choice.
MOE_ROUTER_GAP = 0.3


def round_to_int8(x: torch.Tensor) -> torch.Tensor:
    blocks = x.unflatten(-1, (-1, 32))
    scale = blocks.abs().amax(-1, keepdim=True) / 127
    return (torch.round(blocks / scale.clamp_min(1e-30)) * scale).flatten(-2)


class Noise:
    """Moves activations at random, uniformly by at most `share` of the largest of their block of 32.

    Half a step of the rounding to int8 is 1 / 254.
    """

    def __init__(self, seed: int, share: float) -> None:
        self.generator = torch.Generator().manual_seed(seed)
        self.share = share

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        blocks = x.unflatten(-1, (-1, 32))
        reach = self.share * blocks.abs().amax(-1, keepdim=True)
        return (blocks + (2 * torch.rand(blocks.shape, generator=self.generator) - 1) * reach).flatten(-2)


def steady(model: torch.nn.Module, tokens: list[int], at: list[int], rounded: np.ndarray) -> list[bool]:
    limit = VISIBLE * np.abs(rounded).max()
    out = np.full(len(at), True)
    for seed in range(NUDGE_DRAWS):
        nudge = Noise(seed, NUDGE)
        nudged = run(model, tokens, lambda x: round_to_int8(nudge(x)))[at]
        out &= np.abs(nudged - rounded).max(-1) < limit
    return out.tolist()


def run(model: torch.nn.Module, tokens: list[int], change=None) -> np.ndarray:
    """Logits with `change` applied to the input of every product with a matrix, the router's (float) excepted."""
    plain = torch.nn.functional.linear
    routers = {m.gate.weight.data_ptr() for m in model.modules() if hasattr(m, "experts")}

    def linear(x, weight, bias=None):
        return plain(x if weight.data_ptr() in routers else change(x), weight, bias)

    if change is not None:
        torch.nn.functional.linear = linear
    try:
        return reference.forward(model, tokens, ())[0]
    finally:
        torch.nn.functional.linear = plain


def quantise(spec: tiny_specs.Spec, kind: str, path: pathlib.Path, program: str) -> None:
    with tempfile.TemporaryDirectory() as tmp:
        source = pathlib.Path(tmp) / "f32.gguf"
        tiny_files.write_gguf(spec, tiny_specs.weights(spec), source)
        subprocess.run([program, "--pure", source, path, kind.replace("Q3_K", "Q3_K_M"), "1"], check=True,
                       capture_output=True)


def dequantised(spec: tiny_specs.Spec, path: pathlib.Path) -> dict[str, torch.Tensor]:
    """The file's weights as float32 under their Hugging Face names."""
    c = spec.config
    found = {t.name: torch.from_numpy(gguf.quants.dequantize(t.data, t.tensor_type).copy())
             for t in gguf.GGUFReader(path).tensors}
    out = {}
    for name, shape in tiny_specs.shapes(c).items():
        expert = None
        stacked = name
        if ".experts." in name:
            before, after = name.split(".experts.")
            expert, after = after.split(".", 1)
            stacked = f"{before}.experts.{after}"
        x = found[tiny_files.gguf_name(stacked, gemma=False)]
        x = x if expert is None else x[int(expert)]
        if c["model_type"] == "llama" and name.endswith("q_proj.weight"):
            x = tiny_files.unpermute_rows(x, c["num_attention_heads"])
        if c["model_type"] == "llama" and name.endswith("k_proj.weight"):
            x = tiny_files.unpermute_rows(x, c["num_key_value_heads"])
        out[name] = x.reshape(shape).contiguous()
    return out


def load_dequantised(spec: tiny_specs.Spec, path: pathlib.Path) -> torch.nn.Module:
    with tempfile.TemporaryDirectory() as tmp:
        plain = dataclasses.replace(spec, hf_dtype=torch.float32, hf_shards=1)
        tiny_files.write_hf(plain, dequantised(spec, path), pathlib.Path(tmp))
        model = reference.load(pathlib.Path(tmp))
    model.config._experts_implementation = "eager"
    return model


def golden_file(spec: tiny_specs.Spec, file: pathlib.Path, prompts: list[dict], store: reference.Store) -> dict:
    model = load_dequantised(spec, file)
    results = []
    for prompt in prompts:
        tokens, at = prompt["tokens"], prompt["positions"]
        exact = run(model, tokens)[at]
        rounded = run(model, tokens, round_to_int8)[at]
        noisy = np.stack([run(model, tokens, Noise(i, 1 / 254))[at] for i in range(NOISE_DRAWS)])
        results.append({"logits": store.add(exact), "rounded": store.add(rounded),
                        "sigma": np.sqrt(np.mean((noisy - exact) ** 2, axis=(0, 2))).tolist(),
                        "steady": steady(model, tokens, at, rounded)})
    found = sum(sum(r["steady"]) for r in results)
    if found < LEAST_STEADY:
        sys.exit(f"{file.name}: {found} steady positions, at least {LEAST_STEADY} expected: change the prompts")
    return {"file": file.name, "prompts": results}


def build_types(program: str) -> None:
    spec, folder = tiny_specs.QUANT, DATA / "quant"
    tiny_files.write_hf(spec, tiny_specs.weights(spec), folder / "hf")
    store, prompts = reference.Store(), []
    model = reference.load(folder / "hf")
    unquantised = []
    for seed, length in enumerate(PROMPT_LENGTHS):
        tokens = np.random.Generator(np.random.PCG64([seed, length])).integers(0, spec.config["vocab_size"], length)
        at = sorted({0, min(1, length - 1), length // 2, length - 1})
        prompts.append({"tokens": tokens.tolist(), "positions": at})
        unquantised.append({"logits": store.add(run(model, tokens.tolist())[at])})
    files = []
    for kind in TYPES:
        path = folder / f"quant-{kind.lower()}.gguf"
        quantise(spec, kind, path, program)
        files.append(golden_file(spec, path, prompts, store) | {"type": kind.lower()})
        print(f"{path.name}: {path.stat().st_size >> 10} KiB")
    store.write(folder, {"vocab": spec.config["vocab_size"], "hidden_size": spec.config["hidden_size"],
                         "prompts": prompts, "unquantised": unquantised, "files": files})


def build_experts(program: str) -> None:
    """qwen3moe in Q4_0, for a prompt whose choice of experts no rounding can change."""
    spec = next(s for s in tiny_specs.SPECS if s.name == "qwen3moe")
    folder = DATA / "quant-moe"
    folder.mkdir(exist_ok=True)
    path = folder / "quant-moe-q4_0.gguf"
    quantise(spec, "Q4_0", path, program)
    model = load_dequantised(spec, path)
    seed, tokens = 0, []
    while not tokens or router_gap(model, tokens, spec.config["num_experts_per_tok"]) < MOE_ROUTER_GAP:
        seed += 1
        tokens = np.random.Generator(np.random.PCG64(seed)).integers(0, tiny_specs.VOCAB, MOE_PROMPT).tolist()
    store, prompts = reference.Store(), [{"tokens": tokens, "positions": [0, 2, 5, MOE_PROMPT - 1]}]
    files = [golden_file(spec, path, prompts, store) | {"type": "q4_0"}]
    print(f"{path.name}: {path.stat().st_size >> 10} KiB")
    store.write(folder, {"vocab": spec.config["vocab_size"], "hidden_size": spec.config["hidden_size"],
                         "prompts": prompts, "files": files})


def report(folder: pathlib.Path) -> None:
    """How far the rounded logits lie from the exact ones, in sigmas and as a share of the largest logit."""
    goldens = json.loads((folder / "goldens.json").read_text())
    values = np.fromfile(folder / "goldens.bin", "<f4")
    for file in goldens["files"]:
        sigmas, share = [], []
        for prompt in file["prompts"]:
            sigma = np.array(prompt["sigma"])[:, None]
            exact, rounded = (values[prompt[k] :][: sigma.size * goldens["vocab"]].reshape(sigma.size, -1)
                              for k in ("logits", "rounded"))
            sigmas.append(float((np.abs(exact - rounded) / sigma).max()))
            share.append(float(np.abs(exact - rounded).max() / np.abs(exact).max()))
        count = sum(sum(p["steady"]) for p in file["prompts"])
        print(f"{file['file']}: {count} steady positions; rounding moves a logit by at most {max(sigmas):.1f} sigma, "
              f"{max(share):.4f} of the largest")


if __name__ == "__main__":
    torch.set_num_threads(1)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llama-quantize", required=True)
    args = parser.parse_args()
    build_types(args.llama_quantize)
    build_experts(args.llama_quantize)
    report(DATA / "quant")
    report(DATA / "quant-moe")
