#!/usr/bin/env python3
"""Runs every command of docs/operator.md, in order, on a tiny model.

    tests/walk_through_test.py build/dspark [unittest arguments]
"""

import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import unittest

import serving

COMMAND = ""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class WalkThrough(unittest.TestCase):
    def test_the_page_works_as_it_stands(self):
        page = (serving.ROOT / "docs/operator.md").read_text()
        blocks = re.findall(r"```sh\n(.*?)```", page, flags=re.DOTALL)
        self.assertGreater(len(blocks), 8)
        port = free_port()
        script = "\n".join(blocks).replace(":8000", f":{port}")
        with tempfile.TemporaryDirectory() as home:
            settings = {"DSPARK_MODEL": serving.TINY, "DSPARK_PORT": port, "DSPARK_KV_MEMORY": "64MiB", "DSPARK_THREADS": 2,
                        "PATH": f"{pathlib.Path(COMMAND).parent}:{os.environ['PATH']}"}
            done = subprocess.run(["bash", "-e", "-u", "-m", "-o", "pipefail", "-c", script], cwd=home, text=True,
                                  capture_output=True, check=False, timeout=600, start_new_session=True,
                                  env=serving.environment(home) | {k: str(v) for k, v in settings.items()})
            said = done.stdout + done.stderr
            self.assertEqual(done.returncode, 0, said)
            for words in ("DSpark here:", '"status":"ok"', "1 different answer to 32 equal requests", "nothing was changed",
                          "verdict", "opted_out", "SETTING", "# Sweep"):
                self.assertIn(words, said)
            self.assertTrue((pathlib.Path(home) / "tuned/tune.json").exists())


if __name__ == "__main__":
    COMMAND = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main()
