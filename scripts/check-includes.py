#!/usr/bin/env python3
"""Checks what the compiler does not: which folder includes which, the order of includes in a file, that every file
opens with a comment that says what it owns, and that headers start with #pragma once. Prints one line a finding."""

import pathlib
import re
import subprocess
import sys

# A folder may include itself and those before it (docs/architecture.md), but for the pairs below.
ORDER = ["base", "kernels", "text", "kvcache", "model", "draft", "schedule", "engine", "train", "cluster", "server",
         "tools"]
STRANGERS = [{"text", "kvcache"}, {"text", "model"}, {"kvcache", "model"}, {"draft", "schedule"}]
LONGEST_FILE = 700
INCLUDE = re.compile(r'#\s*include\s+([<"])([^>"]+)[>"]')

ROOT = pathlib.Path(__file__).resolve().parent.parent


def source_files():
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "src", "scripts", "tests"],
                            cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\n")
    return [pathlib.Path(name) for name in listed
            if pathlib.Path(name).suffix in (".cc", ".h", ".inl", ".py", ".sh") and (ROOT / name).is_file()]


def allowed(folder, other):
    return other in ORDER and ORDER.index(other) <= ORDER.index(folder) and {folder, other} not in STRANGERS


def check_folders(path, includes):
    folder = path.parts[1]
    if folder not in ORDER:
        yield 1, f"folder '{folder}' is not in the layout table; known: {', '.join(ORDER)}"
        return
    for line, kind, name in includes:
        if kind == "<":
            continue
        if not (ROOT / "src" / name).is_file():
            yield line, f'"{name}" is not a file under src; use <...> for other libraries and paths from src for ours'
        elif not allowed(folder, name.split("/")[0]):
            yield line, f'{folder} may not include "{name}": its folder comes later in the layout table, or is a stranger'


def own_header(path, includes):
    """The include that path implements or tests: x.h of x.cc, x_test.cc, x_avx2.cc and the like; None if there is none."""
    if path.suffix != ".cc" or path.stem.endswith("_fuzz"):
        return None
    folder = "/".join(path.parts[1:-1])
    stems = (path.stem, re.sub(r"_(test|benchmark|portable|avx2|avx512)$", "", path.stem))
    return next((entry for stem in stems for entry in includes if entry[2] == f"{folder}/{stem}.h"), None)


def check_order(path, includes):
    """The file's own header, then <...>, then our "...", each group sorted by clang-format."""
    own = own_header(path, includes)
    if own and includes[0] != own:
        yield includes[0][0], f'the first include must be the file\'s own header "{own[2]}"'
    rest = [entry for entry in includes if entry != own]
    seen_ours = False
    for line, kind, name in rest:
        if kind == '"':
            seen_ours = True
        elif seen_ours:
            yield line, f"<{name}> stands behind our own headers; move it before them"


def check_opener(path, lines):
    first = lines[1] if lines and lines[0].startswith("#!") and len(lines) > 1 else (lines[0] if lines else "")
    if path.suffix in (".cc", ".h", ".inl"):
        ok = first.startswith("// ")
    else:
        ok = first.startswith("# ") or first.startswith('"""')
    if not ok:
        yield 1, "opens without a comment that says what the file owns"
    if len(lines) > LONGEST_FILE:
        yield LONGEST_FILE, f"{len(lines)} lines; split it where it holds two things (limit {LONGEST_FILE})"
    if path.suffix == ".h" and "#pragma once" not in lines:
        yield 1, "no #pragma once"


def check(path):
    lines = (ROOT / path).read_text(encoding="utf-8").split("\n")
    yield from check_opener(path, lines)
    if path.suffix in (".cc", ".h", ".inl") and path.parts[0] == "src":
        includes = [(number, match[1], match[2]) for number, line in enumerate(lines, 1)
                    if (match := INCLUDE.match(line))]
        yield from check_folders(path, includes)
        yield from check_order(path, includes)


def main():
    findings = [f"{path}:{line}: {text}" for path in source_files() for line, text in check(path)]
    print("\n".join(findings), end="\n" if findings else "")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
