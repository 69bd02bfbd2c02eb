#!/usr/bin/env python3
"""Whether `dspark tune` finds a setting that was made bad on purpose, and how near it comes to the best of a grid.

For each case below a small log is recorded on a running server with good settings, `dspark tune` searches with the bad
value as today's, and `dspark bench replay` plays the same log on every value of a finer grid and on what was recommended,
in alternation. Writes docs/benchmarks/tune.md and .json.
Usage: scripts/tune_grid.py [--only CASE,...] [--stages record,tune,grid,report] [--minutes N] [--rounds N] [--prompts DIR] ...
Some 5 minutes a case. What a stage found stays in --work, so that they can be run one by one; each run of `grid` adds
--rounds to those that are there.
"""
import argparse
import dataclasses
import json
import pathlib
import shutil
import statistics
import sys

from bench_peers import DSPARK, ROOT, machine, run
from bench_serve import Served, load_prompts
from load_client import closed_loop, poisson_arrivals

REQUESTS = 16      # as many as tune always plays whole, however little time it has
LONGEST = 500      # characters of a prompt
AIM = 1.05         # of the best of the grid
NUMBERS = ("wait_seconds", "request_seconds", "ttft_p50", "ttft_p99", "tokens_per_second")
# Without guesses one request alone is answered at a quarter of the rate of many together; with them, on a model this
# small, at nearly the same, so that nothing which keeps requests apart is bad.
PLAIN = ("--enable-dspark", "off")
STAGES = ("record", "tune", "grid", "report")


@dataclasses.dataclass
class Case:
    setting: str
    bad: str
    grid: tuple   # the bad one, values that tune looks at, and values between them
    load: str     # that the log is recorded with: so many clients, or requests "a second" by chance
    answer: int   # tokens
    flags: tuple = ()  # of every run


CASES = {
    "threshold": Case("dflash-validation-threshold", "0.95", ("0.95", "0", "0.1", "0.2", "0.3", "0.45", "0.6", "0.8"),
                      "2 clients", 32),
    # Prompts wait for steps in which nobody decodes, so for the end of all answers that are on their way.
    "step-budget": Case("step-budget", "2", ("2", "0", "16", "32", "64", "128", "256", "512"), "12 a second", 64, PLAIN),
    # Room for one request, or two.
    "memory": Case("kv-memory", "9MiB", ("9MiB", "0", "24MiB", "64MiB", "128MiB", "256MiB", "1GiB"), "12 a second", 64, PLAIN)}


def record(args, case, folder):
    """The access log of a server that is set as it comes, but for --threads."""
    log = folder / "access.jsonl"
    log.unlink(missing_ok=True)
    prompts = [p for p in load_prompts(args.prompts, seed=7) if len(p[0]["content"]) <= LONGEST][:REQUESTS]
    with Served([DSPARK, "serve", "-m", args.model, "--threads", args.threads, "--access-log", log,
                 "--log-prompts", *case.flags]) as server:
        number, kind = case.load.split(" ", 1)
        if kind == "a second":
            load = poisson_arrivals(server.target, prompts, float(number), case.answer)
        else:
            load = closed_loop(server.target, prompts, int(number), case.answer)
    failed = [reply.error for reply in load.replies if not reply.ok]
    if failed:
        sys.exit(f"a request failed: {failed[0]}")


def tune(args, case, folder):
    shutil.rmtree(folder / "tuned", ignore_errors=True)
    (folder / "grid.json").unlink(missing_ok=True)
    report = json.loads(run([DSPARK, "tune", "-m", args.model, "--threads", args.threads, f"--{case.setting}", case.bad,
                             "--access-log", folder / "access.jsonl", "--minutes", args.minutes, "--out", folder / "tuned",
                             "--json", *case.flags]))
    (folder / "tune.json").write_text(json.dumps({"minutes": args.minutes, "machine": machine(), "report": report}))


def grid(args, case, folder):
    """Adds rounds: {value or "recommended": its NUMBERS}."""
    config = folder / "tuned" / "config.toml"
    common = [DSPARK, "bench", "replay", "--threads", args.threads, "--access-log", folder / "access.jsonl", "--repeats", 1,
              "--json", "-m", args.model, *case.flags]
    contestants = {value: [f"--{case.setting}", value] for value in case.grid}
    contestants["recommended"] = ["--config", config] if config.exists() else contestants[case.bad]
    path = folder / "grid.json"
    found = json.loads(path.read_text()) if path.exists() else {"machine": machine(), "rounds": []}
    names = list(contestants)
    for _ in range(args.rounds):
        shift = 3 * len(found["rounds"]) % len(names)
        played = {}
        for name in names[shift:] + names[:shift]:
            numbers = json.loads(run([*common, *contestants[name]]))["rounds"][0]
            played[name] = {key: numbers[key] for key in NUMBERS}
        found["rounds"].append(played)
        path.write_text(json.dumps(found))


