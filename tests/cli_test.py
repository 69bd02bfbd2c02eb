#!/usr/bin/env python3
"""The dspark command as its user sees it: exit codes, messages, help and JSON, on the tiny models of tests/data.

    tests/cli_test.py build/dspark [unittest arguments]
"""

import fcntl
import json
import os
import pathlib
import pty
import re
import select
import shutil
import struct
import subprocess
import tempfile
import termios
import unittest

import command
from command import MODELS, ROOT, dspark


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
        signals = ["141", "143"]  # the shell's, of SIGPIPE and SIGTERM
        self.assertEqual(codes + signals, page)

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

    def test_a_file_that_never_ends_is_an_error(self):
        model = MODELS / "llama/llama.gguf"
        for arguments in (["config", "--config", "/dev/zero"], ["template", "--template", "/dev/zero"],
                          ["template", "--messages", "/dev/zero"], ["sim", "--curve", "/dev/zero"],
                          ["sim", "--traces", "/dev/zero"], ["run", "-m", model, "-f", "/dev/zero"],
                          ["score", "-m", model, "-f", "/dev/zero"], ["tokenize", "-m", model, "-f", "/dev/zero"]):
            self.assert_fails(dspark(*arguments, stdin=b"[]"), 3, "'/dev/zero' has more than [0-9]+ MiB")
        self.assert_fails(dspark("inspect", "/dev/zero"), 3, "/dev/zero: not a regular file")

    def test_who_is_to_blame_decides_the_code(self):
        model = MODELS / "llama/llama.gguf"
        self.assert_fails(dspark("pull", "smollm2-135m", variables={"XDG_CACHE_HOME": "/proc/nope"}), 1,
                          "cannot create the folder")
        self.assert_fails(dspark("pull", "http://127.0.0.1:1/x.gguf"), 1, "try again")
        self.assert_fails(dspark("pull", "http://[x/x.gguf"), 2, "expected http://HOST/FILE")
        self.assert_fails(dspark("synth", "--shape", "qwen3-4b", "/nonexistent/x.gguf"), 1,
                          "/nonexistent/x.gguf: cannot create")
        self.assert_fails(dspark("synth", "--shape", "nope", "x.gguf"), 2, "unknown shape 'nope'; known: ")
        self.assert_fails(dspark("models", variables={"HOME": ""}), 2, "neither XDG_CACHE_HOME nor HOME")
        self.assertEqual(dspark("run", "-m", model, "-p", "x", "-n", "1", variables={"HOME": ""}).returncode, 0)

    def test_settings_are_checked_whole(self):
        self.assert_fails(dspark("config", "--pool", "x"), 2, "pool 'x', expected short:SHARE")
        self.assert_fails(dspark("config", variables={"DSPARK_POOL": "x"}), 2, "pool 'x'")
        self.assert_fails(dspark("run", "--seed", "9" * 20), 2, "--seed: '9+' does not fit into 64 bits")
        self.assert_fails(dspark("sim", "--sequences", ""), 2, "--sequences: '' is not a list")

    def test_a_closed_standard_error_changes_no_exit_code(self):
        done = subprocess.run(["sh", "-c", f"'{command.path}' run --nope 2>&-"], capture_output=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 2)

    def test_full_disk_is_an_error(self):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([command.path, "config"], stdout=full, stderr=subprocess.PIPE, check=False)
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

    def test_settings_of_the_cache_tiers_are_refused_with_that_reason(self):
        for flag in ("--dflash-enable-async-prefetch", "--no-dflash_enable_async_prefetch", "--enable-yoco=1"):
            done = dspark("serve", flag)
            self.assertEqual(done.returncode, 4)
            self.assertIn(b"comes with the cache tiers", done.stderr)
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write("dflash_enable_async_prefetch = true\n")
            file.flush()
            done = dspark("config", "--config", file.name)
            self.assertEqual(done.returncode, 2)
            self.assertIn(b"comes with the cache tiers", done.stderr)

    def test_deepinfers_names_are_known(self):
        page = (pathlib.Path(__file__).resolve().parent.parent / "docs/operator.md").read_text()
        flags = re.findall(r"(?m)^\| (`--[a-z-]+`(?:, `--[a-z-]+`)*) \|", page)
        names = [name for cell in flags for name in re.findall(r"`--([a-z-]+)`", cell)]
        self.assertEqual(len(names), 15)
        known = self.settings()
        for name in names:
            self.assertTrue(name in known or name == "model-path", name)
        off = self.settings(variables={"DEEPINFER_ENABLE_MTP_VARLEN": "0", "DEEPINFER_USE_NEXTN_DECODE": "3"})
        self.assertEqual((off["enable-mtp-varlen"]["value"], off["nextn-decode"]["value"]), (False, 3))

    def test_one_setting_is_described(self):
        text = dspark("config", "model_path").stdout.decode()
        self.assertIn("variable  DSPARK_MODEL\n", text)
        self.assertEqual(dspark("config", "modle").returncode, 2)
        self.assertIn(b"'json' belongs to one call", dspark("config", "json").stderr)


