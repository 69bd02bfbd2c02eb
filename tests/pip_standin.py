#!/usr/bin/env python3
"""Stands for `python3 -m pip` in src/model/registry_test.cc: `pip_standin.py WHEELS download ... --dest DIR NAME==VERSION`
copies WHEELS/NAME-VERSION.whl to DIR under the name that pip gives wheels, and writes one line to WHEELS/log."""

import pathlib
import shutil
import sys


def main() -> int:
    wheels, command, *arguments = sys.argv[1:]
    folder = pathlib.Path(wheels)
    name, version = arguments[-1].split("==")
    with (folder / "log").open("a") as log:
        log.write(f"{command} {name}\n")
    source = folder / f"{name}-{version}.whl"
    if command != "download" or "--no-deps" not in arguments or not source.is_file():
        print(f"ERROR: No matching distribution found for {name}=={version}", file=sys.stderr)
        return 1
    target = pathlib.Path(arguments[arguments.index("--dest") + 1])
    shutil.copy(source, target / f"{name.replace('-', '_')}-{version}-py3-none-any.whl")
    return 0


if __name__ == "__main__":
    sys.exit(main())
