#!/usr/bin/env python3
"""Checks the tiny GGUF files against llama.cpp: its converter's tensors and metadata, and its logits.

    VENV/bin/python scripts/goldens/verify_llamacpp.py --source LLAMA_CPP_TREE --build ITS_BUILD_FOLDER [NAME...]

The converter runs on each model's hf/ folder and must give the same tensors bit for bit and the same metadata; then
llama.cpp runs the model and its logits must equal the goldens' up to float rounding. For that the matrices are written
as F32 once more, since llama.cpp rounds the activations to the type of F16 and BF16 matrices.
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

import tiny_files
import tiny_specs

HERE = pathlib.Path(__file__).resolve().parent
DATA = HERE.parents[1] / "tests/data/models"
# llama.cpp's GELU is a table of halves.
TOLERANCE = {"gemma3": 1e-3}
# Keys whose values describe the run of the converter and not the model.
INCIDENTAL = ("general.name", "general.basename", "general.size_label", "general.license", "general.finetune",
              "general.sampling", "general.tags", "general.languages", "split.", "GGUF.")
# A head dimension that follows from the other keys: written by recent converters only, so one model leaves it out.
OPTIONAL = ("llama.attention.key_length", "llama.attention.value_length")
# The tiny tokenizer is not one whose pre-tokenizer the converter recognises by hash: it is told.
CONVERT = """
import sys
sys.path[:0] = [sys.argv[1], sys.argv[1] + "/gguf-py"]
from conversion.base import TextModel
TextModel.get_vocab_base_pre = lambda self, tokenizer: "gpt-2"
sys.argv = ["convert", sys.argv[2], "--outfile", sys.argv[3], "--outtype", sys.argv[4]]
import convert_hf_to_gguf
convert_hf_to_gguf.main()
"""


def read(paths: list[pathlib.Path]) -> tuple[dict, dict]:
    """Metadata and tensors (type, shape, bytes) of the parts of one model."""
    meta, tensors = {}, {}
    for path in paths:
        reader = gguf.GGUFReader(path)
        meta |= {k: f.contents() for k, f in reader.fields.items() if not k.startswith(INCIDENTAL)}
        tensors |= {t.name: (t.tensor_type.name, list(t.shape), t.data.tobytes()) for t in reader.tensors}
    return meta, tensors


def check_conversion(name: str, parts: list[pathlib.Path], source: str) -> list[str]:
    kinds = {0: "f32", 1: "f16", 32: "bf16"}
    meta, tensors = read(parts)
    with tempfile.TemporaryDirectory() as tmp:
        out = pathlib.Path(tmp) / "converted.gguf"
        subprocess.run([sys.executable, "-c", CONVERT, source, DATA / name / "hf", out,
                        kinds[meta["general.file_type"]]], check=True, capture_output=True)
        theirs_meta, theirs = read([out])
    faults = [f"tensor {t}: {tensors.get(t, 'missing')[:2]} here, {theirs.get(t, 'missing')[:2]} there"
              for t in sorted(tensors.keys() | theirs.keys()) if tensors.get(t) != theirs.get(t)]
    keys = meta.keys() | {k for k in theirs_meta if k not in OPTIONAL}
    return faults + [f"key {k}: {str(meta.get(k))[:80]} here, {str(theirs_meta.get(k))[:80]} there"
                     for k in sorted(keys) if meta.get(k) != theirs_meta.get(k)]


def compare_logits(name: str, path: pathlib.Path, program: pathlib.Path) -> float:
    """The largest difference between llama.cpp's logits and the goldens', as a share of the largest logit."""
    goldens = json.loads((DATA / name / "goldens.json").read_text())
    values = np.fromfile(DATA / name / "goldens.bin", "<f4")
    worst = 0.0
    for prompt in goldens["prompts"]:
        run = subprocess.run([program, path], input="\n".join(map(str, prompt["tokens"])).encode(), check=True,
                             capture_output=True)
        logits = np.frombuffer(run.stdout, "<f4").reshape(len(prompt["tokens"]), goldens["vocab"])
        size = len(prompt["positions"]) * goldens["vocab"]
        golden = values[prompt["logits"] : prompt["logits"] + size].reshape(-1, goldens["vocab"])
        worst = max(worst, float(np.abs(logits[prompt["positions"]] - golden).max() / np.abs(golden).max()))
    return worst


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", required=True)
    parser.add_argument("--build", required=True, type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    failed = False
    with tempfile.TemporaryDirectory() as tmp:
        program = pathlib.Path(tmp) / "logits"
        lib = args.build / "bin"
        subprocess.run(["c++", "-O1", "-std=c++20", HERE / "llamacpp_logits.cc", "-o", program,
                        f"-I{args.source}/include", f"-I{args.source}/ggml/include", f"-L{lib}", f"-Wl,-rpath,{lib}",
                        "-lllama", "-lggml", "-lggml-base"], check=True)
        for spec in tiny_specs.SPECS:
            if not spec.gguf or args.names and spec.name not in args.names:
                continue
            faults = check_conversion(spec.name, sorted((DATA / spec.name).glob("*.gguf")), args.source)
            plain = dataclasses.replace(spec, gguf="f32", gguf_shards=1)
            tiny_files.write_gguf(plain, tiny_specs.weights(spec), pathlib.Path(tmp) / "f32.gguf")
            worst = compare_logits(spec.name, pathlib.Path(tmp) / "f32.gguf", program)
            if worst > TOLERANCE.get(spec.name, 1e-5):
                faults.append(f"logits differ by {worst:.1e} of the largest")
            failed |= bool(faults)
            print(f"{spec.name}: logits within {worst:.1e}, " + ("; ".join(faults) or "files as the converter's"))
    sys.exit(failed)


if __name__ == "__main__":
    main()
