#!/usr/bin/env python3
"""The configuration of a running `dspark serve`: changed, checked, taken back, under load, without a token changed.

    tests/live_config_test.py build/dspark [unittest arguments]
"""

import hashlib
import json
import pathlib
import subprocess
import sys
import tempfile
import threading
import unittest

import serving

COMMAND = ""
CLIENTS = 32
PATH = "/api/v1/config"


def Server(*arguments, **more):
    return serving.Server(COMMAND, *arguments, **more)


class LiveConfig(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__()

    def get(self, path=PATH):
        status, text = self.server.ask("GET", path)
        self.assertEqual(status, 200, text)
        return json.loads(text)

    def change(self, body, path=PATH, status=200):
        found, text = self.server.ask("POST", path, body)
        self.assertEqual(found, status, text)
        return json.loads(text) if status == 200 else json.loads(text)["error"]

    def value(self, key):
        return self.get()["settings"][key]["value"]

    def test_every_value_says_where_it_came_from(self):
        settings = self.get()["settings"]
        self.assertEqual((settings["threads"]["value"], settings["threads"]["origin"]), (2, "--threads"))
        self.assertEqual(settings["step_budget"]["source"], "default")
        self.change({"step_budget": 64})
        entry = self.get()["settings"]["step_budget"]
        self.assertEqual((entry["value"], entry["source"]), (64, "live"))
        self.assertIn(f"version {self.get()['version']}", entry["origin"])
        self.change({"step_budget": None})  # what the server was started with
        self.assertEqual(self.get()["settings"]["step_budget"]["source"], "default")

    def test_a_change_has_a_version_and_can_be_taken_back(self):
        before = self.get()["version"]
        done = self.change({"window_size": 2560}, PATH + "/dflash")
        self.assertEqual(done, {"version": before + 1, "dry_run": False,
                                "changed": {"dflash_window_size": {"from": 2048, "to": 2560}}})
        self.assertEqual(self.get(PATH + "/dflash")["settings"]["window_size"]["value"], 2560)
        self.assertEqual(self.change({"dflash_window_size": 2560})["changed"], {})
        self.assertEqual(self.get()["version"], before + 1)
        back = self.change({"rollback": before})
        self.assertEqual((back["version"], self.value("dflash_window_size")), (before + 2, 2048))
        history = self.get()["history"]
        self.assertEqual([version["version"] for version in history], list(range(1, before + 3)))
        self.assertEqual(history[-1]["changed"], {"dflash_window_size": {"from": 2560, "to": 2048}})
        self.assertEqual(history[-1]["by"], "127.0.0.1")
        self.assertTrue(any(f"configuration version {before + 2}" in line for line in self.server.complaints))

    def test_a_trial_changes_nothing(self):
        before = self.get()
        done = self.change({"step_budget": 7, "dry_run": True})
        self.assertEqual(done["changed"], {"step_budget": {"from": 0, "to": 7}})
        self.assertEqual(self.get(), before)

    def test_nothing_holds_of_what_is_wrong_in_part(self):
        before = self.get()
        cases = [({"step_budget": 9, "pool": "short:2"}, 400, "pool share .2."),
                 ({"step_budget": 9, "dspark_mode": "fixed:99"}, 400, "expected planned"),
                 ({"step_budget": 9, "dflash_window_size": 3}, 400, "a whole number from 128 to 8192"),
                 ({"step_budget": 9, "dspark_dsw_min_window": 4096, "dspark_dsw_max_window": 1024}, 400, "below"),
                 ({"step_budget": [9]}, 400, "step_budget"),
                 ({"step_budgte": 9}, 400, "step.budget"),
                 ({"step_budget": 9, "kv_memory": "1GiB"}, 409, "restart the server with --kv-memory"),
                 ({"step_budget": 9, "if_version": 99999}, 409, "version"),
                 ({"rollback": 99999}, 400, "rollback"),
                 ({"dry_run": 1}, 400, "dry_run"),
                 ([1], 400, "object"),
                 (b"{", 400, "body"),
                 (b"\xff" * 100000, 413, "[a-z]")]
        for body, status, words in cases:
            self.assertRegex(self.change(body, status=status)["message"], words)
        self.assertEqual(self.get(), before)

    def test_a_change_under_load_loses_no_request_and_changes_no_token(self):
        prompt = ["the cat sat on the mat, " * (1 + i % 5) + str(i) for i in range(CLIENTS)]

        def ask(i):
            return self.server.tokens(prompt=prompt[i], max_tokens=48, temperature=i % 2 * 0.7, seed=i, ignore_eos=True)

        alone = [ask(i) for i in range(CLIENTS)]
        changes = [{"enable_dspark": "off"}, {"enable_dspark": "auto", "dspark_mode": "fixed:5"},
                   {"dspark_scheduler_policy": "hit-rate", "step_budget": 8}, {"dspark_mode": "planned"},
                   {"dflash_window_size": 128, "dflash_max_reuse_depth": 2}, {"dflash_validation_threshold": 0.9},
                   {"pool": "short:0.5,long:0.5", "dspark_scheduler_policy": "latency-aware"}, {"rollback": 1}]
        answers, stop = [[] for _ in range(CLIENTS)], threading.Event()

        def client(i):
            while not stop.is_set():
                answers[i].append(ask(i))

        threads = [threading.Thread(target=client, args=(i,)) for i in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for _ in range(3):
            for change in changes:
                running = self.server.metric("dspark_steps_total")
                self.change(change)
                while self.server.metric("dspark_steps_total") < running + 3:
                    pass
        stop.set()
        for thread in threads:
            thread.join()
        for i in range(CLIENTS):
            self.assertTrue(answers[i])
            for tokens in answers[i]:
                self.assertEqual(tokens, alone[i])
        self.server.wait_until_idle()

    def test_what_is_off_drafts_nothing(self):
        def drafted():
            self.server.tokens(prompt="abc abc abc abc abc abc", max_tokens=60, temperature=0, ignore_eos=True)
            self.server.wait_until_idle()
            return self.server.metric("dspark_drafted_tokens_total")

        self.change({"dspark_mode": "fixed:4"})
        first = drafted()
        self.assertGreater(first, 0)
        self.change({"enable_dspark": "off"})
        self.assertEqual(drafted(), first)
        self.change({"enable_dspark": None})
        self.assertGreater(drafted(), first)
        self.change({"rollback": 1})

    def test_the_command(self):
        def config(*words):
            with tempfile.TemporaryDirectory() as home:
                return subprocess.run([COMMAND, "config", *words, "--port", str(self.server.port)], text=True, timeout=60,
                                      capture_output=True, check=False, env=serving.environment(home))

        self.assertRegex(config("get").stdout, r"(?m)^threads +2 +no +--threads$")
        done = config("set", "step-budget=48", "dspark_mode=fixed:3")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("step_budget: 0 -> 48", done.stdout)
        self.assertRegex(config("get", "dspark-mode").stdout, r"dspark_mode +fixed:3 +yes +live, version \d+\n")
        self.assertEqual(json.loads(config("get", "step_budget", "--json").stdout)["value"], 48)
        self.assertIn("nothing was changed", config("rollback", "1", "--dry-run").stdout)
        self.assertEqual(self.value("step_budget"), 48)
        self.assertEqual(config("rollback", "1").returncode, 0)
        self.assertEqual(self.value("step_budget"), 0)
        wrong = config("set", "kv_memory=1GiB")
        self.assertEqual(wrong.returncode, 2)
        self.assertIn("restart the server", wrong.stderr)
        for words in (["set"], ["set", "x"], ["rollback", "x"], ["get", "nope"]):
            self.assertEqual(config(*words).returncode, 2, words)


class WhoMay(unittest.TestCase):
    def test_admins_only(self):
        keys = {"keys": [{"name": name, "sha256": hashlib.sha256(name.encode()).hexdigest(), "tenant": "t",
                          "rights": rights} for name, rights in (("user", ["metrics"]), ("root", ["admin"]))]}
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "keys.json"
            file.write_text(json.dumps(keys))
            with Server("--api-keys", file) as server:
                for key, status in (("", 401), ("user", 403), ("root", 200)):
                    headers = {"Authorization": f"Bearer {key}"}
                    self.assertEqual(server.ask("GET", PATH, headers=headers)[0], status)
                    self.assertEqual(server.ask("POST", PATH, {"step_budget": 5}, headers)[0], status)
                history = json.loads(server.ask("GET", PATH, headers=headers)[1])["history"]
                self.assertEqual(history[-1]["by"], "root (127.0.0.1)")

    def test_pages_of_other_origins_may_not(self):
        with Server() as server:
            here = f"127.0.0.1:{server.port}"
            for host, origin, status in ((here, f"http://{here}", 200), (here, "http://evil.example", 403),
                                         ("evil.example", "http://evil.example", 403),
                                         ("localhost.evil.example:1", "http://localhost.evil.example:1", 403)):
                found, text = server.ask("POST", PATH, {"dry_run": True}, {"Host": host, "Origin": origin})
                self.assertEqual(found, status, text)

    def test_a_server_without_speculation_says_what_it_lacks(self):
        with Server("--enable-dspark", "off") as server:
            status, text = server.ask("POST", PATH, {"enable_dspark": "on"})
            self.assertEqual((status, json.loads(text)["error"]["code"]), (409, "needs_restart"))
            self.assertIn("restart it with --enable-dspark auto", text)


if __name__ == "__main__":
    COMMAND = sys.argv.pop(1)
    unittest.main()
