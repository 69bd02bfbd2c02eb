#!/usr/bin/env python3
"""How much of the memory that `dspark run` keeps resident is model and KV: the aim is 1.2 x (files + KV).

Runs the default model (or --model) with prompts of about 1 and 1,000 tokens, without and with the drafter that is found
for it, and prints peak resident memory (VmHWM), its share, and what is behind it (/proc/PID/smaps, --maps).
`files` counts the drafter's file where it is loaded, `KV` whole blocks of 128 positions.
Usage: scripts/memory_aim.py [--command build/dspark] [--model smollm2-135m] [--maps]
"""
import argparse
import collections
import json
import pathlib
import re
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
AIM = 1.2
BLOCK = 128


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def sample(pid):
    """Bytes of resident memory by mapping; what has no name is listed by its size."""
    parts, name = collections.Counter(), ""
    for line in pathlib.Path(f"/proc/{pid}/smaps").read_text().splitlines():
        header = re.match(r"([0-9a-f]+)-([0-9a-f]+) \S+ \S+ \S+ \S+\s*(.*)", line)
        if header:
            size = int(header[2], 16) - int(header[1], 16)
            name = pathlib.PurePath(header[3]).name or f"anonymous, {size >> 20} MiB mapped"
        elif line.startswith("Rss:"):
            parts[name] += int(line.split()[1]) * 1024
    return parts


def measure(command):
    """Peak resident bytes, and the parts of the largest sample."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    peak, largest = 0, collections.Counter()
    while process.poll() is None:
        try:
            status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
            high = re.search(r"VmHWM:\s*(\d+)", status)
            if high and int(high[1]) * 1024 > peak:
                peak, largest = int(high[1]) * 1024, sample(process.pid)
        except (FileNotFoundError, ProcessLookupError):
            pass
        time.sleep(0.02)
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: exit code {process.returncode}")
    return peak, largest


def drafter_layers(command, drafter):
    """Whose KV lies in the same blocks; a layer of a drafter has the shape of its target's."""
    return json.loads(output(command, "inspect", str(drafter), "--json"))["metadata"]["dflash.block_count"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--command", default=str(ROOT / "build" / "dspark"))
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--maps", action="store_true", help="what the memory is, largest first")
    args = parser.parse_args()
    report = json.loads(output(args.command, "inspect", "-m", args.model, "--json"))
    model = pathlib.Path(output(args.command, "models", "--path", args.model).strip())
    position = report["runs_as"]["kv_bytes_per_position"]
    drafter = next(iter((ROOT / "drafters").glob(f"{args.model}*.gguf")), None)
    print("| prompt | drafter | files | KV | resident | of files + KV |\n|---|---|---|---|---|---|")
    for words in (1, 1000):
        for drafting in (False, True) if drafter else (False,):
            files = model.stat().st_size + (drafter.stat().st_size if drafting else 0)
            layers = drafter_layers(args.command, drafter) if drafting else 0
            kv = ((words + 1) // BLOCK + 1) * BLOCK * position * (1 + layers / report["runs_as"]["layers"])
            command = [args.command, "run", "-m", args.model, "--raw", "-p", "one " * words, "--max-tokens", "2"]
            command += ["--drafter", str(drafter)] if drafting else ["--enable-dspark", "off"]
            peak, parts = measure(command)
            share = peak / (files + kv)
            print(f"| {words} | {'yes' if drafting else 'no'} | {files / 1e6:.1f} MB | {kv / 1e6:.1f} MB | "
                  f"{peak / 1e6:.1f} MB | {share:.2f}×{'' if share <= AIM else ' (aim 1.2×)'} |", flush=True)
            for name, size in parts.most_common(20 if args.maps else 0):
                print(f"    {size / 1e6:6.1f} MB {name}")


if __name__ == "__main__":
    main()
