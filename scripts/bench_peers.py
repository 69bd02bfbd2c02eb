#!/usr/bin/env python3
"""Measures dspark and llama.cpp side by side: same file, same threads, in alternation (A, B, A, B, ...).

Writes docs/benchmarks/peers-<isa>.json and .md: medians with their spread, ratios, CPU, commit and load. With --isa
avx2 llama.cpp is the one that an AVX2 machine would build, else the one of this machine's native flags.
Usage: scripts/bench_peers.py [--isa avx2|avx512] [--rounds N] [--only REGEX] [--skip-large] [--out DIR]
"""
import argparse
import datetime
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "dspark-peers"
DSPARK = ROOT / "build" / "dspark"


def run(command, **kwargs):
    return subprocess.run([str(c) for c in command], check=True, stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.PIPE, **kwargs).stdout


def isa_in_use(isa):
    """The instruction set that --isa means on this machine."""
    return isa if isa != "auto" else json.loads(run([DSPARK, "bench", "kernels", "--json"]))["isa"]


class Ours:
    """dspark's own benchmark commands; every method returns tokens a second."""

    def __init__(self, threads, isa):
        self.common = ["--threads", threads, "--isa", isa, "--json"]

    def bench(self, kind, model, *extra):
        return json.loads(run([DSPARK, "bench", kind, "-m", model, *self.common, *extra]))

    def decode(self, model, batch, prompt, steps):
        return self.bench("decode", model, "--batch", batch, "--prompt-len", prompt, "--steps", steps)

    def prompt(self, model, tokens):
        return self.bench("prefill", model, "--prompt-len", tokens, "--repeats", 3)


class LlamaCpp:
    """llama.cpp's benchmark tools; every method returns tokens a second."""

    def __init__(self, bin_dir, threads):
        self.bin, self.threads = pathlib.Path(bin_dir), threads

    def bench(self, model, prompt, generate, depth=0, repeats=3):
        out = run([self.bin / "llama-bench", "-m", model, "-t", self.threads, "-p", prompt, "-n", generate, "-d", depth,
                   "-r", repeats, "-o", "json"])
        return json.loads(out)[0]["avg_ts"]

    def batched(self, model, batch, prompt=64, generate=32):
        out = run([self.bin / "llama-batched-bench", "-m", model, "-t", self.threads, "-c", 32768, "-npp", prompt,
                   "-ntg", generate, "-npl", batch, "-b", 2048, "-ub", 512, "--output-format", "jsonl"])
        line = next(line for line in out.splitlines() if line.startswith("{"))
        return json.loads(line)["speed_tg"]

    def requantised(self, model, kind="Q4_0"):
        """Its best format for CPUs without a faster path for the file's own."""
        target = CACHE / f"{pathlib.Path(model).stem}.{kind}.gguf"
        if not target.exists():
            run([self.bin / "llama-quantize", "--allow-requantize", model, target, kind])
        return target


def median_spread(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values), "runs": values}


class Row:
    """One line of the table: the same work by each contestant, and the ratios that are aimed at."""

    def __init__(self, name, contestants, aims):
        self.name, self.contestants, self.aims = name, contestants, aims

    def measure(self, rounds):
        values = {who: [] for who in self.contestants}
        for _ in range(rounds):
            for who, work in self.contestants.items():
                values[who].append(work())
        ours = values["dspark"]
        ratios = {who: median_spread([a / b for a, b in zip(ours, theirs)])
                  for who, theirs in values.items() if who != "dspark"}
        return {"work": self.name, "tokens_per_second": {w: median_spread(v) for w, v in values.items()},
                "ratio": ratios, "aims": self.aims}


def tps(report):
    return report["tokens_per_second"]


def smollm_rows(ours, llama, model):
    q4_0 = llama.requantised(model)
    rows = [Row("decode, one stream", {"dspark": lambda: tps(ours.decode(model, 1, 0, 128)),
                                       "llama.cpp": lambda: llama.bench(model, 0, 128),
                                       "llama.cpp Q4_0": lambda: llama.bench(q4_0, 0, 128)}, {"llama.cpp": 2.0}),
            Row("prompt of 512", {"dspark": lambda: tps(ours.prompt(model, 512)),
                                  "llama.cpp": lambda: llama.bench(model, 512, 0),
                                  "llama.cpp Q4_0": lambda: llama.bench(q4_0, 512, 0)},
                {"llama.cpp": 4.0, "llama.cpp Q4_0": 2.0})]
    for batch in (16, 96):
        rows.append(Row(f"decode at batch {batch}, prompts of 64",
                        {"dspark": lambda b=batch: tps(ours.decode(model, b, 64, 32)),
                         "llama.cpp": lambda b=batch: llama.batched(model, b),
                         "llama.cpp Q4_0": lambda b=batch: llama.batched(q4_0, b)},
                        {"llama.cpp": 5.0, "llama.cpp Q4_0": 2.5}))
    rows.append(Row("prompt of 4,000", {"dspark": lambda: tps(ours.prompt(model, 4000)),
                                        "llama.cpp": lambda: llama.bench(model, 4000, 0, repeats=1)},
                    {"llama.cpp": 3.0}))
    rows.append(Row("decode behind 4,000", {"dspark": lambda: tps(ours.decode(model, 1, 4000, 32)),
                                            "llama.cpp": lambda: llama.bench(model, 0, 32, depth=4000, repeats=1)},
                    {"llama.cpp": 1.8}))
    return rows


