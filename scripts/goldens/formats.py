#!/usr/bin/env python3
"""Writes tests/data/formats: what the `gguf` Python package makes of blocks and of floats, for src/kernels/formats.

    pip install gguf==0.19.0 numpy && scripts/goldens/formats.py

TYPE.blocks     blocks as they lie in a file: random ones, then edge cases (see edge_blocks)
TYPE.values     their weights as float32, by gguf.quants.dequantize
input.values    float32 values to quantise: Gaussian blocks, then edge cases
TYPE.quantised  input.values by gguf.quants.quantize, for the types that it implements
"""
import pathlib

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf.quants import dequantize, quantize

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "data" / "formats"

# Byte offsets of the halves in a block.
HALVES = {
    Type.F16: [0], Type.BF16: [], Type.Q8_0: [0], Type.Q4_0: [0], Type.Q4_1: [0, 2], Type.Q5_0: [0],
    Type.Q5_1: [0, 2], Type.Q2_K: [80, 82], Type.Q3_K: [108], Type.Q4_K: [0, 2], Type.Q5_K: [0, 2],
    Type.Q6_K: [208], Type.IQ4_NL: [0], Type.IQ4_XS: [0],
}
QUANTISABLE = [Type.F16, Type.BF16, Type.Q8_0, Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1]


def with_halves(block, kind, halves):
    block = block.copy()
    for i, offset in enumerate(HALVES[kind]):
        block[offset : offset + 2] = np.array([halves[i % len(halves)]], np.uint16).view(np.uint8)
    return block


def blocks_of(kind, rng):
    """Random bytes with random, normal halves; then the edge cases."""
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    if elements == 1:
        return np.frombuffer(rng.bytes(512), np.uint8)
    count = 2 if elements == 256 else 8
    blocks = []
    for _ in range(count):
        halves = rng.normal(0, 0.02, 2).astype(np.float16).view(np.uint16)
        blocks.append(with_halves(np.frombuffer(rng.bytes(size), np.uint8), kind, halves))
    noise = np.frombuffer(rng.bytes(size), np.uint8)
    one, minus = 0x3C00, 0xBC00
    blocks.append(with_halves(np.full(size, 0xFF, np.uint8), kind, [one]))  # largest codes and scales
    blocks.append(with_halves(np.zeros(size, np.uint8), kind, [one]))  # smallest codes and scales
    blocks.append(with_halves(np.full(size, 0x80, np.uint8), kind, [minus, one]))
    blocks.append(with_halves(noise, kind, [0x0000]))
    blocks.append(with_halves(noise, kind, [0x8000, minus]))  # −0 and a negative scale
    blocks.append(with_halves(noise, kind, [0x0001, 0x83FF]))  # smallest and largest subnormal
    blocks.append(with_halves(noise, kind, [0x7BFF, 0xFBFF]))  # largest finite
    if elements == 32:
        blocks.append(with_halves(noise, kind, [0x7C00, one]))  # infinity
        blocks.append(with_halves(noise, kind, [one, 0xFE00]))  # NaN (in the minimum, where there is one)
        blocks.append(with_halves(noise, kind, [0x7E00, one]))
    else:
        blocks.append(with_halves(noise, kind, [0x7C00, 0x7E00]))
    return np.concatenate(blocks)


def input_values(rng):
    """Finite values of magnitudes that every type can hold."""
    blocks = [rng.normal(0, 0.02, 512), rng.standard_t(3, 256) * 0.02, np.abs(rng.normal(0, 1, 64)) + 1]
    blocks += [-blocks[-1], np.zeros(32), np.full(32, 0.75), np.full(32, -0.75)]
    blocks.append(np.where(np.arange(32) == 17, -3.0, 0.0))  # a single value
    blocks.append(np.arange(32) - 15.5)  # ties
    blocks.append(np.arange(32) * 0.5 - 8)  # equal extremes of either sign
    blocks.append(rng.normal(0, 2e-6, 64))  # subnormal scales
    blocks.append(rng.normal(0, 1e-9, 32))  # below every scale
    blocks.append(rng.normal(0, 1e4, 64))
    values = np.concatenate(blocks).astype(np.float32)
    return np.concatenate([values, np.zeros(-len(values) % 256, np.float32)])


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    for kind in HALVES:
        rng = np.random.default_rng(1000 + kind.value)
        blocks = blocks_of(kind, rng)
        with np.errstate(all="ignore"):
            values = dequantize(blocks, kind)
        name = kind.name.lower()
        (OUT / f"{name}.blocks").write_bytes(blocks.tobytes())
        (OUT / f"{name}.values").write_bytes(values.astype("<f4").tobytes())
    values = input_values(np.random.default_rng(2000))
    (OUT / "input.values").write_bytes(values.astype("<f4").tobytes())
    for kind in QUANTISABLE:
        (OUT / f"{kind.name.lower()}.quantised").write_bytes(quantize(values, kind).tobytes())


if __name__ == "__main__":
    main()
