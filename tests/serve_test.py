#!/usr/bin/env python3
"""`dspark serve` as its clients see it, on a tiny model of tests/data: answers, streams, seeds, keys, signals.

    tests/serve_test.py build/dspark [unittest arguments]
"""

import http.client
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODEL = ROOT / "tests/data/models/qwen3/hf"
COMMAND = ""


class Server:
    """A running `dspark serve`; leaves it by SIGTERM and checks that it ended well."""

    def __init__(self, *arguments):
        self.home = tempfile.TemporaryDirectory()
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("DSPARK_", "XDG_"))}
        self.process = subprocess.Popen(
            [COMMAND, "serve", "-m", str(MODEL), "--port", "0", "--served-model-name", "tiny", "--threads", "2",
             "--kv-memory", "64MiB", *map(str, arguments)],
            env=environment | {"HOME": self.home.name}, stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline().rsplit(":", 1)[1])
        assert self.process.stdout.readline() == "ready\n"

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=60)
        self.process.stdout.close()
        self.home.cleanup()
        assert code == 0, code

    def ask(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request(method, path, None if body is None else json.dumps(body), headers or {})
        response = connection.getresponse()
        text = response.read().decode()
        connection.close()
        return response.status, text

    def chat(self, **more):
        body = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 12} | more
        status, text = self.ask("POST", "/v1/chat/completions", body)
        assert status == 200, text
        return text


def deltas(stream):
    """The joined text of a stream of one choice."""
    events = [line.removeprefix("data: ") for line in stream.split("\n\n") if line]
    assert events[-1] == "[DONE]", events
    return "".join(json.loads(e)["choices"][0]["delta"].get("content", "") for e in events[:-1])


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
        for name in ("vllm:num_requests_running", "vllm:kv_cache_usage_perc", "vllm:prefix_cache_hits_total",
                     "vllm:cache_config_info", "dflash_kv_reuse_rate", "dspark_cache_hit_ratio"):
            self.assertIn(f"\n{name}{{", text)
        cache = json.loads(self.server.ask("GET", "/debug/cache")[1])
        kinds = ("free_blocks", "used_blocks", "cached_blocks", "pinned_blocks")
        self.assertEqual(sum(cache[kind] for kind in kinds), cache["capacity_blocks"])

    def test_an_overlong_prompt_names_both_numbers(self):
        status, text = self.server.ask("POST", "/v1/completions", {"prompt": [1] * 5000})
        self.assertEqual(status, 400)
        error = json.loads(text)["error"]
        self.assertEqual(error["code"], "context_length_exceeded")
        self.assertIn("5000", error["message"])


class Start(unittest.TestCase):
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
