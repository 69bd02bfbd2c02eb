"""A running `dspark serve` for tests, and raw sockets to treat it badly with."""

import http.client
import json
import os
import pathlib
import signal
import socket
import ssl
import subprocess
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
TINY = ROOT / "tests/data/models/qwen3/hf"


def environment(home):
    """Without settings of whoever runs the tests."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("DSPARK_", "XDG_"))}
    return kept | {"HOME": str(home)}


class Server:
    """A running `dspark serve`; leaves it by SIGTERM and checks that it ended well."""

    def __init__(self, command, *arguments, model=TINY, memory="64MiB", ready=True, home=None):
        self.home = tempfile.TemporaryDirectory()
        self.process = subprocess.Popen(
            [command, "serve", "-m", str(model), "--port", "0", "--served-model-name", "tiny", "--threads", "2",
             "--kv-memory", memory, *map(str, arguments)],
            env=environment(home or self.home.name), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.complaints = []
        self.reader = threading.Thread(target=lambda: self.complaints.extend(self.process.stderr), daemon=True)
        self.reader.start()
        first = self.process.stdout.readline()
        assert first.startswith("listening on "), self.ended()
        self.secure = "https:" in first
        self.port = int(first.rsplit(":", 1)[1])
        if ready:
            self.wait_until_ready()

    def wait_until_ready(self):
        assert self.process.stdout.readline() == "ready\n", self.ended()

    def ended(self):
        """What the process said when it went."""
        self.process.wait(timeout=60)
        self.reader.join(timeout=10)
        return "".join(self.complaints)

    def stop(self, timeout=120, signals=True):
        """SIGTERM, unless it was sent already, and the exit code."""
        if signals and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(timeout)
        finally:
            self.process.kill()
        self.reader.join(timeout=10)
        self.process.stdout.close()
        self.process.stderr.close()
        self.home.cleanup()
        return code

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        code = self.stop()
        assert code == 0, (code, self.complaints)

    def connection(self, timeout=120):
        if not self.secure:
            return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=timeout, context=context)

    def ask(self, method, path, body=None, headers=None):
        """Status and text; a body of bytes goes as it is, anything else as JSON."""
        connection = self.connection()
        payload = body if body is None or isinstance(body, bytes) else json.dumps(body)
        connection.request(method, path, payload, headers or {})
        response = connection.getresponse()
        text = response.read().decode()
        connection.close()
        return response.status, text

    def chat(self, **more):
        body = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 12} | more
        status, text = self.ask("POST", "/v1/chat/completions", body)
        assert status == 200, text
        return text

    def tokens(self, **more):
        """The token ids of a completion's only choice."""
        body = {"prompt": "Hello", "max_tokens": 12, "seed": 1, "return_token_ids": True} | more
        status, text = self.ask("POST", "/v1/completions", body)
        assert status == 200, text
        return json.loads(text)["choices"][0]["token_ids"]

    def cache(self, headers=None):
        return json.loads(self.ask("GET", "/debug/cache", headers=headers)[1])

    def metric(self, name, headers=None):
        """The sum over all labels."""
        lines = self.ask("GET", "/metrics", headers=headers)[1].splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.split("{")[0] == name)

    def wait_until_idle(self, headers=None, seconds=60):
        """Nothing runs, and the cache's accounting is closed."""
        deadline = time.monotonic() + seconds
        while self.metric("dspark_calls_running", headers) + self.metric("vllm:num_requests_running", headers) > 0:
            assert time.monotonic() < deadline, "requests are stuck"
            time.sleep(0.02)
        cache = self.cache(headers)
        assert cache["accounting"] == "closed", cache
        assert cache["used_blocks"] == 0 and cache["sequences"] == 0, cache
        kinds = ("free_blocks", "used_blocks", "cached_blocks", "pinned_blocks")
        assert sum(cache[kind] for kind in kinds) == cache["capacity_blocks"], cache
        return cache

    def resident_bytes(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/status").read_text().split("VmRSS:")[1]
        return int(fields.split()[0]) * 1024

    def raw(self, data=b"", receive_buffer=0):
        """A bare connection on which `data` has been sent."""
        s = socket.socket()
        s.settimeout(60)
        if receive_buffer:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        s.connect(("127.0.0.1", self.port))
        s.sendall(data)
        return s


def post_bytes(path, body, length=None, headers=""):
    """A POST as bytes; `length`: what Content-Length claims."""
    payload = body if isinstance(body, bytes) else json.dumps(body).encode()
    return (f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(payload) if length is None else length}\r\n"
            f"{headers}\r\n").encode() + payload


def read_to_end(s):
    out = b""
    while True:
        try:
            piece = s.recv(65536)
        except ConnectionResetError:
            return out
        if not piece:
            return out
        out += piece


def events(stream):
    """The JSON of each server-sent event; the last one must be [DONE]."""
    texts = [line.removeprefix("data: ") for line in stream.split("\n\n") if line]
    assert texts[-1] == "[DONE]", texts
    return [json.loads(text) for text in texts[:-1]]