class Inspect(unittest.TestCase):
    def test_json_of_a_split_file(self):
        done = dspark("inspect", "--json", "-m", MODELS / "llama3/llama3-00001-of-00002.gguf")
        self.assertEqual(done.returncode, 0, done.stderr)
        model = json.loads(done.stdout)
        self.assertEqual(model["metadata"]["general.architecture"], "llama")
        sizes = [f.stat().st_size for f in (MODELS / "llama3").glob("*.gguf")]
        self.assertEqual(model["bytes"], sum(sizes))
        self.assertEqual(model["runs_as"]["layers"], model["metadata"]["llama.block_count"])
        shapes = {tensor["name"]: tensor["shape"] for tensor in model["tensors"]}
        self.assertEqual(shapes["output_norm.weight"], [model["metadata"]["llama.embedding_length"]])

    def test_folder_shows_its_configuration(self):
        folder = MODELS / "llama/hf"
        model = json.loads(dspark("inspect", "--json", folder).stdout)
        self.assertEqual(model["metadata"], json.loads((folder / "config.json").read_text()))
        self.assertEqual(len(model["tensors"]), 21)
        # 2 layers, 1 head of 32, keys and values of 4 bytes
        wide = json.loads(dspark("inspect", "--json", "--kv-type", "f32", folder).stdout)
        self.assertEqual(wide["runs_as"]["kv_bytes_per_position"], 2 * 32 * 2 * 4)

    def test_what_becomes_of_each_tensor_when_quantised(self):
        def uses_in(name):
            model = json.loads(dspark("inspect", "--json", "--quantize", "q4_k", MODELS / name).stdout)
            return {tensor["name"]: tensor["use"] for tensor in model["tensors"]}
        uses = uses_in("qwen3moe/hf")
        self.assertEqual(uses["model.layers.0.self_attn.q_proj.weight"], "matrix, becomes q5_0")  # rows of 64
        self.assertEqual(uses["model.layers.0.mlp.gate.weight"], "matrix, float activations")  # a router
        uses = uses_in("quant/hf")
        self.assertEqual(uses["model.layers.0.self_attn.q_proj.weight"], "matrix, becomes q4_k")  # rows of 256
        self.assertEqual(uses["model.layers.0.mlp.down_proj.weight"], "matrix, becomes q5_0")  # rows of 96
        self.assertEqual(uses["model.norm.weight"], "floats")

    def test_says_why_a_model_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            model = pathlib.Path(folder) / "llama"
            shutil.copytree(MODELS / "llama/hf", model)
            config = json.loads((model / "config.json").read_text())
            for changes, message in (({"architectures": ["NewForCausalLM"]}, "is not supported; known: LlamaForCausalLM"),
                                     ({"rms_norm_eps": 2.0}, "norm epsilon 2"),
                                     ({"hidden_act": "relu"}, "activation 'relu'")):
                (model / "config.json").write_text(json.dumps(config | changes))
                done = dspark("inspect", "--json", model)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn(message, json.loads(done.stdout)["refused"])
                done = dspark("run", "-m", model, "-p", "x")
                self.assertIn(message.encode(), done.stderr)
                self.assertIn(done.returncode, (3, 4))

    def test_text_lists_every_tensor(self):
        path = MODELS / "quant/quant-q4_k.gguf"
        names = [tensor["name"] for tensor in json.loads(dspark("inspect", "--json", path).stdout)["tensors"]]
        text = dspark("inspect", path).stdout.decode()
        self.assertGreater(len(names), 10)
        for name in names:
            self.assertIn(f"  {name} ", text)


