#!/usr/bin/env python3
"""`dspark serve` as its clients see it, on a tiny model of tests/data: answers, streams, seeds, keys, signals.

    tests/serve_test.py build/dspark [unittest arguments]
"""

import hashlib
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import unittest

import serving
from serving import events

COMMAND = ""
METRICS = """vllm:time_to_first_token_seconds vllm:inter_token_latency_seconds vllm:e2e_request_latency_seconds
    vllm:request_queue_time_seconds vllm:request_prefill_time_seconds vllm:request_decode_time_seconds
    vllm:num_requests_running vllm:num_requests_waiting vllm:num_preemptions_total vllm:prompt_tokens_total
    vllm:generation_tokens_total vllm:request_success_total vllm:kv_cache_usage_perc vllm:prefix_cache_queries_total
    vllm:prefix_cache_hits_total vllm:cache_config_info dflash_kv_reuse_rate dspark_cache_hit_ratio
    dspark_step_gap_seconds_total dspark_step_seconds_total dspark_cache_fragmentation_ratio dspark_cache_slack_ratio
    dspark_cache_scatter_ratio dspark_cache_conflict_ratio dspark_cache_evictions_total
    dspark_cache_hash_collisions_total dspark_cache_lock_waits_total dspark_drafted_tokens_total
    dspark_accepted_tokens_total""".split()


def Server(*arguments, **more):
    return serving.Server(COMMAND, *arguments, **more)


def deltas(stream):
    """The joined text of a stream of one choice."""
    return "".join(event["choices"][0]["delta"].get("content", "") for event in events(stream))


