#!/usr/bin/env python3
"""Measures what guessing ahead brings: off, fixed and planned in turn, on prompt sets, for numbers of clients.

Runs `dspark bench speculation` for each temperature and writes docs/benchmarks/speculation-<isa>.json, .md and .svg: the
points where planning loses first. Intervals hold for all points at once (Bonferroni), from the pooled spread of the
rounds' ratios.
Usage: scripts/bench_spec.py [--prompts DIR] [--sets LIST] [--clients LIST] [--modes LIST] [--temperatures LIST]
                             [--rounds N] [--limit N] [--answer N] [--isa ISA] [--out DIR]
"""
import argparse
import json
import math
import pathlib
import statistics
import sys

from bench_peers import DSPARK, ROOT, machine, run
from svg_plot import line_plot

# Aims at one client and temperature 0, against off.
AIMS = {"gsm8k": 1.7, "humaneval": 1.5, "mbpp": 1.5, "json": 1.5, "mt-bench": 1.3, "copy-edit": 2.5}
PLANNED_SHARE = 0.98  # of the best other setting, everywhere


def normal_quantile(p):
    return statistics.NormalDist().inv_cdf(p)


def rates(cell, key="tokens_per_second"):
    return [r[key] for r in cell["rounds"]]


def log_ratios(a, b, key="tokens_per_second"):
    return [math.log(x / y) for x, y in zip(rates(a, key), rates(b, key))]


class Points:
    """The cells of one temperature: {(set, clients): {mode: cell}}."""

    def __init__(self, report):
        self.at = {}
        for cell in report["cells"]:
            self.at.setdefault((cell["set"], cell["clients"]), {})[cell["mode"]] = cell

    def interval(self, mode, other):
        """{point: (ratio, low, high)} of mode against other, over all points at once."""
        logs = {p: log_ratios(c[mode], c[other]) for p, c in self.at.items() if mode in c and other in c}
        free = sum(len(v) - 1 for v in logs.values())
        if free == 0:
            return {p: (math.exp(statistics.fmean(v)),) * 3 for p, v in logs.items()}
        pooled = math.sqrt(sum((x - statistics.fmean(v)) ** 2 for v in logs.values() for x in v) / free)
        z = normal_quantile(1 - 0.025 / len(logs))
        z += (z ** 3 + z) / (4 * free)  # Student's t, to first order
        return {p: tuple(math.exp(statistics.fmean(v) + s * z * pooled / math.sqrt(len(v))) for s in (0, -1, 1))
                for p, v in logs.items()}


def best_other(cells):
    """The mode besides planned that has the highest median."""
    return max((m for m in cells if m != "planned"), key=lambda m: statistics.median(rates(cells[m])))


def point_rows(points, temperature):
    against_off = points.interval("planned", "off")
    against_five = points.interval("planned", "fixed:5") if all("fixed:5" in c for c in points.at.values()) else {}
    rows = []
    for point, cells in points.at.items():
        best = best_other(cells)
        share = math.exp(statistics.fmean(log_ratios(cells["planned"], cells[best])))
        planned = cells["planned"]
        aim = AIMS.get(point[0]) if point[1] == 1 and temperature == 0 else None
        ratio, low, high = against_off[point]
        judged = "" if aim is None else f" (aim {aim}×) {'✓' if ratio >= aim else '✗'}"
        expected = sum(rates(planned, "accepted_expected")) / max(1, sum(rates(planned, "accepted")))
        user = math.exp(statistics.fmean(log_ratios(planned, cells["off"], "user_tokens_per_second")))
        step = sum(rates(planned, "step_ms_expected")) / max(1e-9, sum(rates(planned, "step_ms")))
        rows.append((share, f"| {point[0]} | {point[1]} | {statistics.median(rates(cells['off'])):.0f} | "
                            f"{statistics.median(rates(planned)):.0f} | "
                            f"{statistics.median(rates(planned, 'user_tokens_per_second')):.0f} | {user:.2f}× | "
                            f"{statistics.median(rates(planned, 'tokens_per_step')):.2f} | "
                            f"{ratio:.2f}× ({low:.2f}–{high:.2f}){judged} | "
                            + (f"{against_five[point][0]:.2f}× | " if against_five else "– | ")
                            + f"{best} {share:.2f}×{' ✓' if share >= PLANNED_SHARE else ' ✗'} | "
                            f"{expected:.2f} | {step:.2f} | {statistics.median(rates(planned, 'plan_ms_per_step')):.3f} |"))
    return [text for _, text in sorted(rows, key=lambda r: r[0])]


