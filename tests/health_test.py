#!/usr/bin/env python3
"""`dspark serve --enable-health-check` while something breaks: it goes on answering, says what is wrong, and recovers.

    tests/health_test.py build/dspark [unittest arguments]
"""

import ctypes
import http.client
import json
import os
import pathlib
import shutil
import socket
import struct
import sys
import tempfile
import threading
import time
import unittest

import serving

COMMAND = ""
DRAFTER = serving.ROOT / "tests/data/drafters/markov"
ITS_TARGET = serving.ROOT / "tests/data/models/llama/hf"


def Server(*arguments, **more):
    return serving.Server(COMMAND, "--enable-health-check", *arguments, **more)


def health(server, path="/health"):
    status, text = server.ask("GET", path)
    return status, json.loads(text)


def modes(server):
    return [each["mode"] for each in health(server)[1]["degraded"]]


def until(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.02)


def labelled(server, name, mode):
    lines = server.ask("GET", "/metrics")[1].splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name + "{") and f'"{mode}"' in line)


class StoppedThreads:
    """Threads of another process that stand still, as if a core had been taken from them for good."""

    def __init__(self, pid, name):
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
        tasks = pathlib.Path(f"/proc/{pid}/task")
        self.threads = [int(task.name) for task in tasks.iterdir() if (task / "comm").read_text() == name + "\n"]
        assert self.threads

    def ptrace(self, request, thread):
        if self.libc.ptrace(request, thread, None, None) != 0:
            raise OSError(ctypes.get_errno(), "ptrace")

    def __enter__(self):
        for thread in self.threads:
            self.ptrace(0x4206, thread)  # PTRACE_SEIZE
            self.ptrace(0x4207, thread)  # PTRACE_INTERRUPT
            os.waitpid(thread, 0x40000000)  # __WALL
        return self

    def __exit__(self, *_error):
        for thread in self.threads:
            self.ptrace(17, thread)  # PTRACE_DETACH


