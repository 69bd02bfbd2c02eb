#!/usr/bin/env python3
"""Tries deploy/Containerfile without podman: its last stage, line by line, in a fresh Debian of its own.

debootstrap's smallest Debian 12 stands for debian:12-slim, and this build's files for the first stage, which is `make build`.
COPY, RUN, USER and ENV do what they say; then ENTRYPOINT and CMD run as that user, the server fetches its model, HEALTHCHECK
must succeed, and a chat must be answered. Another port than 8000 is used.
Usage: scripts/test_deploy.py   (as root; 300 MB below $TMPDIR, some two minutes)
"""
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
DEBIAN = ("bookworm", "http://deb.debian.org/debian")
PATIENCE_S = 300  # as long as HEALTHCHECK's start period


def last_stage():
    """[(instruction, what follows)]"""
    text = (ROOT / "deploy/Containerfile").read_text().replace("\\\n", "")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    stages = [i for i, line in enumerate(lines) if line.startswith("FROM ")]
    return [tuple(line.split(None, 1)) for line in lines[stages[-1] + 1:]]


class Container:
    """A folder that instructions change."""

    def __init__(self, folder):
        self.folder, self.user, self.variables = folder, "root", {}
        self.entry, self.command, self.health = [], [], ""

    def arguments(self, command):
        """In the folder, with processes of its own that end with us."""
        switch = ["setpriv", f"--reuid={self.user}", f"--regid={self.user}", "--init-groups"] if self.user != "root" else []
        return ["unshare", "--mount", "--pid", "--fork", "--kill-child", f"--root={self.folder}", "--mount-proc", *switch,
                *command]

    def environment(self):
        path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        pip = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}  # how this machine reaches PyPI
        return {"PATH": path, "DEBIAN_FRONTEND": "noninteractive"} | pip | self.variables

    def run(self, command):
        subprocess.run(self.arguments(command), env=self.environment(), check=True, stdout=subprocess.DEVNULL)

    def take(self, name, rest):
        if name == "RUN":
            self.run(["/bin/sh", "-c", rest])
        elif name == "COPY":
            source, target = re.fullmatch(r"--from=build /src/(\S+) (/\S+)", rest).groups()
            place = self.folder / target[1:]
            place.parent.mkdir(parents=True, exist_ok=True)
            (shutil.copytree if (ROOT / source).is_dir() else shutil.copy)(ROOT / source, place)
        elif name == "USER":
            self.user = rest
        elif name == "ENV":
            self.variables |= dict(word.split("=", 1) for word in shlex.split(rest))
        elif name == "HEALTHCHECK":
            self.health = rest.split("CMD ", 1)[1]
        elif name in ("ENTRYPOINT", "CMD"):
            setattr(self, "entry" if name == "ENTRYPOINT" else "command", json.loads(rest))
        elif name != "EXPOSE":
            sys.exit(f"{name} of deploy/Containerfile is not known here")


def wait_until_healthy(container, server, port):
    check = container.health.replace(":8000", f":{port}")
    deadline = time.monotonic() + PATIENCE_S
    while subprocess.run(container.arguments(["/bin/sh", "-c", check]), capture_output=True, check=False,
                         env=container.environment()).returncode != 0:
        if server.poll() is not None or time.monotonic() > deadline:
            sys.exit("the server did not become healthy")
        time.sleep(1)


def ask(port):
    body = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 8}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/chat/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(request, timeout=60))["choices"][0]["message"]["content"]


def main():
    if os.geteuid() != 0:
        sys.exit("only root may change its root folder")
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="dspark-deploy-") as folder:
        container = Container(pathlib.Path(folder) / "root")
        subprocess.run(["debootstrap", "--variant=minbase", DEBIAN[0], container.folder, DEBIAN[1]], check=True,
                       stdout=subprocess.DEVNULL)
        for name, rest in last_stage():
            print(f"deploy: {name} {rest[:100]}", file=sys.stderr)
            container.take(name, rest)
        if certificates := os.environ.get("PIP_CERT"):
            shutil.copy(certificates, container.folder / certificates[1:])
        container.variables["DSPARK_PORT"] = str(port)
        server = subprocess.Popen(container.arguments([*container.entry, *container.command]), env=container.environment(),
                                  stdout=subprocess.DEVNULL, start_new_session=True)
        try:
            wait_until_healthy(container, server, port)
            print(f"deploy: healthy; it says {ask(port)!r}")
        finally:
            os.killpg(server.pid, signal.SIGTERM)  # as `podman stop`; --kill-child is forgotten where the user changes
            server.wait(60)


if __name__ == "__main__":
    main()
