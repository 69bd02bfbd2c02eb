#!/usr/bin/env python3
"""`dspark serve` among bad clients, too little memory and broken numbers: only who is at fault notices.

    tests/serve_faults_test.py build/dspark [unittest arguments]
"""

import concurrent.futures
import hashlib
import json
import pathlib
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import serving
from serving import events, post_bytes, read_to_end

COMMAND = ""
CONTEXT = 512  # of the tiny model


def Server(*arguments, **more):
    return serving.Server(COMMAND, *arguments, **more)


def status_of(answer):
    return int(answer[9:12])


class BadClients(unittest.TestCase):
    """One server for all of them. After each test it is idle, its accounting is closed, and it answers as before."""

    @classmethod
    def setUpClass(cls):
        cls.server = Server("--client-timeout", "1s", "--max-body", "1MiB")
        cls.expected = cls.server.tokens()

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__()

    def tearDown(self):
        self.assertEqual(self.server.tokens(), self.expected)
        self.server.wait_until_idle()

    def post(self, body):
        return self.server.ask("POST", "/v1/chat/completions", body)

    def test_gone_in_mid_stream(self):
        before = self.server.metric("dspark_requests_total")
        for _ in range(5):
            s = self.server.raw(post_bytes("/v1/completions", {"prompt": "a", "max_tokens": 500, "ignore_eos": True,
                                                               "stream": True, "n": 4}))
            self.assertIn(b"200 OK", s.recv(64))
            s.close()
        self.server.wait_until_idle()
        self.assertEqual(self.server.metric("dspark_requests_total"), before + 5)

    def test_gone_by_reset(self):
        s = self.server.raw(post_bytes("/v1/completions", {"prompt": "a", "max_tokens": 500, "ignore_eos": True}))
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        s.close()

    def test_half_a_request(self):
        whole = post_bytes("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi"}]})
        halves = [self.server.raw(whole[:n]) for n in (1, 20, len(whole) - 40, len(whole) - 1)]
        self.assertEqual(self.server.tokens(), self.expected)  # nobody waits for them
        for s in halves:
            self.assertEqual(status_of(read_to_end(s)), 408)
            s.close()

    def test_a_byte_at_a_time_takes_too_long(self):
        s = self.server.raw()
        begun = time.monotonic()
        try:
            for byte in post_bytes("/v1/chat/completions", {"messages": []}):
                s.sendall(bytes([byte]))
                time.sleep(0.05)
        except OSError:
            pass
        self.assertLess(time.monotonic() - begun, 20)
        s.close()

    def test_a_slow_reader(self):
        s = self.server.raw(post_bytes("/v1/completions", {"prompt": "a", "max_tokens": 500, "ignore_eos": True, "n": 48,
                                                           "stream": True, "seed": 1}), receive_buffer=4096)
        self.assertIn(b"200 OK", s.recv(64))
        self.assertEqual(self.server.tokens(), self.expected)
        self.server.wait_until_idle()  # it was dropped: it never reads on
        self.assertNotIn(b"[DONE]", read_to_end(s))
        s.close()

    def test_a_body_of_100_mb(self):
        s = self.server.raw(post_bytes("/v1/chat/completions", b"", length=100_000_000))
        self.assertEqual(status_of(read_to_end(s)), 413)
        s.close()
        s = self.server.raw(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        chunk = b"100000\r\n" + b"x" * 0x100000 + b"\r\n"
        try:
            for _ in range(100):
                s.sendall(chunk)
        except OSError:
            pass  # it does not take them all
        self.assertLess(self.server.resident_bytes(), 600e6)
        s.close()

    def test_deep_json(self):
        for body in (b"[" * 500_000, b'{"messages":' * 50_000, b'{"messages": [' + b"[" * 100_000 + b"]" * 100_000 + b"]}",
                     b'{"tools": ' + b'[{"a":' * 40_000):
            self.assertEqual(self.post(body)[0], 400)

    def test_invalid_utf8(self):
        for text in (b"\xff\xfe", b"\xc3", b"\xed\xa0\x80", b"\xf8\x88\x80\x80\x80"):
            status, answer = self.post(b'{"messages": [{"role": "user", "content": "' + text + b'"}]}')
            self.assertEqual(status, 400)
            self.assertIn("not valid JSON at byte", answer)
        status, _ = self.post(b'{"messages": [{"role": "user", "content": "\\ud800"}]}')
        self.assertEqual(status, 400)

    def test_ten_thousand_stops(self):
        stops = [f"stop {i}" for i in range(10_000)]
        status, answer = self.post({"messages": [{"role": "user", "content": "Hi"}], "stop": stops})
        self.assertEqual(status, 400)
        self.assertIn("10000", answer)
        self.assertEqual(self.post({"messages": [{"role": "user", "content": "Hi"}], "stop_token_ids": list(range(200)) * 99,
                                    "max_tokens": 3})[0], 400)

    def test_requests_that_are_none(self):
        for data, expected in ((b"\x00" * 100, 400), (b"GET / HTTP/9.9\r\n\r\n", 400),
                               (b"GET /health HTTP/1.1\r\nX: " + b"y" * 100_000, 431),
                               (b"POST /v1/completions HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
                               (b"POST /v1/completions HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef", 400)):
            s = self.server.raw(data)
            self.assertEqual(status_of(read_to_end(s)), expected, data[:60])
            s.close()

    def test_requests_that_two_servers_could_read_in_two_ways(self):
        post = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n"
        body = b'{"prompt": "a", "max_tokens": 1}'
        length = b"Content-Length: %d\r\n" % len(body)
        smuggled = b"0\r\n\r\nGET /health HTTP/1.1\r\nHost: x\r\n\r\n"
        for data, expected in ((post + length + b"Transfer-Encoding: chunked\r\n\r\n" + smuggled, 400),
                               (post + b"Transfer-Encoding: chunked\r\n" + length + b"\r\n" + smuggled, 400),
                               (post + length + b"Transfer-Encoding: xchunked\r\n\r\n" + body, 400),
                               (post + length + b"Transfer-Encoding: identity\r\n\r\n" + body, 400),
                               (post + b"Transfer-Encoding: gzip, chunked\r\n\r\n" + smuggled, 400),
                               (post + b"Transfer-Encoding: chunked, identity\r\n\r\n" + smuggled, 400),
                               (post.replace(b"1.1", b"1.0") + b"Transfer-Encoding: chunked\r\n\r\n" + smuggled, 400),
                               (post + length + b"Content-Encoding: gzip\r\n\r\n" + body, 415),
                               (post + b"Host: y\r\n" + length + b"\r\n" + body, 400),
                               (b"GET /health HTTP/1.1\r\n\r\n", 400)):
            s = self.server.raw(data)
            answer = read_to_end(s)
            self.assertEqual((status_of(answer), answer.count(b"HTTP/1.1")), (expected, 1), data[:120])
            s.close()
        close = b"Connection: close\r\n\r\n"
        for data in (b"\r\n\r\nGET /health HTTP/1.1\r\nHost: x\r\n" + close,
                     b"GET http://x/health?a=b HTTP/1.1\r\nHost: x\r\n" + close, b"GET /health HTTP/1.0\r\n\r\n"):
            s = self.server.raw(data)
            self.assertEqual(status_of(read_to_end(s)), 200, data)
            s.close()

    def test_what_surrounds_chunks_is_bounded(self):
        chunked = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        before = self.server.resident_bytes()
        for begin, piece in ((b"1;", b"a" * 65536), (b"0\r\nX: ", b"a" * 65536), (b"0\r\n", b"Ab: c\r\n" * 9000),
                             (b"", b"0" * 65536)):
            s = self.server.raw(chunked + begin)
            try:
                for _ in range(1000):
                    s.sendall(piece)
            except OSError:
                pass
            s.close()
            self.assertLess(self.server.resident_bytes(), before + 20e6, begin)
            s = self.server.raw(chunked + begin + piece)
            self.assertEqual(status_of(read_to_end(s)), 431, begin)
            s.close()

    def test_the_next_request_before_the_answer(self):
        body = {"prompt": "a", "max_tokens": 20, "seed": 1, "ignore_eos": True}
        last = post_bytes("/v1/completions", body, headers="Connection: close\r\n")
        s = self.server.raw(post_bytes("/v1/completions", body) * 2 + post_bytes("/tokenize", {"prompt": "a"}) + last)
        self.assertEqual(read_to_end(s).count(b"HTTP/1.1 200 OK"), 4)
        s.close()
        s = self.server.raw(post_bytes("/v1/completions", body | {"max_tokens": 300}))
        time.sleep(0.05)
        s.sendall(last)  # while the first one is being answered
        self.assertEqual(read_to_end(s).count(b"HTTP/1.1 200 OK"), 2)
        s.close()
        for _ in range(10):
            s = self.server.raw(post_bytes("/v1/completions", body) * 3)
            s.close()
        # Who goes is missed in spite of what he has sent for later.
        begun = self.server.metric("vllm:generation_tokens_total")
        s = self.server.raw(post_bytes("/v1/completions", body | {"max_tokens": 500, "n": 90}) + b"\r\n")
        time.sleep(0.3)
        s.close()
        self.server.wait_until_idle()
        self.assertLess(self.server.metric("vllm:generation_tokens_total") - begun, 40_000)

    def test_a_prompt_to_the_last_position(self):
        for length in (CONTEXT - 1, CONTEXT - 128, CONTEXT - 129, 383, 384, 385):
            status, text = self.server.ask("POST", "/v1/completions",
                                           {"prompt": [9] * length, "max_tokens": CONTEXT, "ignore_eos": True})
            self.assertEqual(status, 200, text)
            answer = json.loads(text)
            self.assertEqual(answer["usage"]["completion_tokens"], CONTEXT - length)
            self.assertEqual(answer["choices"][0]["finish_reason"], "length")
        status, text = self.server.ask("POST", "/v1/completions", {"prompt": [9] * CONTEXT})
        self.assertEqual((status, json.loads(text)["error"]["code"]), (400, "context_length_exceeded"))

    def test_deadlines(self):
        status, text = self.server.ask("POST", "/v1/completions", {"prompt": "a", "max_tokens": 500, "ignore_eos": True,
                                                                   "n": 64, "timeout": 0.05})
        self.assertEqual((status, json.loads(text)["error"]["code"]), (504, "deadline_exceeded"))


class LongBodies(unittest.TestCase):
    """Bodies that take seconds to read and tokenise."""

    BODY = json.dumps({"prompt": "a b" * 5_000_000}).encode()

    def test_of_clients_that_went_are_forgotten(self):
        with Server() as server:
            server.ask("POST", "/tokenize", self.BODY)
            before = server.resident_bytes()
            for _ in range(60):
                s = server.raw(post_bytes("/tokenize", self.BODY))
                s.close()
            self.assertLess(server.resident_bytes(), before + 30 * len(self.BODY))
            server.tokens()

    def test_do_not_keep_short_ones_waiting(self):
        with Server() as server:
            waiting = [server.raw(post_bytes("/tokenize", self.BODY, headers="Connection: close\r\n")) for _ in range(8)]
            for _ in range(5):
                server.tokens()
            waiting[-1].settimeout(0)
            with self.assertRaises(BlockingIOError):
                waiting[-1].recv(1)  # it still waits
            for s in waiting:
                s.close()
            server.wait_until_idle()


def together(server, bodies):
    with concurrent.futures.ThreadPoolExecutor(len(bodies)) as pool:
        return list(pool.map(lambda body: server.ask("POST", "/v1/completions", body), bodies))


class Memory(unittest.TestCase):
    def test_exhaustion_preempts_and_changes_nothing(self):
        bodies = [{"prompt": [i + 1] * 100, "max_tokens": 380, "ignore_eos": True, "seed": i, "return_token_ids": True}
                  for i in range(8)]
        with Server() as roomy:
            expected = [json.loads(text)["choices"][0]["token_ids"] for _, text in together(roomy, bodies)]
            self.assertEqual(roomy.metric("vllm:num_preemptions_total"), 0)
        with Server(memory="560KiB") as tight:  # 7 blocks; each of them wants 4
            answers = together(tight, bodies)
            self.assertEqual([status for status, _ in answers], [200] * len(bodies))
            self.assertEqual([json.loads(text)["choices"][0]["token_ids"] for _, text in answers], expected)
            self.assertGreater(tight.metric("vllm:num_preemptions_total"), 0)
            tight.wait_until_idle()

    def test_who_does_not_fit_waits_without_preemption(self):
        with Server("--max-running", "1", memory="350KiB") as server:  # 4 blocks: one request at a time
            answers = together(server, [{"prompt": [i + 1] * 400, "max_tokens": 100, "ignore_eos": True} for i in range(6)])
            self.assertEqual([status for status, _ in answers], [200] * 6)
            self.assertEqual(server.metric("vllm:num_preemptions_total"), 0)
            self.assertGreater(server.wait_until_idle()["counters"]["evictions"], 0)

    def test_a_full_queue_is_429(self):
        with Server("--max-queue", "2", "--max-running", "1") as server:
            long = {"prompt": "a", "max_tokens": 500, "ignore_eos": True}
            statuses = [status for status, _ in together(server, [long] * 12)]
            self.assertIn(200, statuses)
            self.assertIn(429, statuses)
            self.assertLessEqual(set(statuses), {200, 429})
            server.wait_until_idle()


def poison_embedding(folder, token):
    """A copy of a tiny Llama, in which the embedding of one token is not a number."""
    source = serving.ROOT / "tests/data/models/llama/hf"
    shutil.copytree(source, folder)
    for file in folder.glob("*.safetensors"):
        data = bytearray(file.read_bytes())
        size = struct.unpack("<Q", data[:8])[0]
        for name, entry in json.loads(data[8:8 + size]).items():
            if name != "model.embed_tokens.weight":
                continue
            begin, end = entry["data_offsets"]
            row = (end - begin) // entry["shape"][0]
            at = 8 + size + begin + token * row
            data[at:at + row] = b"\xff" * row  # a NaN in f32, f16 and bf16
            file.write_bytes(data)
            return
    raise AssertionError("no embedding found")


class BrokenNumbers(unittest.TestCase):
    def test_a_row_of_nans_fails_its_request_only(self):
        with tempfile.TemporaryDirectory() as temporary:
            folder = pathlib.Path(temporary) / "model"
            poison_embedding(folder, 100)
            with Server(model=folder) as server:
                good = {"prompt": [5, 6, 7], "max_tokens": 40, "seed": 1, "ignore_eos": True, "return_token_ids": True,
                        "logit_bias": {"100": -100}}
                expected = server.tokens(**good)
                answers = together(server, [good, {"prompt": [5, 100], "max_tokens": 5}, good,
                                            {"prompt": [100], "max_tokens": 5, "stream": True}, good])
                self.assertEqual([status for status, _ in answers], [200, 500, 200, 500, 200])
                for i in (0, 2, 4):
                    self.assertEqual(json.loads(answers[i][1])["choices"][0]["token_ids"], expected)
                for i in (1, 3):
                    self.assertEqual(json.loads(answers[i][1])["error"]["type"], "server_error")
                # In mid-stream: sooner or later the broken token is drawn.
                _, text = server.ask("POST", "/v1/completions", {"prompt": [5, 6], "max_tokens": 450, "stream": True,
                                                                 "ignore_eos": True, "seed": 3, "temperature": 2})
                self.assertGreater(len(events(text)), 3)
                self.assertEqual(events(text)[-1]["error"]["type"], "server_error")
                self.assertEqual(server.tokens(**good), expected)
                server.wait_until_idle()


class Shutdown(unittest.TestCase):
    def test_sigterm_under_load(self):
        server = Server()
        answers, begun = [None] * 16, threading.Barrier(17)

        def stream(i):
            s = server.raw(post_bytes("/v1/completions", {"prompt": f"{i}", "max_tokens": 400, "ignore_eos": True,
                                                          "stream": True}, headers="Connection: close\r\n"))
            first = s.recv(64)
            begun.wait()
            answers[i] = first + read_to_end(s)
            s.close()

        threads = [threading.Thread(target=stream, args=(i,)) for i in range(16)]
        for thread in threads:
            thread.start()
        begun.wait()
        server.process.send_signal(signal.SIGTERM)
        refused = set()
        while None in answers:  # while they go on, new ones are refused
            try:
                refused.add(server.ask("POST", "/v1/completions", {"prompt": "a", "max_tokens": 1})[0])
                refused.add(server.ask("GET", "/health")[0])
            except OSError:
                break
        for thread in threads:
            thread.join()
        for answer in answers:
            self.assertIn(b"data: [DONE]", answer)
            self.assertNotIn(b'"error"', answer)
        self.assertIn(503, refused)
        self.assertLessEqual(refused, {200, 503})  # 200: before the signal arrived
        self.assertEqual(server.stop(signals=False), 0)

    def test_sigterm_under_load_of_whole_answers(self):
        """Requests that wait for their whole answer: those in the queue and those whose prompt is read are answered,
        too, with the tokens that they would have had otherwise."""
        bodies = [{"prompt": [i + 1] * (40 * (i % 4) + 3), "max_tokens": 200 + 60 * (i % 3), "ignore_eos": True, "seed": i,
                   "return_token_ids": True} for i in range(48)]

        def tokens(text):
            return json.loads(text)["choices"][0]["token_ids"]

        with Server() as calm:
            expected = [tokens(text) for _, text in together(calm, bodies)]
        server = Server("--max-running", "2", "--drain-timeout", "120s")
        with concurrent.futures.ThreadPoolExecutor(len(bodies)) as pool:
            answers = [pool.submit(server.ask, "POST", "/v1/completions", body) for body in bodies]
            while server.metric("vllm:num_requests_waiting") < 8:
                self.assertFalse(all(answer.done() for answer in answers), "the load is too small")
            server.process.send_signal(signal.SIGTERM)
            refused = set()
            while not all(answer.done() for answer in answers):
                try:
                    status, text = server.ask("POST", "/v1/completions", {"prompt": "a", "max_tokens": 1})
                except OSError:
                    break
                refused.add(status)
                if status == 503:
                    self.assertEqual(json.loads(text)["error"]["code"], "shutting_down")
            # Who had not come yet when the signal did is refused as well.
            results = [answer.result() for answer in answers]
            self.assertGreaterEqual(sum(status == 200 for status, _ in results), 10)
            for (status, text), tokens_alone in zip(results, expected):
                if status == 200:
                    self.assertEqual(tokens(text), tokens_alone)
                else:
                    self.assertEqual((status, json.loads(text)["error"]["code"]), (503, "shutting_down"))
        self.assertIn(503, refused)
        self.assertLessEqual(refused, {200, 503})
        self.assertEqual(server.stop(signals=False), 0)

    def test_a_second_signal_ends_at_once(self):
        server = Server("--drain-timeout", "60s")
        s = server.raw(post_bytes("/v1/completions", {"prompt": "a", "max_tokens": 500, "ignore_eos": True, "n": 90,
                                                      "stream": True}))
        s.recv(64)
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        if server.process.poll() is None:
            server.process.send_signal(signal.SIGTERM)
        self.assertIn(server.stop(signals=False), (0, 130))
        s.close()


KEYS = {"keys": [{"name": name, "tenant": tenant, "sha256": hashlib.sha256(name.encode()).hexdigest(), "rights": rights,
                  "limits": limits}
                 for name, tenant, rights, limits in (
                     ("alice", "a", [], {}), ("aaron", "a", [], {}), ("root", "ops", ["admin"], {}),
                     ("bob", "b", [], {"max_prompt_tokens": 100, "max_tokens": 20, "max_choices": 2}))]}


def bearer(name):
    return {"Authorization": f"Bearer {name}"}


class Tenants(unittest.TestCase):
    def test_do_not_show_in_each_others_answers(self):
        secret = "the secret of alice is 4711 " * 6
        with tempfile.TemporaryDirectory() as folder:
            keys = pathlib.Path(folder) / "keys.json"
            keys.write_text(json.dumps(KEYS))
            with Server("--api-keys", keys, "--served-model-name", "tiny") as server:
                def cached(who, **more):
                    status, text = server.ask("POST", "/v1/completions", {"prompt": secret[:90], "max_tokens": 1} | more,
                                              bearer(who))
                    self.assertEqual(status, 200, text)
                    return json.loads(text)["usage"]["prompt_tokens_details"]["cached_tokens"]

                self.assertEqual(cached("alice"), 0)
                self.assertGreater(cached("alice"), 50)
                self.assertGreater(cached("aaron"), 50)            # of the same tenant
                self.assertEqual(cached("bob"), 0)                 # of another
                self.assertEqual(cached("aaron", cache_salt="x"), 0)
                self.assertGreater(cached("aaron", cache_salt="x"), 50)
                self.assertEqual(cached("bob", cache_salt="x"), 0)  # a salt that alice's tenant uses, too
                # What others may read holds nothing of it, whatever she writes where.
                server.ask("POST", "/v1/chat/completions",
                           {"messages": [{"role": "user", "content": secret}], "user": secret, "max_tokens": 1,
                            "metadata": {"task": "4711"}, "model": "4711"}, bearer("alice") | {"X-Task": "4711"})
                seen = server.ask("GET", "/metrics", headers=bearer("root"))[1]
                seen += server.ask("GET", "/debug/cache", headers=bearer("root"))[1]
                seen += "".join(server.complaints)
                for path, body in (("/v1/completions", {"prompt": 3}), ("/v1/chat/completions", {"messages": "x"}),
                                   ("/v1/completions", {"prompt": "x " * 400}), ("/v1/completions", {"prompt": "a", "n": 9})):
                    status, text = server.ask("POST", path, body, bearer("bob"))
                    self.assertEqual(status, 400)
                    seen += text
                for word in ("4711", "secret", "alice", "aaron"):
                    self.assertNotIn(word, seen)
                for path in ("/metrics", "/debug/cache"):
                    self.assertEqual(server.ask("GET", path, headers=bearer("alice"))[0], 403)
                    self.assertEqual(server.ask("GET", path)[0], 401)
                server.wait_until_idle(bearer("root"))

    def test_limits_of_a_key(self):
        with tempfile.TemporaryDirectory() as folder:
            keys = pathlib.Path(folder) / "keys.json"
            keys.write_text(json.dumps(KEYS))
            with Server("--api-keys", keys, "--max-choices", "4") as server:
                for who, more, expected in (("bob", {"max_tokens": 21}, 400), ("bob", {"n": 3}, 400),
                                            ("bob", {"prompt": [1] * 101}, 400), ("bob", {"max_tokens": 20}, 200),
                                            ("alice", {"max_tokens": 21, "n": 3}, 200), ("alice", {"n": 5}, 400),
                                            ("eve", {}, 401)):
                    status, text = server.ask("POST", "/v1/completions", {"prompt": "a", "max_tokens": 2} | more, bearer(who))
                    self.assertEqual(status, expected, (who, more, text))

    def test_connections_are_limited(self):
        with Server("--max-connections", "4", "--client-timeout", "1s") as server:
            held = [server.raw() for _ in range(4)]
            time.sleep(0.3)
            extra = server.raw(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            self.assertEqual(status_of(read_to_end(extra)), 503)
            for s in [*held, extra]:
                s.close()
            time.sleep(0.5)
            # One after the other is not at once, however fast.
            self.assertEqual([server.ask("GET", "/health")[0] for _ in range(40)], [200] * 40)


class Tls(unittest.TestCase):
    def test_https(self):
        with tempfile.TemporaryDirectory() as folder:
            cert, key = pathlib.Path(folder) / "cert.pem", pathlib.Path(folder) / "key.pem"
            subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days",
                            "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"],
                           check=True, capture_output=True)
            with Server("--tls-cert", cert, "--tls-key", key) as server:
                self.assertTrue(server.secure)
                context = ssl.create_default_context(cafile=cert)
                with socket.create_connection(("127.0.0.1", server.port)) as plain, \
                        context.wrap_socket(plain, server_hostname="localhost") as s:
                    self.assertIn(s.version(), ("TLSv1.2", "TLSv1.3"))
                    s.sendall(post_bytes("/v1/completions", {"prompt": "a", "max_tokens": 20, "stream": True},
                                         headers="Connection: close\r\n"))
                    self.assertIn(b"[DONE]", read_to_end(s))
                bare = server.raw(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")  # not TLS at all
                self.assertFalse(read_to_end(bare).startswith(b"HTTP"))
                bare.close()
                self.assertEqual(server.ask("GET", "/health")[0], 200)
                done = subprocess.run([COMMAND, "cache-stats", "--port", str(server.port), "--tls-cert", cert],
                                      capture_output=True, text=True, check=False, timeout=60)
                self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    COMMAND = sys.argv.pop(1)
    unittest.main()
