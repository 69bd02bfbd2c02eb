#!/usr/bin/env python3
"""The dspark command as its user sees it: exit codes, messages, help and JSON, on the tiny models of tests/data.

    tests/cli_test.py build/dspark [unittest arguments]
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODELS = ROOT / "tests/data/models"
COMMAND = ""


def dspark(*arguments, stdin=b"", variables=None):
    """Runs the command away from the user's own configuration; returns the finished process, output as bytes."""
    with tempfile.TemporaryDirectory() as home:
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("DSPARK_", "XDG_"))}
        environment |= {"HOME": home} | (variables or {})
        return subprocess.run([COMMAND, *map(str, arguments)], input=stdin, env=environment, capture_output=True,
                              timeout=120, check=False)


def command_names():
    listing = dspark("--help").stdout.decode().split("Commands:\n")[1].split("\n\n")[0]
    return [line.split()[0] for line in listing.split("\n")]


class Frame(unittest.TestCase):
    def test_every_command_has_help_with_an_example(self):
        self.assertIn("config", command_names())
        for name in command_names():
            done = dspark(name, "--help")
            self.assertEqual(done.returncode, 0)
            text = done.stdout.decode()
            self.assertTrue(text.startswith(f"dspark {name}: "), text)
            self.assertRegex(text, rf"\nExample:\n  .*dspark {name}")
            self.assertEqual(dspark("help", name).stdout, done.stdout)
            self.assertLessEqual(max(map(len, text.split("\n"))), 100)

    def test_every_command_is_on_the_page(self):
        page = (ROOT / "docs/cli.md").read_text()
        for name in command_names():
            self.assertIn(f"\n## `dspark {name}`\n", page)

    def test_exit_codes_are_those_of_the_page(self):
        header = (ROOT / "src/tools/command.h").read_text()
        codes = re.findall(r"^  k\w+ = (\d+),", header, re.M)
        page = re.findall(r"^\| (\d+) \|", (ROOT / "docs/cli.md").read_text(), re.M)
        self.assertEqual(codes, page)

    def assert_fails(self, done, code, message):
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(done.stdout, b"")
        self.assertRegex(done.stderr.decode(), f"^dspark: .*{message}.*\n$")

    def test_errors_are_one_line_and_name_the_next_step(self):
        self.assert_fails(dspark(), 2, "`dspark --help` lists them")
        self.assert_fails(dspark("inspct"), 2, "did you mean `dspark inspect`")
        self.assert_fails(dspark("inspect", "--jsno"), 2, "did you mean --json")
        self.assert_fails(dspark("inspect", "a", "b"), 2, "usage: dspark inspect")
        self.assert_fails(dspark("inspect", "--model"), 2, "--model needs a value")
        self.assert_fails(dspark("config", "--verbose=maybe"), 2, "--verbose: 'maybe' is not true or false")
        self.assert_fails(dspark("inspect", "/nonexistent.gguf"), 3, "/nonexistent.gguf")
        self.assert_fails(dspark("inspect", ROOT / "README.md"), 3, "GGUF")
        self.assert_fails(dspark("models", "x"), 2, "usage: dspark models \\[options\\];")

    def test_full_disk_is_an_error(self):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([COMMAND, "config"], stdout=full, stderr=subprocess.PIPE, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"cannot be written", done.stderr)