def other_rows(ours, llama, name, model, steps):
    return [Row(f"{name}: decode, one stream", {"dspark": lambda: tps(ours.decode(model, 1, 0, steps)),
                                                "llama.cpp": lambda: llama.bench(model, 0, steps, repeats=1)},
                {"llama.cpp": 1.0}),
            Row(f"{name}: prompt of 512", {"dspark": lambda: tps(ours.prompt(model, 512)),
                                           "llama.cpp": lambda: llama.bench(model, 512, 0, repeats=1)},
                {"llama.cpp": 1.5})]


def bound_shares(ours, models, rounds):
    """Decode as a share of the bandwidth measured in the same run, and steps of several rows against their bound."""
    out = []
    for name, model, steps in models:
        reports = [ours.decode(model, 1, 0, steps) for _ in range(rounds)]
        out.append({"model": name, "bandwidth_fraction": median_spread([r["bandwidth_fraction"] for r in reports]),
                    "bandwidth_gb_per_s": median_spread([r["bandwidth_gb_per_s"] for r in reports])})
    return out


def row_costs(ours, model, rounds):
    limits = {2: 1.1, 3: 1.2, 5: 1.35, 8: 1.8}
    shares = {rows: [] for rows in (1, *limits)}
    for _ in range(rounds):
        report = ours.bench("decode", model, "--rows", "1,2,3,5,8", "--prompt-len", 64)
        for entry in report["rows"]:
            shares[entry["rows"]].append(entry["step_ms"] / (report["row_bound_ms"] / 0.85))
    return [{"rows": rows, "share": median_spread(values), "aim": limits.get(rows)} for rows, values in shares.items()]