class Serve(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__()

    def test_an_answer_can_be_asked_for_again(self):
        first = json.loads(self.server.chat(n=3, return_token_ids=True))
        self.assertEqual(len({choice["seed"] for choice in first["choices"]}), 3)
        for choice in first["choices"]:
            again = json.loads(self.server.chat(seed=choice["seed"], return_token_ids=True))
            self.assertEqual(again["choices"][0]["token_ids"], choice["token_ids"])
            self.assertEqual(again["system_fingerprint"], first["system_fingerprint"])

    def test_a_stream_says_what_the_whole_says(self):
        whole = json.loads(self.server.chat(seed=5))["choices"][0]["message"]["content"]
        self.assertEqual(deltas(self.server.chat(seed=5, stream=True)), whole)

    def test_neighbours_do_not_change_an_answer(self):
        alone = [json.loads(self.server.chat(seed=i))["choices"][0]["message"] for i in range(8)]
        together = [None] * 8

        def ask(i):
            together[i] = json.loads(self.server.chat(seed=i))["choices"][0]["message"]

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(together, alone)

    def test_a_stop_text_waits_for_min_tokens(self):
        body = {"prompt": "Hello", "max_tokens": 12, "seed": 1, "ignore_eos": True}
        whole = json.loads(self.server.ask("POST", "/v1/completions", body)[1])["choices"][0]
        body["stop"] = whole["text"][0]
        ends = json.loads(self.server.ask("POST", "/v1/completions", body)[1])["choices"][0]
        self.assertEqual((ends["text"], ends["finish_reason"]), ("", "stop"))
        waits = json.loads(self.server.ask("POST", "/v1/completions", body | {"min_tokens": 12})[1])["choices"][0]
        self.assertEqual((waits["text"], waits["finish_reason"]), (whole["text"], "length"))

    def test_completions_score_prompts(self):
        status, text = self.server.ask("POST", "/v1/completions",
                                       {"prompt": "Hello there", "max_tokens": 0, "echo": True, "logprobs": 1})
        self.assertEqual(status, 200, text)
        choice = json.loads(text)["choices"][0]
        self.assertEqual(choice["text"], "Hello there")
        self.assertIsNone(choice["logprobs"]["token_logprobs"][0])
        self.assertTrue(all(value < 0 for value in choice["logprobs"]["token_logprobs"][1:]))

    def test_embeddings_have_unit_length(self):
        status, text = self.server.ask("POST", "/v1/embeddings", {"input": "Hello"})
        self.assertEqual(status, 200, text)
        values = json.loads(text)["data"][0]["embedding"]
        self.assertAlmostEqual(sum(value * value for value in values), 1, places=4)

    def test_metrics_and_cache_report(self):
        self.server.chat()
        status, text = self.server.ask("GET", "/metrics")
        self.assertEqual(status, 200)
        for name in METRICS:
            self.assertRegex(text, f"(?m)^{name}(_bucket)?{{.*}} [0-9.e+-]+$")
        # Every line is one of the text format, and every name has its type, once.
        for line in text.splitlines():
            self.assertRegex(line, r'^(# (HELP|TYPE) |[a-z0-9_:]+({[a-z0-9_]+="[^"]*"(,[a-z_]+="[^"]*")*})? [-+0-9.e]+(Inf)?$)')
        types = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
        self.assertEqual(len(types), len(set(types)))
        blocks = [float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith("dspark_cache_blocks{")]
        self.assertEqual(sum(blocks), self.server.cache()["capacity_blocks"])

    def test_metrics_count_what_was_done(self):
        names = ("vllm:prompt_tokens_total", "vllm:generation_tokens_total", "vllm:request_success_total",
                 "vllm:prefix_cache_queries_total", "vllm:time_to_first_token_seconds_count",
                 "vllm:inter_token_latency_seconds_count", "vllm:e2e_request_latency_seconds_count")
        self.server.wait_until_idle()
        before = [self.server.metric(name) for name in names]
        for i in range(3):
            self.server.tokens(prompt=[i + 3] * 10, max_tokens=5, ignore_eos=True)
        self.server.wait_until_idle()
        after = [self.server.metric(name) for name in names]
        self.assertEqual([b - a for a, b in zip(before, after)], [30, 15, 3, 30, 3, 12, 3])
        self.server.wait_until_idle()

    def test_an_overlong_prompt_names_both_numbers(self):
        status, text = self.server.ask("POST", "/v1/completions", {"prompt": [1] * 5000})
        self.assertEqual(status, 400)
        error = json.loads(text)["error"]
        self.assertEqual(error["code"], "context_length_exceeded")
        self.assertIn("5000", error["message"])


class CacheStats(unittest.TestCase):
    def ask(self, *arguments, **variables):
        with tempfile.TemporaryDirectory() as home:
            return subprocess.run([COMMAND, "cache-stats", *map(str, arguments)], capture_output=True, text=True,
                                  timeout=60, check=False, env=serving.environment(home) | variables)

    def test_says_what_the_server_says(self):
        with Server() as server:
            server.tokens(prompt=[7] * 300)
            server.tokens(prompt=[7] * 300)
            done = self.ask("--port", server.port, "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(json.loads(done.stdout)["counters"], server.cache()["counters"])
            self.assertEqual(json.loads(done.stdout)["counters"]["block_hits"], 2)
            text = self.ask(f"http://127.0.0.1:{server.port}/").stdout
            self.assertRegex(text, r"prompt tokens +600, of which 299 \(49.8%\) reused")
            self.assertRegex(text, r"accounting +closed")

    def test_errors_say_what_to_do(self):
        self.assertIn("--port", self.ask("--port", "1").stderr)
        self.assertIn("expected a URL", self.ask("localhost:8000").stderr)

    def test_keys(self):
        with tempfile.TemporaryDirectory() as folder:
            keys = pathlib.Path(folder) / "keys.json"
            keys.write_text(json.dumps({"keys": [{"sha256": hashlib.sha256(b"root").hexdigest(), "tenant": "ops",
                                                  "rights": ["admin"]}]}))
            with Server("--api-keys", keys) as server:
                self.assertIn("DSPARK_API_KEY", self.ask("--port", server.port).stderr)
                done = self.ask("--port", server.port, DSPARK_API_KEY="root")
                self.assertEqual(done.returncode, 0, done.stderr)


class WarmUp(unittest.TestCase):
    def test_is_there_from_the_start_and_stays(self):
        system = {"role": "system", "content": "Be kind. " * 20}
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "warm.jsonl"
            file.write_text(json.dumps({"messages": [system]}) + "\n\n" + json.dumps({"prompt": "Hello " * 30}) + "\n")
            with Server("--cache-warmup-file", file, memory="2MiB") as server:
                before = server.cache()
                self.assertGreater(before["pinned_blocks"], 1)
                self.assertEqual(before["used_blocks"] + before["cached_blocks"], 0)
                for i in range(40):  # more than the memory holds
                    server.tokens(prompt=[i + 1] * 500, max_tokens=1)
                self.assertGreater(server.cache()["counters"]["evictions"], 0)
                answer = json.loads(server.chat(messages=[system, {"role": "user", "content": "Hi"}]))
                usage = answer["usage"]
                self.assertGreater(usage["prompt_tokens_details"]["cached_tokens"], usage["prompt_tokens"] // 2)
                self.assertEqual(server.wait_until_idle()["pinned_blocks"], before["pinned_blocks"])
            with Server(memory="2MiB") as cold:  # and no token differs
                again = json.loads(cold.chat(messages=[system, {"role": "user", "content": "Hi"}],
                                             seed=answer["choices"][0]["seed"]))
                self.assertEqual(again["choices"][0]["message"], answer["choices"][0]["message"])

    def test_health_is_503_until_then(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "warm.jsonl"
            file.write_text("".join(json.dumps({"prompt": "%d" % i * 240}) + "\n" for i in range(60)))
            with Server("--cache-warmup-file", file, ready=False) as server:
                status, text = server.ask("GET", "/health")
                self.assertEqual((status, json.loads(text)["error"]["code"]), (503, "loading"))
                self.assertEqual(server.ask("POST", "/v1/completions", {"prompt": "a"})[0], 503)
                server.wait_until_ready()
                self.assertEqual(server.ask("GET", "/health")[0], 200)

    def test_reads_an_access_log_with_prompts(self):
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder) / "log.jsonl"
            with Server("--access-log", log, "--log-prompts") as server:
                first = json.loads(server.chat(messages=[{"role": "user", "content": "Hello " * 50}]))
            with Server("--cache-warmup-file", log) as server:
                again = json.loads(server.chat(messages=[{"role": "user", "content": "Hello " * 50}]))
            self.assertEqual(first["usage"]["prompt_tokens_details"]["cached_tokens"], 0)
            self.assertEqual(again["usage"]["prompt_tokens_details"]["cached_tokens"],
                             again["usage"]["prompt_tokens"] - 1)

    def test_bad_files_end_the_start(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "warm.jsonl"
            for text, memory, message in (('{"prompt": "a"}\n{"prompt": 3}', "64MiB", "line 2: prompt: found 3"),
                                          ("[1]", "64MiB", "line 1"), ("\xff", "64MiB", "line 1"),
                                          ('{"prompt": "a", "tenant": "b"}', "64MiB", "tenant"),
                                          ('{"prompt": "%s"}' % ("Hello " * 100), "64MiB", "context"),
                                          ('{"prompt": "%s"}' % ("Hello " * 60), "400KiB", "--kv-memory")):
                file.write_bytes(text.encode("latin-1"))
                server = Server("--cache-warmup-file", file, memory=memory, ready=False)
                self.assertIn(message, server.ended())
                self.assertNotEqual(server.stop(), 0)


class Docs(unittest.TestCase):
    def test_the_examples_of_curl_work(self):
        text = (serving.ROOT / "docs/server.md").read_text()
        blocks = [b for b in re.findall(r"^```sh\n(.*?)^```", text, re.S | re.M) if "curl" in b]
        self.assertGreaterEqual(sum(block.count("curl ") for block in blocks), 7)
        with Server() as server:
            for block in blocks:
                script = block.replace(":8000", f":{server.port}").replace("curl -s", "curl --fail-with-body -s")
                done = subprocess.run(["bash", "-euo", "pipefail", "-c", script], capture_output=True, text=True, timeout=120,
                                      check=False)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


class Start(unittest.TestCase):
    def test_too_little_kv_memory_is_found_at_the_start(self):
        with tempfile.TemporaryDirectory() as home:
            done = subprocess.run([COMMAND, "serve", "-m", serving.TINY, "--port", "0", "--kv-memory", "200KiB",
                                   "--context", "512"], capture_output=True, text=True, timeout=60, check=False,
                                  env=serving.environment(home))
        self.assertEqual(done.returncode, 5)
        self.assertIn("--kv-memory", done.stderr)
        with Server(memory="200KiB") as server:  # unless the context may be what fits
            context = json.loads(server.ask("GET", "/v1/models")[1])["data"][0]["max_model_len"]
            self.assertEqual(context, server.cache()["capacity_blocks"] * 128)
            self.assertEqual(len(server.tokens(max_tokens=context, ignore_eos=True)), context - 5)
            server.wait_until_idle()

    def test_bad_settings_are_named(self):
        for arguments, message in ((["--log-prompts"], "--access-log"), (["--tls-cert", "x"], "--tls-key"),
                                   (["--api-keys", "/nonexistent"], "/nonexistent")):
            done = subprocess.run([COMMAND, "serve", *arguments], capture_output=True, text=True, timeout=60, check=False)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(message, done.stderr)

    def test_the_log_holds_no_text(self):
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder) / "log.jsonl"
            with Server("--access-log", log) as server:
                answer = server.chat(user="somebody")
            lines = log.read_text().splitlines()
            self.assertEqual(len(lines), 1)
            self.assertEqual(json.loads(lines[0])["output_tokens"], json.loads(answer)["usage"]["completion_tokens"])
            self.assertNotIn("Hello", lines[0])


if __name__ == "__main__":
    COMMAND = sys.argv.pop(1)
    unittest.main()
