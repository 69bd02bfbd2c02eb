#!/usr/bin/env python3
"""What guessing ahead would bring with a larger target, whose weights take longer to read than a row to compute.

A synthetic model (random weights in the shape of a published one) says what steps cost; the drafts are those that the
shipped drafter made for the default model, replayed by `dspark sim` with the chances that it foretold. The cost of
drafting itself is not in it. Writes Markdown and JSON to --out.
Usage: scripts/bench_large_target.py [--shape qwen3-4b] [--prompts ../shared/data/prompts] [--out docs/benchmarks/large-target]
"""
import argparse
import json
import os
import pathlib
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "dspark" / "synth"
ROWS = [1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 48, 64]
SETS = ["gsm8k", "humaneval", "mbpp", "mt-bench"]
SEQUENCES = [1, 2, 4, 8]


def dspark(*arguments):
    return subprocess.run([ROOT / "build/dspark", *map(str, arguments)], check=True, capture_output=True, text=True).stdout


def cost_curve(model, repeats):
    """What the target's steps take, made monotone: a step of more rows is never cheaper."""
    report = json.loads(dspark("bench", "decode", "-m", model, "--rows", ",".join(map(str, ROWS)), "--prompt-len", 64,
                               "--repeats", repeats, "--json"))
    curve, most = [], 0.0
    for entry in report["rows"]:
        most = max(most, entry["step_ms"])
        curve.append({"rows": entry["rows"], "ms": most})
    return report, curve


def record_drafts(prompts, folder, limit):
    """The chances of each drafted token given those before it, of every draft for the set's first prompts."""
    log = folder / "decisions.jsonl"
    log.unlink(missing_ok=True)
    for line in prompts.read_text().splitlines()[:limit]:
        (folder / "prompt.txt").write_text(json.loads(line)["turns"][0])
        dspark("run", "--file", folder / "prompt.txt", "--temp", 0, "--max-tokens", 200, "--draft-with", "dspark",
               "--dspark-mode", "fixed:7", "--log-dflash-details", log)
    traces = []
    for line in log.read_text().splitlines():
        survival = json.loads(line)["survival"]
        if survival:
            traces.append([min(1.0, after / max(before, 1e-6)) for before, after in zip([1.0] + survival, survival)])
    return traces


def replay(curve, traces, folder, steps):
    (folder / "curve.json").write_text(json.dumps(curve))
    (folder / "traces.jsonl").write_text("".join(json.dumps(trace) + "\n" for trace in traces))
    chances = [chance for trace in traces for chance in trace]
    report = json.loads(dspark("sim", "--curve", folder / "curve.json", "--traces", folder / "traces.jsonl", "--acceptance",
                               sum(chances) / len(chances), "--block", 7, "--sim-steps", steps, "--sequences",
                               ",".join(map(str, SEQUENCES)), "--json"))
    return [point for point in report["points"] if point["survival"] == "traces"]


def markdown(report):
    lines = [f"# Guessing ahead with a larger target: {report['shape']}, {report['type']}", "",
             f"By `scripts/bench_large_target.py`: steps of random weights in that shape, measured with {report['isa']} and "
             f"{report['threads']} threads; drafts of the shipped drafter for the default model, replayed by `dspark sim` with "
             "the chances that it foretold. What drafting costs is left out.", "",
             "| rows | step, ms | of one row |", "|---|---|---|"]
    first = report["curve"][0]["ms"]
    lines += [f"| {point['rows']} | {point['ms']:.1f} | {point['ms'] / first:.2f}× |" for point in report["curve"]]
    lines += ["", "| prompts | sequences | off, tok/s | fixed 7 | planned | planned ÷ off | tokens a step | verified a step |",
              "|---|---|---|---|---|---|---|---|"]
    for name, points in report["sets"].items():
        for point in points:
            off, fixed, planned = (point[mode] for mode in ("off", "fixed", "planned"))
            lines.append(f"| {name} | {point['sequences']} | {off['tokens_per_second']:.1f} | {fixed['tokens_per_second']:.1f} | "
                         f"{planned['tokens_per_second']:.1f} | "
                         f"{planned['tokens_per_second'] / off['tokens_per_second']:.2f}× | "
                         f"{planned['tokens_per_step']:.2f} | {planned['verified_per_step']:.2f} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", default="qwen3-4b")
    parser.add_argument("--type", default="q4_k")
    parser.add_argument("--prompts", type=pathlib.Path, default=ROOT / "../shared/data/prompts")
    parser.add_argument("--limit", type=int, default=8, help="prompts of each set")
    parser.add_argument("--repeats", type=int, default=5, help="steps of each number of rows")
    parser.add_argument("--steps", type=int, default=4000, help="simulated steps of each point")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs/benchmarks/large-target")
    options = parser.parse_args()

    CACHE.mkdir(parents=True, exist_ok=True)
    model = CACHE / f"{options.shape}-{options.type}.gguf"
    if not model.exists():
        dspark("synth", "--shape", options.shape, "--type", options.type, model)
    bench, curve = cost_curve(model, options.repeats)
    report = {"shape": options.shape, "type": options.type, "isa": bench["isa"], "threads": bench["threads"],
              "row_bound_ms": bench["row_bound_ms"], "curve": curve, "sets": {}}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for prompts in SETS:
            traces = record_drafts(options.prompts / f"{prompts}.jsonl", folder, options.limit)
            report["sets"][prompts] = replay(curve, traces, folder, options.steps)
    options.out.with_suffix(".json").write_text(json.dumps(report, indent=1) + "\n")
    options.out.with_suffix(".md").write_text(markdown(report))
    print(markdown(report), end="")


if __name__ == "__main__":
    main()
