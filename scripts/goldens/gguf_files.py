#!/usr/bin/env python3
"""Writes the small GGUF files and what they hold (expected.json) under tests/data/gguf.

Run with the packages of requirements.txt (`make golden`).
The files are written by the `gguf` package, and expected.json is what its own reader says about them.
"""
import hashlib
import json
import pathlib
import struct
import sys

import gguf
import numpy as np

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "data" / "gguf"
RNG = np.random.default_rng(7)


def write(path, alignment=None, splits=0):
    writer = gguf.GGUFWriter(path, "llama", split_max_tensors=splits)
    if alignment:
        writer.add_custom_alignment(alignment)
    return writer


def close(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def values():
    w = write(OUT / "values.gguf", alignment=64)
    w.add_uint8("v.u8", 255)
    w.add_int8("v.i8", -128)
    w.add_uint16("v.u16", 65535)
    w.add_int16("v.i16", -32768)
    w.add_uint32("v.u32", 4294967295)
    w.add_int32("v.i32", -2147483648)
    w.add_uint64("v.u64", 18446744073709551615)
    w.add_int64("v.i64", -9223372036854775808)
    w.add_float32("v.f32", 0.1)
    w.add_float64("v.f64", 0.1)
    w.add_float32("v.nan", float("nan"))
    w.add_bool("v.true", True)
    w.add_bool("v.false", False)
    w.add_string("v.string", "gr\u00fc\u00df 'dich'\n")
    w.add_array("v.strings", ["", "a", "\u0120the", "\U0001f600"])
    w.add_array("v.floats", [0.5, -1.5, 2.25])
    w.add_array("v.ints", [1, -2, 3])
    w.add_array("v.bools", [True, False, True])
    w.add_tensor("vector", RNG.standard_normal(5).astype(np.float32))
    w.add_tensor("matrix", RNG.standard_normal((3, 7)).astype(np.float16))
    w.add_tensor("cube", RNG.standard_normal((2, 3, 4)).astype(np.float32))
    close(w)


def types():
    w = write(OUT / "types.gguf")
    for kind, (block, size) in gguf.GGML_QUANT_SIZES.items():
        if kind in (gguf.GGMLQuantizationType.F64, gguf.GGMLQuantizationType.Q8_1):
            continue  # F64 below; the package's size of Q8_1 is not the one of ggml's files
        raw = RNG.integers(0, 256, (2, size), dtype=np.uint8)
        w.add_tensor(kind.name.lower(), raw, raw_dtype=kind)
    w.add_tensor("f64", RNG.standard_normal((2, 1)))
    close(w)


def split():
    w = write(OUT / "split.gguf", splits=2)
    for i in range(3):
        w.add_tensor(f"t{i}", RNG.standard_normal((2, i + 1)).astype(np.float32))
    close(w)


def version_2():
    data = bytearray((OUT / "values.gguf").read_bytes())
    data[4:8] = struct.pack("<I", 2)  # the layouts are the same
    (OUT / "version2.gguf").write_bytes(data)


def plain(value):
    return value.item() if hasattr(value, "item") else value


def describe(path):
    reader = gguf.GGUFReader(path)
    metadata = {}
    for field in reader.fields.values():
        if field.name.startswith("GGUF."):
            continue
        value = field.contents()
        value = [plain(v) for v in value] if isinstance(value, list) else plain(value)
        if isinstance(value, float) and value != value:
            value = "nan"
        metadata[field.name] = {"types": [t.name for t in field.types], "value": value}
    tensors = [
        {
            "name": t.name,
            "type": t.tensor_type.name.lower(),
            "shape": [int(n) for n in reversed(t.shape.tolist())],
            "bytes": int(t.n_bytes),
            "sha256": hashlib.sha256(t.data.tobytes()).hexdigest(),
        }
        for t in reader.tensors
    ]
    return {"metadata": metadata, "tensors": tensors}


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    for old in OUT.glob("*.gguf"):
        old.unlink()
    values()
    types()
    split()
    version_2()
    expected = {p.name: describe(p) for p in sorted(OUT.glob("*.gguf"))}
    (OUT / "expected.json").write_text(json.dumps(expected, indent=1, ensure_ascii=True) + "\n")
    print(f"wrote {len(expected)} files", file=sys.stderr)


if __name__ == "__main__":
    main()
