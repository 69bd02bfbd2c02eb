#!/usr/bin/env python3
"""The commands of operators against a tiny model: check-env, debug, top, bench sweep, tune, and what deploy/ names.

    tests/operator_test.py build/dspark [unittest arguments]
"""

import concurrent.futures
import json
import pathlib
import re
import resource
import subprocess
import sys
import tempfile
import time
import unittest
import xml.dom.minidom

import serving

COMMAND = ""
LLAMA = serving.ROOT / "tests/data/models/llama/hf"
DRAFTERS = serving.ROOT / "tests/data/drafters"


def dspark(*arguments, variables=None, timeout=300):
    with tempfile.TemporaryDirectory() as home:
        return subprocess.run([COMMAND, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=timeout,
                              env=serving.environment(home) | (variables or {}))


def answer(*arguments, code=0):
    done = dspark(*arguments, "--json")
    assert done.returncode == code, done.stderr + done.stdout
    return json.loads(done.stdout)


class CheckEnv(unittest.TestCase):
    COMMON = ("check-env", "-m", LLAMA, "--threads", "2", "--kv-memory", "64MiB")

    def test_tells_what_is_there_and_what_to_expect(self):
        report = answer(*self.COMMON, "--drafter", DRAFTERS / "markov")
        self.assertTrue(report["ok"])
        checks = {check["name"]: check for check in report["checks"]}
        self.assertLessEqual({"CPU", "instruction set", "cores", "memory", "memory bandwidth", "huge pages", "open files",
                              "model", "room", "drafter"}, set(checks))
        self.assertIn("markov", checks["drafter"]["found"])
        trial = report["trial"]
        self.assertEqual(trial["expected"][0]["clients"], 1)
        for point in trial["expected"]:
            self.assertGreater(point["plain_tokens_per_second"], 0)
            self.assertGreaterEqual(point["gain"], 0)
        chances = trial["survival"]
        self.assertTrue(chances)
        self.assertEqual(chances, sorted(chances, reverse=True))
        self.assertTrue(trial["reasons"])
        text = dspark(*self.COMMON).stdout
        self.assertRegex(text, r"DSpark here: [+-]\d+ % for one client")

    def test_what_does_not_work_is_exit_code_1(self):
        for more, name, words in ((["--drafter", DRAFTERS / "gated", "-m", serving.TINY], "drafter", "hidden size"),
                                  (["-m", "/nonexistent.gguf"], "model", "nonexistent"),
                                  (["--kv-memory", "1000"], "room", "positions")):
            report = answer(*self.COMMON, *more, code=1)
            failed = [check for check in report["checks"] if check["state"] == "failure"]
            self.assertEqual([check["name"] for check in failed], [name])
            self.assertIn(words, failed[0]["found"] + failed[0]["advice"])
            self.assertIsNone(report["trial"])

    def test_limits_are_found_before_they_end_it(self):
        def limited():
            resource.setrlimit(resource.RLIMIT_AS, (200 << 20, 200 << 20))

        with tempfile.TemporaryDirectory() as home:
            done = subprocess.run([COMMAND, *map(str, self.COMMON), "--json"], capture_output=True, text=True, check=False,
                                  preexec_fn=limited, env=serving.environment(home))
        self.assertEqual(done.returncode, 1, done.stderr)
        failed = [check["name"] for check in json.loads(done.stdout)["checks"] if check["state"] == "failure"]
        self.assertEqual(failed, ["address space"])

    def test_says_how_far_it_looked_and_why(self):
        done = dspark(*self.COMMON, "--drafter", DRAFTERS / "markov", "--max-running", "1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, "up to 1 clients; --max-running allows no more|stops paying at 1 clients")
        report = answer(*self.COMMON, "--drafter", DRAFTERS / "markov", "--max-running", "1")
        self.assertIn("--max-running", report["trial"]["why_no_more_clients"])
        found = {check["name"]: check["found"] for check in report["checks"]}
        self.assertIn("as --threads says", found["cores"])
        self.assertIn("the best one", found["instruction set"])
        self.assertIn("named by --drafter", found["drafter"])
        self.assertRegex(found["model"], "digest [0-9a-f]{16}$")


class Debug(unittest.TestCase):
    COMMON = ("debug", "-m", LLAMA, "--threads", "2", "--kv-memory", "64MiB")

    def causes(self, *arguments):
        report = answer(*self.COMMON, *arguments)
        return [cause["name"] for cause in report["verdict"]["causes"]]

    def test_each_stage_is_shown(self):
        report = answer(*self.COMMON, "--drafter", DRAFTERS / "markov", "--dspark-mode", "fixed:3")
        self.assertEqual(list(report), ["model", "drafters", "cache", "answer", "cost", "calibration", "drafts", "verdict"])
        self.assertEqual(len(report["drafters"]), 2)
        self.assertTrue(report["drafts"])
        self.assertGreater(report["drafts"][0]["verified"], 0)
        self.assertGreater(report["cost"][0]["ms"], 0)

    def test_the_usual_causes_are_named(self):
        self.assertEqual(self.causes("--enable-dspark", "off"), ["switched_off"])
        self.assertEqual(self.causes("--no-enable-mtp-varlen"), ["varlen_off"])
        self.assertEqual(self.causes("--dspark-mode", "fixed:0"), ["fixed_zero"])
        self.assertEqual(self.causes("--draft-with", "none"), ["no_drafters"])
        self.assertEqual(self.causes("--max-tokens", "1")[0], "short_answer")
        self.assertEqual(self.causes("--dflash-validation-threshold", "1", "-p", "abc abc abc abc abc abc"), ["threshold"])
        # Planned, a guess that there is might not pay on this machine at this moment.
        self.assertIn(self.causes("--draft-with", "ngram", "--dspark-mode", "fixed:2", "--prompt-len", "4", "--max-tokens",
                                  "4"), (["short_prompt"], ["wrong_guesses"]))

    def test_a_clients_request_is_debugged_as_it_was_sent(self):
        chat = {"model": "whatever", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 5, "seed": 3}
        with tempfile.TemporaryDirectory() as folder:
            body = pathlib.Path(folder) / "body.json"
            body.write_text(json.dumps(chat | {"speculation": {"enabled": False}}))
            self.assertEqual(self.causes("--request", body), ["opted_out"])
            body.write_text(json.dumps({"prompt": [1, 2, 3], "max_tokens": 7, "ignore_eos": True, "n": 2}))
            report = answer(*self.COMMON, "--request", body)
            self.assertEqual((report["answer"]["prompt_tokens"], report["answer"]["tokens"]), (3, 7))
            drawn = chat | {"max_tokens": 12, "temperature": 1.3, "top_k": 50}
            body.write_text(json.dumps(drawn))
            with serving.Server(COMMAND) as server:
                said = json.loads(server.chat(**drawn | {"model": "tiny"}))["choices"][0]["message"]["content"]
            self.assertEqual(answer(*self.COMMON, "-m", serving.TINY, "--request", body)["answer"]["text"], said)
            for text, code in (("{", 3), ("[]", 3), ('{"prompt": 7}', 2)):
                body.write_text(text)
                done = dspark(*self.COMMON, "--request", body)
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertIn("body.json", done.stderr)


class Top(unittest.TestCase):
    def test_shows_a_running_server(self):
        with serving.Server(COMMAND, "--enable-health-check") as server:
            with concurrent.futures.ThreadPoolExecutor() as pool:
                pool.submit(lambda: [server.tokens(max_tokens=400, ignore_eos=True) for _ in range(8)])
                done = dspark("top", "--port", server.port, "--looks", 3, "--refresh", "200ms")
            self.assertEqual(done.returncode, 0, done.stderr)
            pages = done.stdout.strip().split("\n\n")
            self.assertEqual(len(pages), 3)
            for name in ("server", "requests", "speed", "first token", "guesses", "steps", "cache"):
                self.assertRegex(pages[0], rf"(?m)^{name} ")
            self.assertRegex(pages[0], ", (ok|degraded)\n")
        self.assertEqual(dspark("top", "http://127.0.0.1:9", "--looks", 1).returncode, 1)


class Sweep(unittest.TestCase):
    def test_settings_and_peers_side_by_side(self):
        with tempfile.TemporaryDirectory() as folder, serving.Server(COMMAND) as server, \
                serving.Server(COMMAND, "--enable-dspark", "off") as peer:
            out, prompts = pathlib.Path(folder) / "out", []
            for name in ("mbpp", "mt-bench"):
                prompts.append(pathlib.Path(folder) / f"{name}.jsonl")
                prompts[-1].write_text("".join(json.dumps({"turns": [f"{name} number {i}, abc abc abc"]}) + "\n"
                                               for i in range(6)))
            before = json.loads(server.ask("GET", "/api/v1/config")[1])["settings"]
            done = dspark("bench", "sweep", "--server", f"ours=http://127.0.0.1:{server.port}", "--prompts", prompts[0],
                          "--prompts", prompts[1], "--clients", "2,4", "--repeats", 2, "--max-tokens", 24, "--out", out,
                          "--modes", "off", "--modes", "fixed:3")
            self.assertEqual(done.returncode, 0, done.stderr)
            report = json.loads((out / "sweep.json").read_text())
            self.assertEqual({(p["clients"], p["setting"]) for p in report["points"]},
                             {(c, s) for c in (2, 4) for s in ("off", "fixed:3")})
            for point in report["points"]:
                for round_ in point["rounds"]:
                    self.assertEqual(round_["failed"], 0)
                    self.assertGreater(round_["tokens_per_second"], 0)
                drafted = sum(a["tokens"] for r in point["rounds"] for a in r["engine"]["acceptance"].values())
                self.assertEqual(drafted > 0, point["setting"] == "fixed:3")
            text = (out / "sweep.md").read_text()
            self.assertLess(text.index("the worst points first"), text.index("All points"))
            self.assertIn("| code |", text)
            self.assertIn("What reproducibility costs", text)
            for plot in ("throughput", "user", "pareto"):
                xml.dom.minidom.parse(str(out / f"sweep-{plot}.svg"))
            after = json.loads(server.ask("GET", "/api/v1/config")[1])["settings"]
            self.assertEqual(after["dspark_mode"]["value"], before["dspark_mode"]["value"])
            # A peer whose settings nobody can change, in another rhythm.
            done = subprocess.run([sys.executable, serving.ROOT / "scripts/bench_sweep.py", "--server",
                                   f"peer=http://127.0.0.1:{peer.port}/", "--prompts", prompts[0], "--clients", "2",
                                   "--rounds", "1", "--answer", "8", "--arrivals", "poisson:50", "--modes", "off", "--out",
                                   out], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(dspark("bench", "sweep").returncode, 2)


class Tune(unittest.TestCase):
    def record(self, folder, *arguments, more=None):
        log = pathlib.Path(folder) / "access.jsonl"
        with serving.Server(COMMAND, "--access-log", log, *arguments) as server:
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                for _ in pool.map(lambda i: server.tokens(prompt="the same beginning, " * 6 + str(i % 3), max_tokens=20,
                                                          seed=i, ignore_eos=True), range(24)):
                    pass
            if more:
                server.ask("POST", "/v1/completions", more)
        return log

    def tune(self, log, out, *arguments):
        return answer("tune", "-m", serving.TINY, "--threads", "2", "--kv-memory", "64MiB", "--access-log", log, "--minutes",
                      "0.2", "--out", out, *arguments)

    def test_a_log_is_replayed(self):
        with tempfile.TemporaryDirectory() as folder:
            log, out = self.record(folder, "--log-prompts"), pathlib.Path(folder) / "out"
            report = self.tune(log, out)
            self.assertTrue(16 <= report["requests"] <= 24)  # as many as the time allows
            self.assertTrue(report["with_text"])
            self.assertTrue(report["trials"])
            self.assertIn("dflash_validation_threshold", report["settings"])
            self.assertNotIn("kv_type", report["settings"])
            self.assertEqual(json.loads((out / "tune.json").read_text()), report)
            if report["recommended"]:
                for name in ("throughput", "TTFT P99", "ITL P50"):
                    self.assertIn(name, report["against_today"])
                shown = answer("config", "--config", out / "config.toml")["settings"]
                values = {entry["key"]: entry for entry in shown}
                self.assertEqual(values["threads"]["value"], 2)
            # What came several times warms the next server up.
            lines = [json.loads(line) for line in (out / "warm-up.jsonl").read_text().splitlines()]
            self.assertEqual(len(lines), 3)
            with serving.Server(COMMAND, "--cache-warmup-file", out / "warm-up.jsonl") as server:
                self.assertGreater(server.cache()["pinned_blocks"], 0)

    def test_without_text_nothing_is_said_of_speculation(self):
        with tempfile.TemporaryDirectory() as folder:
            log, out = self.record(folder), pathlib.Path(folder) / "out"
            report = self.tune(log, out)
            self.assertFalse(report["with_text"])
            self.assertNotIn("dflash_validation_threshold", report["settings"])
            self.assertFalse((out / "warm-up.jsonl").exists())

    def test_prompts_of_one_request_are_played_each(self):
        with tempfile.TemporaryDirectory() as folder:
            both = {"prompt": ["first \u00e4", "the second one, " * 20], "max_tokens": 6, "ignore_eos": True}
            log = self.record(folder, "--log-prompts", more=both)
            line = json.loads(log.read_text().splitlines()[-1])
            self.assertEqual(sum(part["tokens"] for part in line["parts"]), line["prompt_tokens"])
            self.assertGreater(line["parts"][1]["tokens"], 128)
            self.assertEqual(line["prompt"].encode()[:line["parts"][0]["bytes"]].decode(), "first \u00e4")
            report = answer("bench", "replay", "-m", serving.TINY, "--threads", "2", "--kv-memory", "64MiB", "--access-log", log,
                            "--repeats", "2")
            self.assertEqual((report["requests"], report["with_text"], len(report["rounds"])), (26, True, 2))
            self.assertGreater(report["rounds"][0]["wait_seconds"], report["rounds"][0]["ttft_p50"])
            del line["prompt"], line["answer"]
            for part, good in (({"tokens": 1, "bytes": 1}, False), ({"tokens": -1}, False), (7, False), ({"tokens": 2}, True)):
                log.write_text(json.dumps(line | {"parts": [part]}) + "\n")
                self.assertEqual(dspark("bench", "replay", "-m", serving.TINY, "--access-log", log).returncode, 0 if good else 3)
        self.assertEqual(dspark("bench", "replay").returncode, 2)

    def test_bad_logs_are_errors(self):
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder) / "log"
            for text, words in (("", "no answered request"), ("{}\n", ":1"), ("x\n", ":1"), ('{"endpoint": 7}\n', ":1"),
                                ('\n{"endpoint": "chat", "status": 200, "arrival": 1e999}\n', ":2")):
                log.write_text(text)
                done = dspark("tune", "-m", serving.TINY, "--access-log", log)
                self.assertEqual(done.returncode, 3, done.stderr)
                self.assertIn(words, done.stderr)
        self.assertEqual(dspark("tune").returncode, 2)


class Defrag(unittest.TestCase):
    def test_idle_moments_compact_the_cache(self):
        with serving.Server(COMMAND, "--enable-cache-defrag", "--cache-defrag-every", "300ms") as server, \
                serving.Server(COMMAND) as other:
            def ask(of, i, length):
                return of.tokens(prompt=[i % 250] * length, max_tokens=20, ignore_eos=True, seed=i, n=1)

            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                first = list(pool.map(lambda i: ask(server, i, 20 + 45 * (i % 9)), range(40)))
            before = server.cache()
            runs = server.metric("dspark_cache_defrags_total")
            deadline = time.monotonic() + 60
            while server.metric("dspark_cache_defrags_total") < runs + 2:
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.05)
            after = server.wait_until_idle()
            self.assertLessEqual(after["cache_fragmentation_ratio"], before["cache_fragmentation_ratio"])
            self.assertEqual(after["scatter_positions"], 0)
            self.assertEqual([ask(server, i, 20 + 45 * (i % 9)) for i in range(40)], first)
            self.assertEqual([ask(other, i, 20 + 45 * (i % 9)) for i in range(40)], first)


class Deploy(unittest.TestCase):
    def test_every_metric_that_is_named_exists(self):
        with serving.Server(COMMAND, "--enable-health-check", "--dspark-mode", "fixed:3") as server:
            server.tokens(prompt="abc abc abc abc", max_tokens=60, ignore_eos=True)
            server.ask("POST", "/v1/completions", {"prompt": [1] * 5000})
            metrics = server.ask("GET", "/metrics")[1]
            known = set(re.findall(r"(?m)^([a-z0-9_:]+)[{ ]", metrics))
        deploy = serving.ROOT / "deploy"
        dashboard = json.loads((deploy / "grafana-dashboard.json").read_text())
        texts = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
        texts.append((deploy / "alerts.yml").read_text())
        named = {name for text in texts for name in re.findall(r"\b(?:vllm:|dspark_|dflash_)[a-z0-9_]+", text)}
        self.assertGreater(len(named), 20)
        self.assertEqual(named - known, set())

    def test_the_unit_starts_what_there_is(self):
        unit = (serving.ROOT / "deploy/dspark.service").read_text()
        line = re.search(r"ExecStart=\S+ (serve .*)", unit).group(1)
        self.assertEqual(dspark(*line.split(), "--help").returncode, 0)
        variables = dict(re.findall(r"(?m)^Environment=(\w+)=(.*)$", unit))
        self.assertIn("XDG_CACHE_HOME", variables)
        done = dspark("config", variables=variables)  # that no configuration file has been written is no error
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_the_container_file_names_what_there_is(self):
        text = (serving.ROOT / "deploy/Containerfile").read_text()
        copied = re.findall(r"COPY --from=build /src/(\S+)", text)
        self.assertIn("build/dspark", copied)
        for path in set(copied) - {"build/dspark"}:
            self.assertTrue((serving.ROOT / path).exists(), path)
        self.assertIn("build\n", (serving.ROOT / ".dockerignore").read_text())
        command = json.loads(re.search(r"(?m)^CMD (\[.*\])$", text).group(1))
        variables = dict(re.findall(r"(\w+)=(\S+)", re.search(r"(?m)^ENV (.*)$", text).group(1)))
        self.assertEqual(dspark(*command, "--help").returncode, 0)
        listed = json.loads(dspark("config", "--json", variables=variables).stdout)
        self.assertIn("0.0.0.0", json.dumps(listed))


if __name__ == "__main__":
    COMMAND = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main()