def markdown(report):
    m = report["machine"]
    lines = [f"# What guessing ahead brings, {report['isa']}", "",
             f"{m['cpu']} (family, model, stepping {m['family_model_stepping']}), {m['cores']} cores; commit {m['commit']}, "
             f"{m['date']}; load before the run {m['load_before'][0]:.2f}. SmolLM2-135M-Instruct Q4_1, answers of up to "
             f"{report['answer']} tokens, the prompts' computation included but in a user's speed, which is from the first to "
             f"the last token of an answer; {report['rounds']} rounds in alternation, "
             f"medians; intervals at 95 % for all points of a table at once. Drafter: {report['drafter']}. Look-up in recent "
             "answers off. The tokens of all settings were compared and are the same. Made by `make bench-spec`.", "",
             f"The worst points first; aim: planned ≥ {PLANNED_SHARE}× the best other setting.", ""]
    for temperature, part in report["temperatures"].items():
        lines += [f"## Temperature {temperature}", "",
                  "| prompts | clients | off, tok/s | planned | a user | ÷ off | tokens a step | planned ÷ off | ÷ fixed 5 | "
                  "÷ the best other | expected ÷ accepted | expected ÷ actual time | planning, ms a step |",
                  "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
                  *point_rows(Points(part), float(temperature)), ""]
        lines += [f"![ratio](speculation-{report['isa']}-t{temperature}.svg)", ""]
    return "\n".join(lines)


def plot(part, temperature):
    lines = {}
    for (name, clients), (ratio, _, _) in Points(part).interval("planned", "off").items():
        lines.setdefault(name, []).append((clients, ratio))
    return line_plot(f"Planned against off, temperature {temperature}", "clients", "times", lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    listed = lambda t: t.split(",")
    parser.add_argument("--prompts", type=pathlib.Path, default=ROOT / ".." / "shared" / "data" / "prompts")
    parser.add_argument("--sets", default="gsm8k,humaneval,mbpp,json,mt-bench,copy-edit", type=listed)
    parser.add_argument("--clients", default="1,2,4,8,16,32,60,64,96")
    parser.add_argument("--modes", default="off,fixed:1,fixed:3,fixed:5,fixed:7,planned", type=listed)
    parser.add_argument("--temperatures", default="0,1", type=listed)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=int, default=8, help="prompts of a set, or as many as there are clients")
    parser.add_argument("--answer", type=int, default=200, help="tokens an answer may have")
    parser.add_argument("--isa", default="auto")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--kv-memory", default="1536MiB", help="of each mode, taken before anything is measured")
    parser.add_argument("--drafter", default="")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs" / "benchmarks")
    args = parser.parse_args()
    report = {"machine": machine(), "isa": args.isa, "rounds": args.rounds, "answer": args.answer,
              "drafter": pathlib.Path(args.drafter).name or "as shipped", "temperatures": {}}
    for temperature in args.temperatures:
        command = [DSPARK, "bench", "speculation", "--json", "--isa", args.isa, "--threads", args.threads, "--temp",
                   temperature, "--clients", args.clients, "--repeats", args.rounds, "--limit", args.limit, "-n",
                   args.answer, "--kv-memory", args.kv_memory, "--cache-prealloc-ratio", 1]
        for name in args.sets:
            command += ["--prompts", args.prompts / f"{name}.jsonl"]
        for mode in args.modes:
            command += ["--modes", mode]
        if args.drafter:
            command += ["--drafter", args.drafter]
        print(f"measuring: temperature {temperature}", file=sys.stderr)
        part = json.loads(run(command))
        report["isa"] = part["isa"]
        report["temperatures"][temperature] = part
    args.out.mkdir(parents=True, exist_ok=True)
    stem = args.out / f"speculation-{report['isa']}"
    stem.with_suffix(".json").write_text(json.dumps(report, indent=1) + "\n")
    stem.with_suffix(".md").write_text(markdown(report))
    for temperature, part in report["temperatures"].items():
        pathlib.Path(f"{stem}-t{temperature}.svg").write_text(plot(part, temperature))
    print(markdown(report))


if __name__ == "__main__":
    main()
