#!/usr/bin/env python3
"""The life of a drafter on a tiny model: its confidences calibrated.

    tests/drafters_test.py build/dspark [unittest arguments]
"""

import json
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

import serving

COMMAND = ""
LLAMA = serving.ROOT / "tests/data/models/llama/hf"
DRAFTERS = serving.ROOT / "tests/data/drafters"
ENGINE = ("-m", LLAMA, "--kv-memory", "64MiB", "--cost-profile", "off")


def dspark(*arguments, timeout=600):
    with tempfile.TemporaryDirectory() as home:
        return subprocess.run([COMMAND, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=timeout,
                              env=serving.environment(home))


def answer(*arguments):
    done = dspark(*arguments, "--json")
    assert done.returncode == 0, done.stderr + done.stdout
    return json.loads(done.stdout), done.stderr


def set_weights(drafter, **values):
    """Fills tensors of a folder's safetensors (bf16) with one value each; `_` stands for `.`."""
    path = drafter / "model.safetensors"
    data = bytearray(path.read_bytes())
    start = 8 + struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:start])
    for name, entry in header.items():
        value = values.get(name.replace(".", "_"))
        if value is None:
            continue
        first, end = entry["data_offsets"]
        data[start + first:start + end] = struct.pack("<f", value)[2:] * ((end - first) // 2)
    path.write_bytes(data)


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def prompts(self, count):
        path = self.folder / "prompts.jsonl"
        path.write_text("".join(json.dumps({"turns": [f"Number {i}: the cat sat on the mat."]}) + "\n"
                                for i in range(count)))
        return path

    def drafter(self, name="markov", source="markov", **weights):
        path = self.folder / name
        shutil.copytree(DRAFTERS / source, path)
        set_weights(path, **weights)
        return path


class Calibrate(Folder):
    def calibrate(self, drafter, *more):
        return ("calibrate", *ENGINE, "--drafter", drafter, "--temp", 0.7, "--prompts", self.prompts(16),
                "--max-tokens", 48, *more)

    def foretold(self, drafter):
        """The first token's survival of the first drafts, before anything was learnt by serving."""
        report, complaints = answer("eval", *ENGINE, "--drafter", drafter, "--temp", 0.7, "--prompts", self.prompts(2),
                                    "--max-tokens", 6)
        return report["all"]["positions"][0]["survival_expected"], complaints

    def test_what_is_fitted_holds_for_other_prompts_and_is_read(self):
        # Random weights: it says 0.18 of every token, and is right much less often.
        drafter = self.drafter(confidence_head_proj_weight=0.0, confidence_head_proj_bias=-1.5)
        before, _ = self.foretold(drafter)
        report, _ = answer(*self.calibrate(drafter))
        self.assertTrue(report["written"])
        self.assertGreater(report["drafts_fitted"], 200)
        self.assertGreater(report["drafts_held_out"], 200)
        first = report["positions"][0]
        self.assertEqual((first["position"], first["temperature_before"]), (1, 1.0))
        self.assertGreater(first["calibration_error_before"], 0.05)
        self.assertLess(first["calibration_error"], 0.5 * first["calibration_error_before"])
        self.assertLess(report["calibration_error"], report["calibration_error_before"])
        file = self.folder / "markov.calibration.json"
        kept = json.loads(file.read_text())
        self.assertEqual(kept["drafter"], report["drafter_digest"])
        self.assertEqual(kept["temperatures"][:len(report["positions"])],
                         [place["temperature"] for place in report["positions"]])
        after, _ = self.foretold(drafter)
        self.assertLess(after, before - 0.05)

        # Again on the same prompts: there is nothing better, and what there is stays.
        again, _ = answer(*self.calibrate(drafter))
        self.assertFalse(again["written"])
        self.assertEqual(again["calibration_error_before"], report["calibration_error"])
        self.assertEqual(json.loads(file.read_text()), kept)

        # Another file under the name is another drafter.
        set_weights(drafter, norm_weight=0.5)
        other, complaints = self.foretold(drafter)
        self.assertRegex(complaints, "calibrates the drafter [0-9a-f]{16}, this is [0-9a-f]{16}")
        self.assertGreater(other, after + 0.05)

    def test_says_what_it_needs(self):
        for arguments, code, words in (
                (("calibrate", *ENGINE, "--drafter", DRAFTERS / "markov"), 2, "--prompts"),
                (self.calibrate(DRAFTERS / "none"), 4, "no confidence head"),
                (self.calibrate(self.drafter(), "--limit", 2), 2, "at least 200"),
                (self.calibrate(DRAFTERS / "markov", "--draft-with", "ngram"), 2, "draft-with")):
            done = dspark(*arguments)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertRegex(done.stderr, words)
            self.assertEqual(done.stdout, "")
        self.assertFalse((self.folder / "markov.calibration.json").exists())


if __name__ == "__main__":
    COMMAND = sys.argv.pop(1)
    unittest.main(verbosity=2)