class Health(unittest.TestCase):
    def test_without_troubles(self):
        with Server("--self-test-every", "50ms") as server:
            for path in ("/health", "/health/live", "/health/ready"):
                status, report = health(server, path)
                self.assertEqual((status, report["status"], report["ready"], report["degraded"]), (200, "ok", True, []))
            until(lambda: health(server)[1]["self_tests"] >= 3)
            self.assertEqual(health(server)[1]["self_tests_failed"], 0)
            self.assertEqual(server.metric("dspark_degraded"), 0)
            self.assertEqual(server.metric("dspark_live"), 1)
            server.wait_until_idle()

    def test_a_broken_drafter(self):
        with tempfile.TemporaryDirectory() as folder, Server("--draft-with", "none", model=ITS_TARGET) as plain:
            broken = pathlib.Path(folder) / "drafter"
            shutil.copytree(DRAFTER, broken)
            file = broken / "model.safetensors"
            data = bytearray(file.read_bytes())
            size = struct.unpack("<Q", data[:8])[0]
            begin = json.loads(data[8:8 + size])["confidence_head.proj.bias"]["data_offsets"][0] + 8 + size
            data[begin:begin + 2] = b"\xc0\x7f"  # NaN as bfloat16
            file.write_bytes(data)
            expected = [plain.tokens(max_tokens=40, seed=seed, ignore_eos=True) for seed in range(4)]
            with Server("--drafter", broken, "--dspark-mode", "fixed:3", model=ITS_TARGET) as server:
                for seed in range(4):
                    self.assertEqual(server.tokens(max_tokens=40, seed=seed, ignore_eos=True), expected[seed])
                until(lambda: "broken_drafter" in modes(server))
                status, report = health(server)
                self.assertEqual((status, report["status"], report["ready"]), (200, "degraded", True))
                self.assertEqual(labelled(server, "dspark_degraded", "broken_drafter"), 1)
                self.assertGreaterEqual(labelled(server, "dspark_self_healing_events_total", "broken_drafter"), 1)
                # Nobody asks any more: it is not broken for ever.
                until(lambda: health(server)[1]["status"] == "ok")
                self.assertEqual(labelled(server, "dspark_degraded", "broken_drafter"), 0)
                log = "".join(server.complaints)
                self.assertIn("degraded, broken_drafter", log)
                self.assertIn("recovered from broken_drafter", log)

    def test_a_poisoned_cost_table(self):
        def ask(server):
            return [server.tokens(prompt="abc abc abc abc", max_tokens=200, seed=seed, ignore_eos=True) for seed in range(3)]

        with tempfile.TemporaryDirectory() as home:
            with Server(home=home) as server:
                expected = ask(server)
            (profile,) = pathlib.Path(home).glob(".cache/dspark/costs/*.json")
            costs = json.loads(profile.read_text())
            costs["step_ms"] = {rows: 1e5 if int(rows) < 4 else 1e-6 for rows in costs["step_ms"]}
            profile.write_text(json.dumps(costs))
            with Server("--self-test-every", "0s", home=home) as server:
                self.assertEqual(ask(server), expected)
                until(lambda: "cost_model_off" in modes(server))
                self.assertEqual(health(server)[1]["ready"], True)
                self.assertGreaterEqual(labelled(server, "dspark_self_healing_events_total", "cost_model_off"), 1)
                until(lambda: modes(server) == [])
                self.assertEqual(ask(server), expected)
                before = [server.metric(f"dspark_step_{kind}_seconds_total") for kind in ("expected", "actual")]
                ask(server)
                server.wait_until_idle()
                after = [server.metric(f"dspark_step_{kind}_seconds_total") for kind in ("expected", "actual")]
                ratio = (after[0] - before[0]) / (after[1] - before[1])
                self.assertTrue(0.01 < ratio < 100, ratio)  # it was poisoned by factors beyond 100,000

    def test_a_stuck_worker(self):
        with Server("--step-timeout", "500ms") as server:
            expected = [self.long_request(server, i, "first") for i in range(4)]
            for name in ("dspark-step", "dspark-work"):
                stop, wrong = threading.Event(), []

                def ask(i):
                    asked = 0
                    while not stop.is_set():
                        asked += 1
                        tokens = self.long_request(server, i, f"{name} {asked}")
                        if tokens not in (None, expected[i]):
                            wrong.append(tokens)

                clients = [threading.Thread(target=ask, args=(i,)) for i in range(4)]
                for client in clients:
                    client.start()
                self.assertTrue(any(self.stop_threads(server, name) for _ in range(100)), "no step was ever stuck")
                stop.set()
                for client in clients:
                    client.join()
                self.assertEqual(wrong, [])
                until(lambda: health(server)[0] == 200)
                self.assertEqual([self.long_request(server, i, "last") for i in range(4)], expected)
            self.assertIn("recovered from stuck_step", "".join(server.complaints))
            until(lambda: "stuck_step" not in modes(server))
            server.wait_until_idle()

    @staticmethod
    def long_request(server, i, salt):
        """Much to compute and little to deliver; None if it is refused for now."""
        body = {"prompt": [(7 * k + 31 * i) % 250 for k in range(480)], "max_tokens": 4, "seed": i, "cache_salt": salt,
                "return_token_ids": True}
        status, text = server.ask("POST", "/v1/completions", body)
        assert status in (200, 503), text
        return json.loads(text)["choices"][0]["token_ids"] if status == 200 else None

    def stop_threads(self, server, name):
        """Whether a step was stuck by that: a worker between its tasks holds nobody up, and a thread that stands still
        in the few instructions in which it holds a lock is not what we are after."""
        with StoppedThreads(server.process.pid, name):
            if self.locked(server):
                return False
            steps = server.metric("dspark_steps_total")
            # Other troubles may come and go: on a loaded machine steps take longer than was foreseen.
            until(lambda: "stuck_step" in modes(server) or server.metric("dspark_steps_total") > steps + 20)
            if "stuck_step" not in modes(server):
                return False
            self.check_stuck(server)
            return True

    def locked(self, server):
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=2)
        try:
            connection.request("GET", "/metrics")
            return connection.getresponse().status != 200
        except TimeoutError:
            return True
        finally:
            connection.close()

    def check_stuck(self, server):
        status, report = health(server)
        self.assertEqual((status, report["status"], report["ready"]), (503, "stuck", False))
        self.assertEqual(health(server, "/health/ready")[0], 503)
        status, text = server.ask("POST", "/v1/completions", {"prompt": "x"})
        self.assertEqual((status, json.loads(text)["error"]["code"]), (503, "stuck"))
        self.assertEqual(labelled(server, "dspark_degraded", "stuck_step"), 1)
        self.assertEqual(server.ask("GET", "/v1/models")[0], 200)
        until(lambda: health(server, "/health/live")[0] == 503)  # six times the timeout
        self.assertEqual(server.metric("dspark_live"), 0)

    def test_the_supervisor_hears(self):
        with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
            notify.bind(folder + "/notify")
            notify.settimeout(60)
            os.environ["NOTIFY_SOCKET"] = folder + "/notify"
            try:
                server = Server()
            finally:
                del os.environ["NOTIFY_SOCKET"]
            heard = {notify.recv(100), notify.recv(100)}
            self.assertEqual(heard, {b"READY=1", b"WATCHDOG=1"})
            self.assertEqual(notify.recv(100), b"WATCHDOG=1")
            server.__exit__()
            while (last := notify.recv(100)) == b"WATCHDOG=1":
                pass
            self.assertEqual(last, b"STOPPING=1")


if __name__ == "__main__":
    COMMAND = sys.argv.pop(1)
    unittest.main()
