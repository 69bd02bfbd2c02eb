#!/usr/bin/env python3
"""Writes small Hugging Face folders and what they hold (expected.json) under tests/data/safetensors.

Run with the packages of requirements.txt (`make golden`). The files are written by the `safetensors` package, and the
digests in expected.json are of the arrays that were given to it.
"""

import hashlib
import json
import pathlib
import shutil

import numpy as np
import torch
from safetensors.torch import save_file

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "data" / "safetensors"
NAMES = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16", torch.int64: "I64", torch.uint8: "U8",
         torch.bool: "BOOL", torch.float64: "F64", torch.float8_e4m3fn: "F8_E4M3"}


def describe(tensor: torch.Tensor) -> dict:
    raw = tensor.contiguous().flatten().view(torch.uint8).numpy().tobytes() if tensor.numel() else b""
    return {"type": NAMES[tensor.dtype], "shape": list(tensor.shape), "bytes": len(raw),
            "sha256": hashlib.sha256(raw).hexdigest()}


def folder(name: str) -> pathlib.Path:
    path = OUT / name
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    (path / "config.json").write_text(json.dumps({"model_type": "llama", "hidden_size": 8, "rope_theta": 1e4}) + "\n")
    return path


def main() -> None:
    random = np.random.default_rng(11)

    def values(*shape: int) -> torch.Tensor:
        return torch.from_numpy(random.standard_normal(shape).astype(np.float32))

    single = {
        "w.f32": values(2, 3), "w.f16": values(3, 2).half(), "w.bf16": values(5).bfloat16(), "scalar": values(),
        "empty": values(0, 4), "ids": torch.arange(3), "odd": torch.tensor([1, 2, 3], dtype=torch.uint8),
        "mask": torch.tensor([True, False]), "double": values(2).double(), "float8": values(4).to(torch.float8_e4m3fn),
        "conv3d": values(1, 2, 1, 2, 2), "name \"with\" \u00fcmlaut": values(1),
    }
    path = folder("single")
    save_file(single, path / "model.safetensors", metadata={"format": "pt"})
    for name, text in {"tokenizer.json": '{"version": "1.0"}', "tokenizer_config.json": '{"add_bos_token": false}',
                       "chat_template.jinja": "{{ messages }}", "generation_config.json": '{"temperature": 0.6}'}.items():
        (path / name).write_text(text)

    sharded = {f"layer.{i}": values(2, i + 1) for i in range(5)}
    path = folder("sharded")
    shards = {"model-00001-of-00002.safetensors": ["layer.0", "layer.3"],
              "model-00002-of-00002.safetensors": ["layer.1", "layer.2", "layer.4"]}
    for shard, names in shards.items():
        save_file({n: sharded[n] for n in names}, path / shard)
    index = {"metadata": {"total_size": sum(4 * t.numel() for t in sharded.values())},
             "weight_map": {n: shard for shard, names in shards.items() for n in names}}
    (path / "model.safetensors.index.json").write_text(json.dumps(index, indent=1) + "\n")

    expected = {"single": {n: describe(t) for n, t in single.items()},
                "sharded": {n: describe(t) for n, t in sharded.items()}}
    (OUT / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main()