def start_costs(model, threads):
    """Seconds from start to the first token of a warm file; resident memory against file and KV, for a short prompt
    and for one of about 1,000 tokens, without the drafter (scripts/memory_aim.py has it with)."""
    block = 128 * json.loads(run([DSPARK, "inspect", model, "--json"]))["runs_as"]["kv_bytes_per_position"]
    out = {"file_bytes": os.path.getsize(model), "memory": []}

    def first_token(words, *more):
        """Medians of five starts: seconds, peak bytes."""
        command = [str(DSPARK), "run", "-m", str(model), "--raw", "-p", "one " * words, "--max-tokens", "1",
                   "--threads", str(threads), *more]
        times, peaks = [], []
        for _ in range(5):
            start = time.monotonic()
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            _, _, usage = os.wait4(process.pid, 0)
            times.append(time.monotonic() - start)
            peaks.append(usage.ru_maxrss * 1024)
        return median_spread(times), median_spread(peaks)

    out["load_to_first_token_s"], _ = first_token(1)
    for words in (1, 1000):
        _, peak = first_token(words, "--enable-dspark", "off")
        kv = (words // 128 + 1) * block
        out["memory"].append({"prompt_tokens": words, "kv_bytes": kv, "peak_resident_bytes": peak,
                              "share": peak["median"] / (out["file_bytes"] + kv)})
    return out


def machine():
    info = pathlib.Path("/proc/cpuinfo").read_text()
    cpu = re.search(r"model name\s*:\s*(.*)", info).group(1)
    numbers = " ".join(re.search(rf"{key}\s*:\s*(.*)", info).group(1) for key in ("cpu family", r"model\t", "stepping"))
    return {"cpu": cpu, "family_model_stepping": numbers, "cores": len(os.sched_getaffinity(0)),
            "load_before": os.getloadavg(), "date": datetime.date.today().isoformat(),
            "commit": run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"]).strip()}


def markdown(report):
    m = report["machine"]
    flavour = "AVX2" if report["isa"] == "avx2" else "native"
    lines = [f"# dspark and llama.cpp, {report['isa']}", "",
             f"{m['cpu']} (family, model, stepping {m['family_model_stepping']}), {m['cores']} cores, "
             f"{report['threads']} threads; commit {m['commit']}, {m['date']}; load before the run "
             f"{m['load_before'][0]:.2f}. {report['llama_cpp']}, {flavour} flags. Medians of "
             f"{report['rounds']} rounds in alternation; spread in brackets. Made by `make bench-peers`.", "",
             "| work | dspark tok/s | llama.cpp, same file | ratio | aim | llama.cpp Q4_0 | ratio | aim |",
             "|---|---|---|---|---|---|---|---|"]

    def speed(row, who):
        s = row["tokens_per_second"].get(who)
        return f"{s['median']:.0f} ({s['min']:.0f}–{s['max']:.0f})" if s else ""

    def ratio(row, who):
        r, aim = row["ratio"].get(who), row["aims"].get(who)
        if not r:
            return "", ""
        met = "" if aim is None else " ✓" if r["median"] >= aim else " ✗"
        return f"{r['median']:.2f}×{met}", "" if aim is None else f"≥ {aim}×"

    def worst(row):
        return min((row["ratio"][w]["median"] / a for w, a in row["aims"].items()), default=9)

    for row in sorted(report["rows"], key=worst):
        same, q4 = ratio(row, "llama.cpp"), ratio(row, "llama.cpp Q4_0")
        lines.append(f"| {row['work']} | {speed(row, 'dspark')} | {speed(row, 'llama.cpp')} | {same[0]} | {same[1]} | "
                     f"{speed(row, 'llama.cpp Q4_0')} | {q4[0]} | {q4[1]} |")
    lines += ["", "Decode as a share of read bandwidth ÷ bytes of weights and KV (aim ≥ 85 %):", "",
              "| model | share | bandwidth GB/s |", "|---|---|---|"]
    for entry in report["bounds"]:
        f, b = entry["bandwidth_fraction"], entry["bandwidth_gb_per_s"]
        lines.append(f"| {entry['model']} | {100 * f['median']:.0f} % ({100 * f['min']:.0f}–{100 * f['max']:.0f}) | "
                     f"{b['median']:.1f} |")
    lines += ["", "A step of several rows of one sequence, against (bandwidth bound of one row ÷ 0.85):", "",
              "| rows | cost | aim |", "|---|---|---|"]
    for entry in report["row_costs"]:
        s = entry["share"]
        lines.append(f"| {entry['rows']} | {s['median']:.2f}× ({s['min']:.2f}–{s['max']:.2f}) | "
                     f"{'' if entry['aim'] is None else '≤ ' + str(entry['aim']) + '×'} |")
    start = report["start"]
    lines += ["", f"Load to first token, warm file: {start['load_to_first_token_s']['median']:.2f} s (aim 1 s)."]
    for entry in start["memory"]:
        lines.append(f"Peak resident memory with a prompt of {entry['prompt_tokens']} tokens: "
                     f"{entry['peak_resident_bytes']['median'] / 1e6:.0f} MB, {entry['share']:.2f}× (file of "
                     f"{start['file_bytes'] / 1e6:.0f} MB + KV of {entry['kv_bytes'] / 1e6:.0f} MB; aim 1.2×).")
    lines.append("")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--isa", default="auto")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--skip-large", action="store_true", help="without the synthetic qwen3-4b")
    parser.add_argument("--only", default="", help="regular expression: which rows of the table to measure")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs" / "benchmarks")
    args = parser.parse_args()
    run([DSPARK, "pull", "smollm2-135m"])
    args.isa = isa_in_use(args.isa)
    flavour = "avx2" if args.isa == "avx2" else "native"
    bin_dir = run([ROOT / "scripts" / "build-llama-cpp.sh", flavour]).strip()
    ours, llama = Ours(args.threads, args.isa), LlamaCpp(bin_dir, args.threads)
    info = machine()
    path_of = lambda name: run([DSPARK, "models", "--path", name]).strip()
    run([DSPARK, "pull", "gemma3-270m"])
    smollm, gemma = path_of("smollm2-135m"), path_of("gemma3-270m")
    rows = smollm_rows(ours, llama, smollm) + other_rows(ours, llama, "Gemma 3 270M Q4_K_M", gemma, 64)
    bounded = [("SmolLM2 135M Q4_1", smollm, 128), ("Gemma 3 270M Q4_K_M", gemma, 64)]
    if not args.skip_large:
        qwen = CACHE / "qwen3-4b.q4_k.gguf"
        if not qwen.exists():
            run([DSPARK, "synth", "--shape", "qwen3-4b", "--type", "q4_k", qwen])
        rows += other_rows(ours, llama, "synthetic qwen3-4b Q4_K", qwen, 8)
        bounded.append(("synthetic qwen3-4b Q4_K", qwen, 8))
    rows = [row for row in rows if re.search(args.only, row.name)]
    measured = []
    for row in rows:
        print(f"measuring: {row.name}", file=sys.stderr)
        measured.append(row.measure(args.rounds if "qwen3" not in row.name else min(args.rounds, 2)))
        print(json.dumps(measured[-1]["ratio"]), file=sys.stderr)
    report = {"machine": info, "isa": args.isa, "threads": args.threads, "rounds": args.rounds,
              "llama_cpp": pathlib.Path(bin_dir).parent.name, "rows": measured,
              "bounds": bound_shares(ours, bounded, min(args.rounds, 3)),
              "row_costs": row_costs(ours, smollm, args.rounds), "start": start_costs(smollm, args.threads)}
    args.out.mkdir(parents=True, exist_ok=True)
    stem = f"peers-{args.isa}"
    (args.out / f"{stem}.json").write_text(json.dumps(report, indent=1) + "\n")
    (args.out / f"{stem}.md").write_text(markdown(report))
    print(markdown(report))


if __name__ == "__main__":
    main()
