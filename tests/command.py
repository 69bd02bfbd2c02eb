"""The dspark command as a child process, for tests; the program's path is their first argument."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

from serving import ROOT, environment

MODELS = ROOT / "tests/data/models"
path = ""  # of the program


def dspark(*arguments, stdin=b"", variables=None):
    """Runs the command away from the user's own configuration; returns the finished process, output as bytes."""
    with tempfile.TemporaryDirectory() as home:
        return subprocess.run([path, *map(str, arguments)], input=stdin, env=environment(home) | (variables or {}),
                              capture_output=True, timeout=120, check=False)


def main():
    global path
    path = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main()
