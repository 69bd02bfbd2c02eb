#!/usr/bin/env python3
"""The commands that measure, prove and make files, as their user sees them, on the tiny models of tests/data.

    tests/cli_measure_test.py build/dspark [unittest arguments]
"""

import json
import math
import pathlib
import tempfile
import unittest

import command
from command import MODELS, ROOT, dspark


class Score(unittest.TestCase):
    def test_broken_weights_are_an_error(self):
        with tempfile.TemporaryDirectory() as folder:
            broken, text = pathlib.Path(folder) / "broken.gguf", pathlib.Path(folder) / "text"
            model = (MODELS / "llama/llama.gguf").read_bytes()
            broken.write_bytes(model[:-4] + b"\x00\x00\xc0\x7f")  # the last weight of the output matrix is NaN
            text.write_text("Hello there, how is it going?")
            done = dspark("score", "-m", broken, "-f", text)
            self.assertEqual(done.returncode, 3, done.stdout)
            self.assertIn(b"NaN", done.stderr)

    def score(self, *arguments):
        text = (ROOT / "docs/cli.md").read_bytes()[:4000]
        done = dspark("score", "-m", MODELS / "qwen3/qwen3.gguf", "-f", "-", "--json", *arguments, stdin=text)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_digest_does_not_depend_on_the_machine(self):
        first = self.score("--window", "100")
        self.assertEqual(len(first["log_probs"]), len(first["tokens"]) - -(-len(first["tokens"]) // 100))
        self.assertAlmostEqual(first["perplexity"],
                               math.exp(-sum(first["log_probs"]) / len(first["log_probs"])), delta=1e-6)
        for machine in (["-t", "1"], ["-t", "3", "--chunk", "7"], ["--isa", "portable", "--chunk", "1"]):
            self.assertEqual(self.score("--window", "100", *machine)["digest"], first["digest"])
        self.assertNotEqual(self.score("--window", "99")["digest"], first["digest"])


class Bench(unittest.TestCase):
    def bench(self, *arguments):
        done = dspark("bench", *arguments, "-m", MODELS / "quant/quant-q4_k.gguf", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_reports_have_their_fields(self):
        decode = self.bench("decode", "--batch", "3", "--prompt-len", "5", "--steps", "4")
        self.assertAlmostEqual(decode["tokens_per_second"], 3 / decode["step_ms"] * 1e3, delta=1e-3 * decode["tokens_per_second"])
        self.assertGreater(decode["bandwidth_fraction"], 0)
        self.assertGreater(len(decode["phases"]), 3)
        rows = self.bench("decode", "--rows", "1,3", "--repeats", "2")
        self.assertEqual([entry["rows"] for entry in rows["rows"]], [1, 3])
        self.assertGreater(rows["row_bound_ms"], 0)
        requests = self.bench("requests", "--batch", "5", "--prompt-len", "9", "--steps", "4")
        self.assertEqual((requests["requests"], requests["preemptions"]), (5, 0))
        self.assertGreaterEqual(requests["steps"], 1)
        self.assertGreater(self.bench("prefill", "--prompt-len", "20", "--repeats", "1")["tokens_per_second"], 0)

    def test_kernels_are_all_there(self):
        done = dspark("bench", "kernels", "--isa", "avx2", "--json")
        if done.returncode == 4:
            self.assertIn(b"avx2", done.stderr)  # not a machine to measure on
            return
        report = json.loads(done.stdout)
        self.assertEqual(len(report["kernels"]), 15)
        for kernel in report["kernels"]:
            self.assertGreater(kernel["gmacs"], 0)
            self.assertGreater(kernel["peak_share"], 0)
            self.assertGreater(kernel["row_gb_per_s"], 0)
        self.assertEqual(set(report["peak_gmacs"]), {"narrow", "wide", "float"})


class ConvertDrafter(unittest.TestCase):
    def test_writes_what_llama_cpp_reads_and_says_what_it_does_not(self):
        target = MODELS / "llama/llama.gguf"
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "drafter.gguf"
            done = dspark("convert-drafter", "-m", target, "--quantize", "q8_0", ROOT / "tests/data/drafters/rnn", out)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(b"head 'rnn', 1 layers, block of 5", done.stdout)
            self.assertIn(b"llama.cpp cannot run it", done.stdout)
            metadata = dspark("inspect", "-m", out).stdout
            for expected in (b"general.architecture = 'dflash'", b"dspark.target.digest", b"tokenizer.ggml.tokens"):
                self.assertIn(expected, metadata)
            self.assertEqual(dspark("convert-drafter", "-m", target, out, out.with_name("again.gguf")).returncode, 0)

    def test_refuses_what_does_not_fit(self):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "drafter.gguf"
            done = dspark("convert-drafter", "-m", MODELS / "qwen3/qwen3.gguf", ROOT / "tests/data/drafters/rnn", out)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(b"hidden size is 64, the model's is 66", done.stderr)
            done = dspark("convert-drafter", "-m", MODELS / "llama/llama.gguf", MODELS / "llama/llama.gguf", out)
            self.assertEqual(done.returncode, 4, done.stderr)
            self.assertIn(b"'llama' is no drafter", done.stderr)
            self.assertFalse(out.exists())


class Prove(unittest.TestCase):
    CASES = {"speculation fixed:1", "speculation fixed:7", "speculation planned", "speculation ngram", "batch 1",
             "batch 8", "batch 32", "chunk 7", "chunk whole", "threads 1", "threads 2", "threads 3", "cache miss",
             "cache hit", "preemption crowded"}

    def prove(self, *arguments):
        return dspark("prove", "-m", MODELS / "llama/llama.gguf", "--quick", "--limit", 2, *arguments)

    def test_every_case_has_the_digest_of_plain_decoding(self):
        done = self.prove("--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        self.assertTrue(report["identical"])
        cases = {f"{case['axis']} {case['value']}": case for case in report["cases"]}
        self.assertLessEqual(self.CASES, cases.keys())
        digests = {case["digest"] for case in cases.values() if case["runs"] == 32}
        self.assertEqual(digests, {cases["reference plain"]["digest"]})
        self.assertEqual(cases["reference plain"]["drafted"], 0)
        self.assertGreater(cases["speculation ngram"]["accepted"], 0)
        self.assertGreater(cases["preemption crowded"]["preemptions"], 0)
        self.assertGreater(cases["cache hit"]["cached_tokens"], 0)
        self.assertEqual(cases["cache miss"]["cached_tokens"], 0)
        self.assertEqual(cases["batch 32"]["most_running"], 32)

    def test_a_dspark_drafter_is_an_axis(self):
        done = self.prove("-m", MODELS / "llama/hf", "--drafter", ROOT / "tests/data/drafters/lookup",
                          "--max-tokens", 96)  # so that no answer ends before the last of 32 has begun
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout.decode(), r"\nspeculation  dspark ")
        self.assertTrue(done.stdout.endswith(b"all 32 answers of every case are identical\n"), done.stdout)

    def test_a_case_that_did_not_happen_fails(self):
        done = self.prove("--max-tokens", 1, "--json")  # one token each: there is nothing to guess
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"speculation fixed:1 has shown nothing: no token was guessed", done.stderr)
        self.assertFalse(json.loads(done.stdout)["identical"])


class Sim(unittest.TestCase):
    def test_planned_is_never_below_fixed_and_near_the_oracle(self):
        done = dspark("sim", "--curve", "deepinfer", "--sim-steps", "300", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        points = json.loads(done.stdout)["points"]
        self.assertEqual({(p["sequences"], p["survival"]) for p in points},
                         {(n, s) for n in (16, 60, 96) for s in ("independent", "spread")})
        for point in points:
            self.assertGreaterEqual(point["gain_percent"], 0)
            ratio = (100 + point["gain_percent"]) / (100 + point["oracle_gain_percent"])
            self.assertGreaterEqual(ratio, 0.97)

    def test_curve_and_traces_from_files(self):
        with tempfile.TemporaryDirectory() as folder:
            curve, traces = pathlib.Path(folder) / "curve.json", pathlib.Path(folder) / "traces.jsonl"
            curve.write_text('[{"rows": 1, "ms": 4}, {"rows": 8, "ms": 5}, {"rows": 64, "ms": 30}]')
            traces.write_text("[0.9, 0.8]\n[0.3, 0.2]\n")
            done = dspark("sim", "--curve", curve, "--traces", traces, "--sequences", "1,4", "--block", "2",
                          "--sim-steps", "50", "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(len(json.loads(done.stdout)["points"]), 6)
            curve.write_text('[{"rows": 0, "ms": 4}]')
            done = dspark("sim", "--curve", curve)
            self.assertEqual(done.returncode, 3)
            self.assertIn(b'{"ms":4,"rows":0}', done.stderr)


class Synth(unittest.TestCase):
    def synth(self, folder, name, *arguments):
        path = pathlib.Path(folder) / name
        done = dspark("synth", "--shape", "smollm2-135m", "--layers", "1", *arguments, path)
        self.assertEqual(done.returncode, 0, done.stderr)
        return path

    def test_bytes_follow_from_the_arguments(self):
        with tempfile.TemporaryDirectory() as folder:
            one, two = self.synth(folder, "1.gguf"), self.synth(folder, "2.gguf")
            other = self.synth(folder, "3.gguf", "--seed", "7")
            self.assertEqual(one.read_bytes(), two.read_bytes())
            self.assertNotEqual(one.read_bytes(), other.read_bytes())
            model = json.loads(dspark("inspect", "--json", one).stdout)
            types = {tensor["name"]: tensor["type"] for tensor in model["tensors"]}
            self.assertEqual(types["blk.0.ffn_down.weight"], "q4_k")   # 1,536 columns: whole blocks of 256
            self.assertEqual(types["blk.0.ffn_up.weight"], "q5_0")     # 576 columns: the fallback
            self.assertNotIn("blk.1.ffn_up.weight", types)

    def test_unknown_shape_is_answered_with_the_list(self):
        done = dspark("synth", "--shape", "x", "out.gguf")
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"qwen3-4b", done.stderr)


if __name__ == "__main__":
    command.main()