class Tokenize(unittest.TestCase):
    MODEL = MODELS / "llama/llama.gguf"

    def tokens(self, text, *arguments):
        done = dspark("tokenize", "-m", self.MODEL, "--json", *arguments, stdin=text)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["tokens"]

    def test_any_bytes_come_back(self):
        for text in (b"", b"Hello  world\n", b"\n\n", "ünï ☃ 𝔘".encode(), bytes(range(256)), b"a\0b\r\n", b"\xff\xfe"):
            ids = self.tokens(text)
            for form in (json.dumps({"tokens": ids}), json.dumps(ids), "\n".join(map(str, ids))):
                done = dspark("tokenize", "-m", self.MODEL, "--detokenize", stdin=form.encode())
                self.assertEqual(done.stdout, text)

    def test_control_tokens_can_be_plain_text(self):
        self.assertEqual(len(self.tokens(b"<|im_end|>")), 1)
        self.assertGreater(len(self.tokens(b"<|im_end|>", "--no-parse-special")), 1)

    def test_wrong_ids(self):
        for ids in ("283", "99999999999999999999", "-1", "x", '{"tokens":' * 300000):
            done = dspark("tokenize", "-m", self.MODEL, "--detokenize", stdin=ids.encode())
            self.assertEqual((done.returncode, done.stdout), (2, b""))
            self.assertIn(b"standard input: ", done.stderr)

    def test_messages_name_the_file(self):
        with tempfile.TemporaryDirectory() as folder:
            ids = pathlib.Path(folder) / "ids"
            ids.write_text("x")
            done = dspark("tokenize", "-m", self.MODEL, "--detokenize", "-f", ids)
            self.assertIn(f"{ids}: 'x' is no list".encode(), done.stderr)
            for name in ("tokenizer.json", "chat_template.jinja"):
                copy = pathlib.Path(folder) / name
                shutil.copytree(MODELS / "llama/hf", copy)
                (copy / name).write_text("{%")
                done = dspark("run", "-m", copy, "-p", "x")
                self.assertEqual(done.returncode, 3, done.stderr)
                self.assertIn(str(copy).encode(), done.stderr)


class Template(unittest.TestCase):
    def render(self, template, messages, *arguments):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "t.jinja"
            path.write_text(template)
            return dspark("template", "--template", path, *arguments, stdin=json.dumps(messages).encode())

    def test_prompt_is_printed_as_it_is(self):
        template = "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}{% if add_generation_prompt %}>{% endif %}"
        messages = [{"role": "user", "content": "a\n"}, {"role": "assistant", "content": "ü"}]
        wanted = "<user>a\n\n<assistant>ü\n".encode()
        self.assertEqual(self.render(template, messages).stdout, wanted + b">")
        self.assertEqual(self.render(template, {"messages": messages}, "--no-generation-prompt").stdout, wanted)

    def test_keys_keep_their_order(self):
        done = self.render("{{ messages[0] | tojson }}", [{"role": "user", "zeta": 1, "alpha": 2}])
        self.assertEqual(done.stdout, b'{"role": "user", "zeta": 1, "alpha": 2}')

    def test_refusal_is_an_error(self):
        done = self.render("{{ raise_exception('no tools here') }}", [])
        self.assertEqual((done.returncode, done.stdout), (2, b""))
        self.assertIn(b"no tools here", done.stderr)
        self.assertEqual(self.render("x", "text").returncode, 2)
        done = self.render(r"{{ raise_exception('two\nlines \x1b[31m') }}", [])
        self.assertEqual(done.stderr, b"dspark: chat template, line 1: two lines  [31m\n")


