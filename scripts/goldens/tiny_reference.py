"""Runs a tiny model with transformers in float32 and stores what it gives. Used by models.py and quantised.py.

`goldens.json` lists the prompts; every array in it is an offset into `goldens.bin` (little-endian float32, counted in
floats): `logits` is [positions, vocab], `hidden[i].values` is [hidden_positions, hidden] after layer `hidden[i].layer`
(the residual stream, before the final norm). `greedy` continues the prompt by argmax.
"""

import pathlib
import platform

import numpy as np
import torch
import transformers

import tiny_files

PROMPT_LENGTHS = (5, 41, 150)  # the last is longer than one 128-position KV tile
GREEDY = 16
# Ten times the tolerance that the tests allow, as a share of the largest logit: no greedy choice may be closer.
GREEDY_MARGIN = 1e-3


def load(folder: pathlib.Path) -> torch.nn.Module:
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32,
                                                              attn_implementation="eager")
    return model.eval()


def positions(length: int) -> list[int]:
    """At most 12 positions: the ends, and both sides of the edges of 16-key micro-tiles, windows and 128-tiles."""
    wanted = [0, 1, 15, 16, 17, 31, 32, 64, 126, 127, 128, length - 1]
    return sorted({p for p in wanted if p < length})


def forward(model: torch.nn.Module, tokens: list[int], layers: tuple) -> tuple[np.ndarray, dict[int, np.ndarray]]:
    """All logits [tokens, vocab] and the outputs of `layers` [tokens, hidden]."""
    outputs = {}
    hooks = [model.model.layers[i].register_forward_hook(
        lambda _m, _args, out, i=i: outputs.__setitem__(i, out[0] if isinstance(out, tuple) else out))
        for i in layers]
    with torch.no_grad():
        logits = model(torch.tensor([tokens]), use_cache=False).logits[0]
    for hook in hooks:
        hook.remove()
    return logits.numpy(), {i: h.reshape(len(tokens), -1).numpy() for i, h in outputs.items()}


def greedy(model: torch.nn.Module, prompt: list[int]) -> tuple[list[int], float]:
    """GREEDY tokens by argmax over full forwards, and the smallest margin as a share of the largest logit."""
    tokens, margin = list(prompt), float("inf")
    for _ in range(GREEDY):
        last = forward(model, tokens, ())[0][-1]
        order = np.argsort(-last, kind="stable")
        margin = min(margin, float((last[order[0]] - last[order[1]]) / np.abs(last).max()))
        tokens.append(int(order[0]))
    return tokens[len(prompt):], margin


def draw_prompt(model: torch.nn.Module, vocab: int, length: int, seed: int) -> dict:
    """A random prompt; the next seed is tried where a greedy choice would be too close to call."""
    while True:
        tokens = np.random.Generator(np.random.PCG64([seed, length])).integers(0, vocab, length).tolist()
        continuation, margin = greedy(model, tokens)
        if margin > GREEDY_MARGIN:
            return {"tokens": tokens, "greedy": continuation, "greedy_margin": margin}
        seed += 1000


class Store:
    """Collects float32 arrays for goldens.bin and hands out their offsets."""

    def __init__(self) -> None:
        self.parts: list[np.ndarray] = []
        self.size = 0

    def add(self, x: np.ndarray) -> int:
        offset = self.size
        self.parts.append(np.ascontiguousarray(x, "<f4").reshape(-1))
        self.size += self.parts[-1].size
        return offset

    def write(self, folder: pathlib.Path, goldens: dict) -> None:
        np.concatenate(self.parts).tofile(folder / "goldens.bin")
        versions = {"transformers": transformers.__version__, "torch": torch.__version__.split("+")[0],
                    "numpy": np.__version__, "python": platform.python_version()}
        tiny_files.write_json(folder / "goldens.json", {"versions": versions} | goldens)


def golden_prompt(model: torch.nn.Module, prompt: dict, layers: tuple, store: Store) -> dict:
    """`prompt` with its logits and hidden states stored."""
    at = positions(len(prompt["tokens"]))
    few = at[:: max(1, len(at) // 3)][-4:]
    logits, hidden = forward(model, prompt["tokens"], layers)
    return prompt | {
        "positions": at, "logits": store.add(logits[at]), "hidden_positions": few,
        "hidden": [{"layer": i, "values": store.add(h[few])} for i, h in sorted(hidden.items())]}