class Config(unittest.TestCase):
    def settings(self, *arguments, **keywords):
        done = dspark("config", "--json", *arguments, **keywords)
        self.assertEqual(done.returncode, 0, done.stderr)
        return {entry["name"]: entry for entry in json.loads(done.stdout)["settings"]}

    def test_sources_in_order(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "dspark" / "config.toml"
            file.parent.mkdir()
            file.write_text("\nmodel_path = 'from-file'\n")
            home = {"XDG_CONFIG_HOME": folder}
            self.assertEqual(self.settings()["model"]["source"], "default")
            from_file = self.settings(variables=home)["model"]
            self.assertEqual((from_file["value"], from_file["origin"]), ("from-file", f"{file}:2"))
            both = home | {"DSPARK_MODEL": "from-variable"}
            self.assertEqual(self.settings(variables=both)["model"]["value"], "from-variable")
            for flag in (["-m", "x"], ["--model-path=x"], ["--model_path", "x"], ["-mx"], ["-m", "y", "-m", "x"]):
                entry = self.settings(*flag, variables=both)["model"]
                self.assertEqual((entry["value"], entry["source"]), ("x", "flag"))

    def test_values_reach_us_as_they_are(self):
        for value in ("", "-x", "--", "[a,b]", "a b", '"q"', "{x}", "ü\n", "%s", "@file"):
            self.assertEqual(self.settings("--model", value)["model"]["value"], value)

    def test_unknown_variable_is_a_warning(self):
        done = dspark("config", variables={"DSPARK_MODLE": "x"})
        self.assertEqual(done.returncode, 0)
        self.assertEqual(done.stderr.decode(),
                         "dspark: warning: the variable DSPARK_MODLE sets nothing; did you mean DSPARK_MODEL?\n")

    def test_one_setting_is_described(self):
        text = dspark("config", "model_path").stdout.decode()
        self.assertIn("variable  DSPARK_MODEL\n", text)
        self.assertEqual(dspark("config", "modle").returncode, 2)


class Inspect(unittest.TestCase):
    def test_json_of_a_split_file(self):
        done = dspark("inspect", "--json", "-m", MODELS / "llama3/llama3-00001-of-00002.gguf")
        self.assertEqual(done.returncode, 0, done.stderr)
        model = json.loads(done.stdout)
        self.assertEqual(model["metadata"]["general.architecture"], "llama")
        sizes = [f.stat().st_size for f in (MODELS / "llama3").glob("*.gguf")]
        self.assertEqual(model["bytes"], sum(sizes))
        shapes = {tensor["name"]: tensor["shape"] for tensor in model["tensors"]}
        self.assertEqual(shapes["output_norm.weight"], [model["metadata"]["llama.embedding_length"]])

    def test_folder_shows_its_configuration(self):
        folder = MODELS / "llama/hf"
        model = json.loads(dspark("inspect", "--json", folder).stdout)
        self.assertEqual(model["metadata"], json.loads((folder / "config.json").read_text()))
        self.assertEqual(len(model["tensors"]), 21)

    def test_text_lists_every_tensor(self):
        path = MODELS / "quant/quant-q4_k.gguf"
        names = [tensor["name"] for tensor in json.loads(dspark("inspect", "--json", path).stdout)["tensors"]]
        text = dspark("inspect", path).stdout.decode()
        self.assertGreater(len(names), 10)
        for name in names:
            self.assertIn(f"  {name} ", text)


class Models(unittest.TestCase):
    def test_listing(self):
        listing = json.loads(dspark("models", "--json").stdout)["models"]
        self.assertIn("smollm2-135m", [model["name"] for model in listing])
        for model in listing:
            self.assertIsNone(model["path"])  # this home is new
            self.assertRegex(model["sha256"], "^[0-9a-f]{64}$")

    def test_path_of_a_model_that_is_not_here(self):
        done = dspark("models", "--path", "smollm2-135m")
        self.assertEqual((done.returncode, done.stdout), (3, b""))
        self.assertIn(b"`dspark pull smollm2-135m`", done.stderr)
        self.assertEqual(dspark("models", "--path", "smollm3").returncode, 3)

    def test_path_of_a_file_is_the_file(self):
        path = MODELS / "llama/llama.gguf"
        self.assertEqual(dspark("models", "--path", path).stdout.decode(), f"{path}\n")
        self.assertEqual(dspark("pull", path).stdout.decode(), f"{path}\n")

    def test_download_that_cannot_work(self):
        done = dspark("pull", "http://127.0.0.1:9/x.gguf")
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr.decode(), "^dspark: .*127.0.0.1.*\n$")


class Synth(unittest.TestCase):
    def synth(self, folder, name, *arguments):
        path = pathlib.Path(folder) / name
        done = dspark("synth", "--shape", "smollm2-135m", "--layers", "1", *arguments, path)
        self.assertEqual(done.returncode, 0, done.stderr)
        return path

    def test_bytes_follow_from_the_arguments(self):
        with tempfile.TemporaryDirectory() as folder:
            one, two = self.synth(folder, "1.gguf"), self.synth(folder, "2.gguf")
            other = self.synth(folder, "3.gguf", "--seed", "7")
            self.assertEqual(one.read_bytes(), two.read_bytes())
            self.assertNotEqual(one.read_bytes(), other.read_bytes())
            model = json.loads(dspark("inspect", "--json", one).stdout)
            types = {tensor["name"]: tensor["type"] for tensor in model["tensors"]}
            self.assertEqual(types["blk.0.ffn_down.weight"], "q4_k")   # 1,536 columns: whole blocks of 256
            self.assertEqual(types["blk.0.ffn_up.weight"], "q5_0")     # 576 columns: the fallback
            self.assertNotIn("blk.1.ffn_up.weight", types)

    def test_unknown_shape_is_answered_with_the_list(self):
        done = dspark("synth", "--shape", "x", "out.gguf")
        self.assertEqual(done.returncode, 3)
        self.assertIn(b"qwen3-4b", done.stderr)


if __name__ == "__main__":
    COMMAND = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main()