class Run(unittest.TestCase):
    MODEL = MODELS / "llama/llama.gguf"

    def answer(self, *arguments, stdin=b""):
        done = dspark("run", "-m", self.MODEL, "--json", *arguments, stdin=stdin)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_tokens_depend_on_the_seed_and_not_on_the_machine(self):
        request = ["-p", "Hello there, how is it going?", "--temp", "1.5", "--top-k", "0", "-n", "40"]
        first = self.answer(*request, "--seed", "7")
        self.assertGreater(len(first["tokens"]), 10)
        for machine in (["-t", "1"], ["-t", "3"], ["--chunk", "1"], ["--isa", "portable"]):
            self.assertEqual(self.answer(*request, "--seq-seed", "7", *machine)["tokens"], first["tokens"])
        self.assertNotEqual(self.answer(*request, "--seed", "8")["tokens"], first["tokens"])

    def test_prompt_from_flag_file_and_pipe_is_the_same(self):
        wanted = self.answer("-p", "Hello", "--temp", "0", "-n", "5")
        self.assertEqual(self.answer("--temp", "0", "-n", "5", stdin=b"Hello")["tokens"], wanted["tokens"])
        self.assertEqual(self.answer("--temp", "0", "-n", "5", "-f", "-", stdin=b"Hello")["tokens"], wanted["tokens"])
        self.assertNotEqual(self.answer("--raw", "-p", "Hello", "-n", "5")["prompt_tokens"], wanted["prompt_tokens"])

    def test_a_model_without_a_template_is_warned_about(self):
        with tempfile.TemporaryDirectory() as folder:
            model = pathlib.Path(folder) / "hf"
            shutil.copytree(MODELS / "llama/hf", model)
            config = json.loads((model / "tokenizer_config.json").read_text())
            del config["chat_template"]
            (model / "tokenizer_config.json").write_text(json.dumps(config))
            said = [dspark("run", "-m", model, "-p", "Hello", "-n", "2", *raw).stderr for raw in ([], ["--raw"])]
        self.assertIn(b"the model has no chat template", said[0])
        self.assertEqual(said[1], b"")

    def test_guessing_ahead_changes_no_token(self):
        request = ["-p", "Hello there, how is it going?", "-n", "60", "--temp", "0"]
        plain = self.answer(*request, "--enable-dspark", "off")
        self.assertEqual((plain["drafted"], plain["accepted"]), (0, 0))
        fixed = self.answer(*request, "--dspark-mode", "fixed:3")
        self.assertGreater(fixed["drafted"], 0)
        self.assertLessEqual(fixed["accepted"], fixed["drafted"])
        for other in (fixed, self.answer(*request), self.answer(*request, "--dflash-max-reuse-depth", "2")):
            self.assertEqual(other["tokens"], plain["tokens"])
        self.assertTrue(self.answer(*request, "--compare")["compare"]["identical"])
        done = dspark("run", "-m", self.MODEL, "-p", "Hi", "--dspark-mode", "fixed:99")
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"fixed:99", done.stderr)

    def test_a_draft_model_changes_no_token_and_must_have_the_vocabulary(self):
        request = ["-p", "Hello there, how is it going?", "-n", "60", "--temp", "0"]
        plain = self.answer(*request, "--enable-dspark", "off")
        drafted = self.answer(*request, "--draft-with", "model", "--draft-model", self.MODEL, "--dspark-mode", "fixed:5")
        self.assertEqual(drafted["tokens"], plain["tokens"])
        self.assertGreater(drafted["accepted"], 20)
        self.assertEqual(drafted["accepted"], drafted["drafted"])  # it drafts for itself
        other = MODELS / ("quant/quant-q8_0.gguf" if self.MODEL == Run.MODEL else "llama/llama.gguf")
        done = dspark("run", "-m", self.MODEL, *request, "--draft-model", other)
        self.assertEqual(done.returncode, 4)
        self.assertIn(b"name a model of the same family with --draft-model", done.stderr)
        done = dspark("run", "-m", self.MODEL, *request, "--draft-with", "model")
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"name it with --draft-model MODEL", done.stderr)
        done = dspark("run", "-m", self.MODEL, *request, "--draft-with", "ngram", "--draft-model", other)
        self.assertEqual(done.returncode, 2)

    def test_stop_text_ends_the_answer(self):
        whole = self.answer("-p", "Hello", "--seed", "3", "-n", "60", "--temp", "2", "--top-k", "0", "--min-p", "0")
        stop = whole["text"][20:23]
        cut = self.answer("-p", "Hello", "--seed", "3", "-n", "60", "--temp", "2", "--top-k", "0", "--min-p", "0",
                          "--stop", "nowhere in it", "--stop", stop)
        self.assertEqual(cut["text"], whole["text"][:whole["text"].index(stop)])
        self.assertEqual(cut["finish"], "stop")

    def test_memory_and_context_are_found_too_small_at_the_start(self):
        if self.MODEL != Run.MODEL:
            return  # the sizes are the tiny model's
        request = ["-p", "Hello", "--temp", "2", "--top-k", "0", "--min-p", "0", "--top-p", "1", "--seed", "2", "-n", "2000"]
        done = dspark("run", "-m", self.MODEL, *request, "--kv-memory", "32KiB", "-c", "200")
        self.assertEqual((done.returncode, done.stdout), (5, b""))
        self.assertIn(b"a context of 200 needs more than the 128 positions of the KV memory", done.stderr)
        done = dspark("run", "-m", self.MODEL, *request, "--kv-memory", "32KiB", "--json")
        self.assertIn(b"the KV memory holds 128 positions", done.stderr)
        self.assertEqual(done.returncode, 0, done.stderr)
        answer = json.loads(done.stdout)
        self.assertEqual((answer["finish"], answer["prompt_tokens"] + len(answer["tokens"])), ("length", 128))
        for what, arguments in (("decode", ["--prompt-len", "600"]), ("decode", ["--rows", "600"]),
                                ("prefill", ["--prompt-len", "600"])):
            done = dspark("bench", what, "-m", self.MODEL, *arguments)
            self.assertEqual((done.returncode, done.stdout), (2, b""))
            self.assertIn(b"this model has 512", done.stderr)
        self.assertEqual(dspark("bench", "decode", "-m", self.MODEL, "--batch", "2", "--kv-memory", "32KiB").returncode, 5)

    def test_broken_weights_are_an_error_of_the_model(self):
        if self.MODEL != Run.MODEL:
            return
        with tempfile.TemporaryDirectory() as folder:
            broken = pathlib.Path(folder) / "nan.gguf"
            data = bytearray(self.MODEL.read_bytes())
            data[-64:] = b"\xff" * 64
            broken.write_bytes(data)
            done = dspark("run", "-m", broken, "-p", "Hello")
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertIn(b"weights are broken", done.stderr)

    def test_wrong_requests(self):
        for arguments in (["-p", "x", "-f", "y"], ["-p", "x", "--top-p", "1.5"], ["-p", "x", "-c", "100000"],
                          ["-p", "x" * 100000]):
            self.assertEqual(dspark("run", "-m", self.MODEL, *arguments).returncode, 2)

    def chat(self, model, *arguments):
        """Starts a chat on a terminal of its own; returns the process and the terminal's other end."""
        ours, theirs = pty.openpty()
        process = subprocess.Popen([command.path, "run", "-m", str(model), *arguments], stdin=theirs, stdout=theirs,
                                   stderr=theirs, start_new_session=True,
                                   preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(theirs)
        self.addCleanup(os.close, ours)
        self.addCleanup(process.kill)
        return process, ours

    def read_until(self, terminal, wanted):
        seen = b""
        while not seen.endswith(wanted):
            self.assertTrue(select.select([terminal], [], [], 60)[0], f"no {wanted} after {seen}")
            seen += os.read(terminal, 1)
        return seen

    def test_chat_on_a_terminal(self):
        process, terminal = self.chat(self.MODEL, "-n", "8")
        self.read_until(terminal, b"\n> ")
        os.write(terminal, b"half a line\x03")
        self.read_until(terminal, b"\n> ")  # Ctrl-C dropped it
        for _ in range(2):
            os.write(terminal, b"Hello\n")
            self.read_until(terminal, b"Hello\r\n")
            self.read_until(terminal, b"\n> ")
        os.write(terminal, b"\x04")
        self.assertEqual(process.wait(timeout=60), 0)


@unittest.skipUnless("DSPARK_TEST_MODEL" in os.environ, "needs DSPARK_TEST_MODEL, the default model (make test)")
class RealModel(Run):
    MODEL = os.environ.get("DSPARK_TEST_MODEL", "")

    def test_interrupt_stops_the_answer_and_keeps_the_chat(self):
        process, terminal = self.chat(self.MODEL, "-n", "4000", "--temp", "0")
        self.read_until(terminal, b"\n> ")
        os.write(terminal, b"Count from one to one thousand in words.\n")
        self.read_until(terminal, b"\r\n")
        self.read_until(terminal, b" ")
        os.write(terminal, b"\x03")
        self.read_until(terminal, b"\n> ")
        os.write(terminal, b"\x04")
        self.assertEqual(process.wait(timeout=60), 0)

    def test_an_answer_makes_sense(self):
        text = self.answer("-p", "What is the capital of France? Answer with one word.", "--temp", "0", "-n", "20")["text"]
        self.assertIn("Paris", text)


class ModelFolder(unittest.TestCase):
    def test_untied_head_must_be_there(self):
        with tempfile.TemporaryDirectory() as folder:
            model = pathlib.Path(folder) / "qwen3"
            shutil.copytree(MODELS / "qwen3/hf", model)
            config = json.loads((model / "config.json").read_text())
            self.assertTrue(config.pop("tie_word_embeddings"))
            for tied, code in ((None, 0), (True, 0), (False, 3)):
                (model / "config.json").write_text(json.dumps(config | {"tie_word_embeddings": tied}))
                done = dspark("run", "-m", model, "-p", "x", "--raw", "-n", "1")
                self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn(b"lm_head.weight", done.stderr)

    def test_the_text_model_of_a_multimodal_folder(self):
        alone = MODELS / "gemma3/hf"
        with tempfile.TemporaryDirectory() as folder:
            prompt = ["-p", "x", "--raw", "-n", "8", "--temp", "0", "--json"]
            expected = json.loads(dspark("run", "-m", alone, *prompt).stdout)["tokens"]
            for prefix in ("language_model.model.", "model.language_model."):
                whole = pathlib.Path(folder) / prefix
                shutil.copytree(alone, whole)
                config = json.loads((alone / "config.json").read_text())
                for default in ("model_type", "hidden_activation", "rms_norm_eps", "rope_theta", "tie_word_embeddings"):
                    config.pop(default)
                (whole / "config.json").write_text(json.dumps({
                    "architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3",
                    "text_config": config, "vision_config": {"hidden_size": 32}}))
                data = (alone / "model.safetensors").read_bytes()
                size = struct.unpack("<Q", data[:8])[0]
                tensors = json.loads(data[8:8 + size])
                metadata = tensors.pop("__metadata__", {})
                some = next(iter(tensors.values()))
                renamed = {prefix + name.removeprefix("model."): tensor for name, tensor in tensors.items()}
                # A tower's, at the end: no two tensors may share bytes.
                end = len(data) - 8 - size
                tower = {"dtype": some["dtype"], "shape": [0], "data_offsets": [end, end]}
                header = json.dumps({"__metadata__": metadata, **renamed, "vision_tower.head.probe": tower}).encode()
                (whole / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + data[8 + size:])
                done = dspark("run", "-m", whole, *prompt)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(json.loads(done.stdout)["tokens"], expected)
                # What is no tower and nobody computes is refused as in a folder of the text model alone.
                header = header.replace(b"vision_tower.head.probe", b"model.layers.0.extra.bias")
                (whole / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + data[8 + size:])
                done = dspark("run", "-m", whole, *prompt)
                self.assertEqual(done.returncode, 4, done.stderr)
                self.assertIn(b"extra.bias", done.stderr)


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


if __name__ == "__main__":
    command.main()