class Found:
    """What the stages of one case have left."""

    def __init__(self, name, folder):
        self.case = CASES[name]
        tuned, played = (json.loads((folder / f"{file}.json").read_text()) for file in ("tune", "grid"))
        self.rounds, self.machine, self.minutes = played["rounds"], tuned["machine"], tuned["minutes"]
        self.recommended = {key: value for key, value in tuned["report"]["settings"].items()
                            if tuned["report"]["recommended"] and value["recommended"] != value["today"]}
        self.best = min(self.case.grid, key=lambda who: self.median(who, "wait_seconds"))
        self.against_best = self.ratio("recommended", self.best)

    def median(self, who, key):
        return statistics.median(r[who][key] for r in self.rounds)

    def ratio(self, one, other):
        """Of the waits, in pairs of the same round."""
        return statistics.median(r[one]["wait_seconds"] / r[other]["wait_seconds"] for r in self.rounds)

    def row(self, name):
        key = self.case.setting.replace("-", "_")
        said = "; ".join(f"`{k}` {v['recommended']}" for k, v in sorted(self.recommended.items(), key=lambda e: e[0] != key))
        return (f"| {name} | `{key}` {self.case.bad} | {said or 'nothing'} | {self.best} | "
                f"{self.ratio('recommended', self.case.bad):.3f}× | {self.against_best:.3f}× "
                f"{'✓' if self.against_best <= AIM else '✗'} |")


def markdown(found):
    m = next(iter(found.values())).machine
    lines = ["# What `dspark tune` finds", "",
             f"{m['cpu']} (family, model, stepping {m['family_model_stepping']}), {m['cores']} cores; commit {m['commit']}, "
             f"{m['date']}; load before the first run {m['load_before'][0]:.2f}. SmolLM2-135M-Instruct Q4_1 and its shipped "
             "drafter. Made by `make bench-tune`.", "",
             f"For each case one setting is made bad. `dspark tune` gets the log of {REQUESTS} requests that a server with good "
             "settings wrote, and this bad setting as today's. Then `dspark bench replay` plays the log on a grid of values and on "
             "what was recommended, in alternation. Ratios are of the wait that tune goes by (the mean time of a whole answer and "
             "twice that to its first token), medians over rounds, less than 1 is better; the aim is at most "
             f"{AIM}× the best of the grid.", "",
             "| case | made bad | recommended | best of the grid | against the bad one | against the best |",
             "|---|---|---|---|---|---|",
             *(each.row(name) for name, each in found.items()), ""]
    for name, each in found.items():
        plain = " without guesses" if each.case.flags else ""
        lines += [f"## {name}", "", f"Log: {each.case.load}, answers of up to {each.case.answer} tokens{plain}; tune had "
                  f"{each.minutes:g} minutes, the grid {len(each.rounds)} rounds.", "",
                  f"| `{each.case.setting.replace('-', '_')}` | wait, ms | a request | TTFT P50 | P99 | tok/s | against the best |",
                  "|---|---|---|---|---|---|---|"]
        for who in (*each.case.grid, "recommended"):
            mark = " (bad)" if who == each.case.bad else " (best)" if who == each.best else ""
            ms = " | ".join(f"{1e3 * each.median(who, key):.0f}" for key in NUMBERS[:-1])
            rate, ratio = each.median(who, "tokens_per_second"), each.ratio(who, each.best)
            lines.append(f"| {who}{mark} | {ms} | {rate:.0f} | {ratio:.3f}× |")
        lines.append("")
    return "\n".join(lines)


def report(args):
    found = {name: Found(name, args.work / name) for name in CASES if (args.work / name / "grid.json").exists()}
    if not found:
        sys.exit(f"nothing to report in {args.work}; the stages tune and grid come first")
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "tune.json").write_text(json.dumps(
        {name: {"machine": e.machine, "minutes": e.minutes, "recommended": e.recommended, "best": e.best,
                "against_best": e.against_best, "rounds": e.rounds} for name, e in found.items()}, indent=1) + "\n")
    (args.out / "tune.md").write_text(markdown(found))
    print(markdown(found))
    missed = [name for name, each in found.items() if each.against_best > AIM]
    if missed:
        sys.exit(f"more than {AIM} times the best of the grid: {', '.join(missed)}")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)

    def words(known):
        return lambda text: [w for w in text.split(",") if w in known or parser.error(f"{w}: expected {', '.join(known)}")]

    parser.add_argument("--only", type=words(CASES), default=list(CASES))
    parser.add_argument("--stages", type=words(STAGES), default=list(STAGES))
    parser.add_argument("--minutes", type=float, default=3, help="that tune has")
    parser.add_argument("--rounds", type=int, default=5, help="of the grid")
    parser.add_argument("--prompts", type=pathlib.Path, default=ROOT / ".." / "shared" / "data" / "prompts")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build" / "tune-grid")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs" / "benchmarks")
    return parser.parse_args()


def main():
    args = parse_arguments()
    run([DSPARK, "pull", "smollm2-135m"])
    args.model = run([DSPARK, "models", "--path", "smollm2-135m"]).strip()
    for name in args.only:
        folder = args.work / name
        folder.mkdir(parents=True, exist_ok=True)
        for stage, work in (("record", record), ("tune", tune), ("grid", grid)):
            if stage in args.stages:
                print(f"{name}: {stage}", file=sys.stderr)
                work(args, CASES[name], folder)
    if "report" in args.stages:
        report(args)


if __name__ == "__main__":
    main()
