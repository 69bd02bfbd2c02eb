#!/usr/bin/env python3
"""The life of a drafter on a tiny model: trained, calibrated, trained on with what a server has answered, and taken by a
running server.

    tests/drafters_test.py build/dspark [unittest arguments]
"""

import concurrent.futures
import json
import pathlib
import re
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
ENGINE = ("-m", LLAMA, "--threads", 2, "--kv-memory", "64MiB", "--cost-profile", "off")


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


class Online(Folder):
    """A server's log makes its drafter better."""

    def log(self, count):
        """A log as --log-prompts writes it, of answers that are easy to learn."""
        path = self.folder / "access.jsonl"
        with serving.Server(COMMAND, "--enable-dspark", "off", model=LLAMA) as server, path.open("w") as file:
            def length(text, special):
                status, answer_text = server.ask("POST", "/tokenize", {"prompt": text, "add_special_tokens": special})
                self.assertEqual(status, 200, answer_text)
                return json.loads(answer_text)["count"]

            for i in range(count):
                prompt, answer_ = f"Number {i}:", " the cat sat on the mat," * (4 + i % 3)
                print(json.dumps({"endpoint": "completions", "status": 200, "prompt_tokens": length(prompt, True),
                                  "output_tokens": length(answer_, False), "prompt": prompt, "answer": answer_,
                                  "sampling": {"n": 1, "temperature": 0, "seed": i}}), file=file)
        return path

    def first_drafter(self):
        """One step of training at no rate: it guesses next to nothing."""
        (self.folder / "recipe.json").write_text(json.dumps(
            {"drafter": {"layers": 1, "head": "markov", "rank": 8, "block": 5, "target_layers": [0, 1]},
             "training": {"steps": 1, "rate": 0, "conversations": 1}}))
        (self.folder / "data.jsonl").write_text("".join(
            json.dumps({"id": f"p/{i}#0", "tokens": [1, 2, 7, 8, 9, 10], "answers": [[2, 6]], "temperature": 0, "seed": i})
            + "\n" for i in range(3)))
        done = dspark("train", self.folder / "first", *ENGINE[:-2], "--data", self.folder / "data.jsonl", "--recipe",
                      self.folder / "recipe.json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.folder / "first/drafter.gguf"

    def train(self, log, drafter, folder, **training):
        (self.folder / "more.json").write_text(json.dumps({"training": training}))
        return dspark("train", self.folder / folder, *ENGINE[:-2], "--online", log, "--drafter", drafter, "--recipe",
                      self.folder / "more.json")

    def test_offered_only_if_it_is_better_on_what_was_held_out(self):
        log, first = self.log(60), self.first_drafter()
        done = self.train(log, first, "worse", steps=2, rate=0)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("nothing is offered", done.stdout)
        self.assertEqual([p.name for p in (self.folder / "worse").glob("*.gguf")], [])

        done = self.train(log, first, "better", steps=40, rate=3e-3, warm_up=5)
        self.assertEqual(done.returncode, 0, done.stderr)
        told = re.search(r"tau (\S+) -> (\S+) on (\d+) held-out conversations, after 40 steps", done.stdout)
        self.assertTrue(told, done.stdout)
        self.assertGreater(float(told[2]), float(told[1]) + 0.5)
        self.assertGreaterEqual(int(told[3]), 8)
        better = self.folder / "better/drafter.gguf"
        self.assertTrue(better.exists())
        self.assertEqual(dspark("eval", *ENGINE, "--drafter", better, "--prompts", self.prompts(1)).returncode, 0)

        done = self.train(log, first, "better", steps=1)
        self.assertEqual(done.returncode, 2)
        self.assertIn("may be in use", done.stderr)
        log.write_text("".join(log.read_text().splitlines(keepends=True)[:9]))
        done = self.train(log, first, "short", steps=1)
        self.assertEqual(done.returncode, 2)
        self.assertIn("held out", done.stderr)


class Swap(Folder):
    """A running server takes another drafter: no request is lost, and no token changes."""

    PROMPTS = [f"{i} times " + "the cat sat on the mat, " * 12 for i in range(25)]  # the last one is not asked at first

    def ask(self, server, i):
        return server.tokens(prompt=self.PROMPTS[i], max_tokens=40, temperature=i % 2 * 0.7, seed=i, ignore_eos=True)

    def change(self, server, body, status=200):
        found, text = server.ask("POST", "/api/v1/config", body)
        self.assertEqual(found, status, text)
        return json.loads(text)

    def test_under_load(self):
        one, other = self.drafter("one", "lookup"), self.drafter("other", "none")
        with serving.Server(COMMAND, "--enable-dspark", "off", model=LLAMA) as server:
            answers = [self.ask(server, i) for i in range(len(self.PROMPTS))]
        with serving.Server(COMMAND, "--drafter", one, "--draft-with", "dspark", "--dspark-mode", "fixed:3",
                            model=LLAMA) as server:
            for wrong, status, words in ((self.folder / "nothing.gguf", 400, "nothing.gguf"),
                                         (LLAMA.parent / "llama.gguf", 400, "no drafter"),
                                         (DRAFTERS / "markov", 409, "restart with --drafter")):
                self.assertIn(words, self.change(server, {"drafter": str(wrong)}, status)["error"]["message"])
            self.assertTrue(self.change(server, {"drafter": str(other), "dry_run": True})["changed"])
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                asked = [pool.submit(self.ask, server, i) for i in range(24)]
                for path in (other, one, other):
                    self.change(server, {"drafter": str(path)})
                self.assertEqual([each.result() for each in asked], answers[:24])
            server.wait_until_idle()

            def cached():
                """Of the last prompt, from before."""
                before = [server.metric("dspark_cached_prompt_tokens_total"), server.metric("dspark_drafted_tokens_total")]
                self.assertEqual(self.ask(server, 24), answers[24])
                self.assertGreater(server.metric("dspark_drafted_tokens_total"), before[1])
                return server.metric("dspark_cached_prompt_tokens_total") - before[0]

            cached()
            self.assertGreater(cached(), 128)
            self.change(server, {"rollback": 1})  # to the first one, which has written none of this
            self.assertEqual(cached(), 0)
            self.assertGreater(cached(), 128)

    def test_needs_a_restart_where_none_was_loaded(self):
        with serving.Server(COMMAND, "--draft-with", "ngram", model=LLAMA) as server:
            self.change(server, {"drafter": str(DRAFTERS / "none")}, 400)  # n-grams alone were asked for
        with serving.Server(COMMAND, model=LLAMA) as server:
            error = self.change(server, {"drafter": str(DRAFTERS / "none")}, 409)["error"]
            self.assertEqual(error["code"], "needs_restart")
            self.assertIn("restart with --drafter", error["message"])


class Metrics(Folder):
    """What the Prometheus text says of speculation is what the decision log says happened."""

    BINS = 20

    def bins(self, drafts, place):
        """Foretold survival and what came, in equal parts of [0, 1]: [tokens, accepted, sum of survival] each."""
        out = [[0, 0, 0.0] for _ in range(self.BINS)]
        for survival, verified, accepted in drafts:
            if place < verified:
                entry = out[min(self.BINS - 1, int(survival[place] * self.BINS))]
                entry[0] += 1
                entry[1] += accepted > place
                entry[2] += survival[place]
        return out

    def test_tells_what_was_foretold_and_what_came(self):
        decisions = self.folder / "decisions.jsonl"
        drafter = self.drafter(confidence_head_proj_bias=-1.0)
        with serving.Server(COMMAND, "--drafter", drafter, "--dspark-mode", "fixed:5", "--log-dflash-details", decisions,
                            model=LLAMA) as server:
            def ask(i):
                headers = {"X-Task": ("code", "math")[i % 2]}
                status, text = server.ask("POST", "/v1/completions", {
                    "prompt": f"{i} times the cat sat on the mat, the cat sat", "max_tokens": 60, "seed": i,
                    "temperature": i % 3 * 0.4, "ignore_eos": True}, headers)
                self.assertEqual(status, 200, text)

            for i in range(30):
                ask(i)
            server.wait_until_idle()
            text = server.ask("GET", "/metrics")[1]
        samples = {}
        for line in text.splitlines():
            if not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                samples[name] = float(value)

        def sample(name, label):
            return next(v for k, v in samples.items() if k.startswith(name + "{") and label in k)

        log = [json.loads(line) for line in decisions.read_text().splitlines()]
        drafts = [(line["survival"], line["verified"], line["accepted"]) for line in log if line["verified"] > 0]
        self.assertGreater(len(drafts), 300)
        self.assertGreater(sum(accepted for _, _, accepted in drafts), 20)
        for place in range(5):
            label = f'position="{place + 1}"'
            verified = sum(draft[1] > place for draft in drafts)
            accepted = sum(draft[2] > place for draft in drafts)
            self.assertEqual(sample("dspark_position_verified_total", label), verified)
            self.assertEqual(sample("dspark_position_accepted_total", label), accepted)
            self.assertEqual(sample("vllm:spec_decode_num_accepted_tokens_per_pos_total", f'position="{place}"'), accepted)
            bins = self.bins(drafts, place)
            error = sum(abs(foretold - came) for _, came, foretold in bins) / verified
            self.assertAlmostEqual(sample("dspark_calibration_error", label), error, places=5)
            if 0 < accepted < verified:
                pairs = sum(came * (sum(n - c for n, c, _ in bins[:i]) + 0.5 * (tokens - came))
                            for i, (tokens, came, _) in enumerate(bins))
                area = pairs / accepted / (verified - accepted)
                self.assertAlmostEqual(sample("dspark_survival_auc", label), area, places=5)
        foretold = sum(sum(survival[:verified]) for survival, verified, _ in drafts)
        for name, total in (("dspark_draft_tokens_total", sum(draft[1] for draft in drafts)),
                            ("dspark_survival_predicted_total", foretold),
                            ("dspark_survival_actual_total", sum(draft[2] for draft in drafts))):
            by_task = {task: sample(name, f'bucket="{task}"') for task in ("code", "math", "chat", "other")}
            self.assertAlmostEqual(by_task["code"] + by_task["math"], total, places=3)
            self.assertGreater(min(by_task["code"], by_task["math"]), 0)
            self.assertEqual((by_task["chat"], by_task["other"]), (0, 0))


if __name__ == "__main__":
    COMMAND = sys.argv.pop(1)
    unittest.main(verbosity=2)
