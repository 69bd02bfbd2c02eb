#!/usr/bin/env python3
"""`dspark bench sweep`: servers and settings side by side, for numbers of clients, on prompts by kind of task.

Any server with OpenAI's API can be measured. A dspark server is measured once for each of --modes, which are set through
its live configuration and put back at the end. In each round all settings answer the same conversations, one setting
after the other, in an order that turns from round to round, and none finds what another has left in the KV cache. Writes
sweep.json, sweep.md (the points where a setting loses come first) and plots into --out.
Usage: scripts/bench_sweep.py --server NAME=URL [--server ...] --prompts FILE [...] [--clients 8,16,...]
         [--modes off,fixed:5,planned] [--arrivals closed|poisson:R] [--rounds N] [--answer N] [--out DIR] [--dspark FILE] [--model FILE]
"""
import argparse
import datetime
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import urllib.error
import urllib.request

from load_client import Target, closed_loop, poisson_arrivals
from svg_plot import line_plot

BUCKETS = {"humaneval": "code", "mbpp": "code", "json": "json", "gsm8k": "math", "reasoning": "math", "mt-bench": "chat"}
PERCENTILES = (50, 90, 99)
LOSES = 0.99  # of the baseline's throughput, below which a setting loses
COUNTERS = {"steps": "dspark_steps_total", "expected_s": "dspark_step_expected_seconds_total",
            "actual_s": "dspark_step_actual_seconds_total"}


def percentile(values, percent):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(percent / 100 * len(ordered)))] if ordered else 0.0


class Server:
    """A server under test, by its URL."""

    def __init__(self, name, url, api_key):
        self.name, self.url, self.key = name, url.rstrip("/"), api_key
        model = json.loads(self.call("/v1/models"))["data"][0]["id"]
        self.target = Target.of_url(self.url, api_key, model=model)
        self.version = self.config_version()
        self.share, self.rounds = 1.0, None  # a slow peer may answer a part of the requests, in the first rounds only

    def call(self, path, body=None):
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {self.key}"} if self.key else {})
        request = urllib.request.Request(self.url + path, json.dumps(body).encode() if body is not None else None, headers)
        return urllib.request.urlopen(request, timeout=600).read().decode()

    def config_version(self):
        """None for who has no live configuration."""
        try:
            return json.loads(self.call("/api/v1/config"))["version"]
        except (urllib.error.HTTPError, ValueError):
            return None

    def set_mode(self, mode):
        change = {"enable_dspark": "off"} if mode == "off" else {"enable_dspark": "auto", "dspark_mode": mode}
        self.call("/api/v1/config", change)

    def restore(self):
        if self.version is not None:
            self.call("/api/v1/config", {"rollback": self.version})

    def metrics(self):
        """{name: {labels as text: value}}; empty for who has none."""
        out = {}
        try:
            for line in self.call("/metrics").splitlines():
                if line and not line.startswith("#"):
                    series, value = line.rsplit(" ", 1)
                    name, _, labels = series.partition("{")
                    out.setdefault(name, {})[labels] = float(value)
        except urllib.error.HTTPError:
            pass
        return out


def by_label(metrics, name, label):
    """{value of the label: sum}."""
    out = {}
    for labels, value in metrics.get(name, {}).items():
        found = labels.partition(f'{label}="')[2].partition('"')[0]
        out[found] = out.get(found, 0.0) + value
    return out


def engine_numbers(before, after):
    """What a dspark server says of its own work between two looks."""
    if COUNTERS["steps"] not in after:
        return None
    total = lambda m, name: sum(m.get(name, {}).values())
    spent = {key: total(after, name) - total(before, name) for key, name in COUNTERS.items()}
    steps = max(1.0, spent["steps"])
    parts = {"draft": ("dspark_speculation_seconds_total", "part"), "plan": ("dspark_speculation_seconds_total", "part"),
             "draw": ("dspark_step_seconds_total", "phase"), "forward": ("dspark_step_seconds_total", "phase")}
    ms = {part: 1e3 / steps * (by_label(after, *where).get(part, 0.0) - by_label(before, *where).get(part, 0.0))
          for part, where in parts.items()}
    acceptance = {}
    for bucket, verified in by_label(after, "dspark_draft_tokens_total", "bucket").items():
        verified -= by_label(before, "dspark_draft_tokens_total", "bucket").get(bucket, 0.0)
        if verified > 0:
            acceptance[bucket] = {
                kind: (by_label(after, name, "bucket")[bucket] - by_label(before, name, "bucket").get(bucket, 0.0)) / verified
                for kind, name in (("predicted", "dspark_survival_predicted_total"),
                                   ("actual", "dspark_survival_actual_total"))} | {"tokens": verified}
    return {"steps": spent["steps"], "step_ms_expected": 1e3 * spent["expected_s"] / steps,
            "step_ms_actual": 1e3 * spent["actual_s"] / steps, "ms_per_step": ms, "acceptance": acceptance}


def summary(load):
    good = [reply for reply in load.replies if reply.ok]
    if not good:
        sys.exit(f"no request was answered: {load.replies[0].error}")
    gaps = [gap for reply in good for gap in reply.gaps()]
    times = {"ttft": [r.first for r in good], "itl": gaps, "e2e": [r.last for r in good]}
    tokens = sum(reply.tokens for reply in good)
    return {"requests": len(load.replies), "failed": len(load.replies) - len(good), "seconds": load.seconds,
            "output_tokens": tokens, "tokens_per_second": tokens / load.seconds,
            "user_tokens_per_second": statistics.median((len(r.token_times) - 1) / max(1e-4, r.last - r.first)
                                                        for r in good),
            "client_cpu_share": load.client_cpu_seconds / load.seconds,
            **{f"{name}_p{p}": percentile(values, p) for name, values in times.items() for p in PERCENTILES}}


def conversations(files, count, seed):
    """`count` of them, the sets in turn, each prompt with its kind of task."""
    sets = []
    for file in files:
        turns = [json.loads(line)["turns"][0] for line in file.read_text().splitlines() if line]
        random.Random(seed).shuffle(turns)
        sets.append((BUCKETS.get(file.stem, "other"), turns))
    out = []
    for i in range(count):
        bucket, turns = sets[i % len(sets)]
        out.append((bucket, [{"role": "user", "content": turns[i // len(sets) % len(turns)]}]))
    return out


def settings_of(servers, modes):
    """(name, server, mode or None), in the order of the report."""
    out = []
    for server in servers:
        if server.version is None:
            out.append((server.name, server, None))
        else:
            out += [(mode if len(servers) == 1 else f"{server.name} {mode}", server, mode) for mode in modes]
    return out


def measure(args, servers):
    points = []
    settings = settings_of(servers, args.modes)
    for clients in args.clients:
        work = conversations(args.prompts, max(args.requests, 2 * clients), args.seed + clients)
        tasks, messages = zip(*work)
        found = {name: [] for name, _, _ in settings}
        for turn in range(args.rounds):
            shift = turn % len(settings)
            for name, server, mode in settings[shift:] + settings[:shift]:
                if server.rounds is not None and turn >= server.rounds:
                    continue
                print(f"sweep: {clients} clients, round {turn + 1}, {name}", file=sys.stderr)
                if mode is not None:
                    server.set_mode(mode)
                if server.version is not None:  # so that nobody finds the prompts that another setting has computed
                    server.target.more["cache_salt"] = f"{args.seed}.{clients}.{turn}.{name}"
                before = server.metrics()
                asked = messages[:max(clients, round(server.share * len(messages)))]
                if args.arrivals == "closed":
                    load = closed_loop(server.target, asked, clients, args.answer, tasks[:len(asked)])
                else:
                    load = poisson_arrivals(server.target, asked, clients * args.rate, args.answer, args.seed + turn,
                                            tasks[:len(asked)])
                found[name].append(summary(load) | {"engine": engine_numbers(before, server.metrics())})
        points += [{"clients": clients, "setting": name, "rounds": rounds} for name, rounds in found.items()]
    return points


def median_of(point, key):
    return statistics.median(r[key] for r in point["rounds"])


def ratios(point, base):
    return [a["tokens_per_second"] / b["tokens_per_second"] for a, b in zip(point["rounds"], base["rounds"])]


class Report:
    """`stem`: how the names of its files begin."""

    def __init__(self, report, stem="sweep"):
        self.report, self.points, self.stem = report, report["points"], stem
        self.names = list(dict.fromkeys(p["setting"] for p in self.points))
        own = list(dict.fromkeys(p["setting"] for p in self.points if p["rounds"][0]["engine"]))
        self.own = own or self.names  # the others are peers
        self.at = {(p["clients"], p["setting"]): p for p in self.points}
        self.clients = list(dict.fromkeys(p["clients"] for p in self.points))

    def against(self, base):
        """The table of our points against a setting, the worst first."""
        rows = []
        for (clients, name), point in self.at.items():
            if name != base and name in self.own:
                values = ratios(point, self.at[clients, base])
                rows.append((statistics.median(values), clients, name, min(values), max(values)))
        return ["", f"## Against {base}, the worst points first", "", "| clients | setting | throughput | of the rounds | |",
                "|---|---|---|---|---|",
                *(f"| {clients} | {name} | {ratio:.3f}× | {low:.3f}–{high:.3f} | {'**loses**' if ratio < LOSES else ''} |"
                  for ratio, clients, name, low, high in sorted(rows))]

    def markdown(self):
        r = self.report
        lines = ["# Sweep", "", f"{r['cpu']}, {r['cores']} cores; {r['date']}; load before the run {r['load']:.2f}; arrivals "
                 f"{r['arrivals']}, answers of up to {r['answer']} tokens, temperature 0, {r['rounds']} rounds in alternation; "
                 f"medians. Prompts: {', '.join(r['prompts'])}. {r['made_by']}"]
        for base in (self.own[0], *(name for name in self.names if name not in self.own)):
            lines += self.against(base)
        lines += ["", "## All points", "", "| clients | setting | tok/s | a user | TTFT ms, P50 P90 P99 | ITL ms | end to end s | "
                  "failed | client's CPU |", "|---|---|---|---|---|---|---|---|---|"]
        for clients in self.clients:
            for name in self.names:
                p = self.at[clients, name]
                times = lambda key, scale, digits: " ".join(f"{scale * median_of(p, f'{key}_p{q}'):.{digits}f}"
                                                            for q in PERCENTILES)
                lines.append(f"| {clients} | {name} | {median_of(p, 'tokens_per_second'):.1f} | "
                             f"{median_of(p, 'user_tokens_per_second'):.1f} | {times('ttft', 1e3, 0)} | "
                             f"{times('itl', 1e3, 1)} | {times('e2e', 1, 2)} | {sum(x['failed'] for x in p['rounds'])} | "
                             f"{100 * median_of(p, 'client_cpu_share'):.0f} % |")
        lines += ["", *self.engine_tables(), *self.costs(),
                  " ".join(f"![{what}]({self.stem}-{plot}.svg)" for what, plot in
                           (("throughput", "throughput"), ("a user's speed", "user"), ("both", "pareto"))), ""]
        return "\n".join(lines)

    def engine_tables(self):
        inside = [p for p in self.points if p["rounds"][0]["engine"]]
        if not inside:
            return []
        lines = ["## Inside the engine, ms a step", "", "| clients | setting | expected | actual | error | forward | draft | "
                 "sampling | planning guesses |", "|---|---|---|---|---|---|---|---|---|"]
        buckets = ["", "## Acceptance of guesses, predicted and actual", "",
                   "| clients | setting | bucket | checked | predicted | actual |", "|---|---|---|---|---|---|"]
        for p in inside:
            mean = lambda get: statistics.fmean(get(r["engine"]) for r in p["rounds"])
            expected, actual = mean(lambda e: e["step_ms_expected"]), mean(lambda e: e["step_ms_actual"])
            parts = " | ".join(f"{mean(lambda e, k=k: e['ms_per_step'][k]):.3f}" for k in ("forward", "draft", "draw", "plan"))
            lines.append(f"| {p['clients']} | {p['setting']} | {expected:.2f} | {actual:.2f} | "
                         f"{100 * (expected / max(1e-9, actual) - 1):+.1f} % | {parts} |")
            for bucket in sorted({b for r in p["rounds"] for b in r["engine"]["acceptance"]}):
                rows = [r["engine"]["acceptance"][bucket] for r in p["rounds"] if bucket in r["engine"]["acceptance"]]
                checked = sum(x["tokens"] for x in rows)
                share = lambda kind: sum(x[kind] * x["tokens"] for x in rows) / checked
                buckets.append(f"| {p['clients']} | {p['setting']} | {bucket} | {checked:.0f} | {share('predicted'):.3f} | "
                               f"{share('actual'):.3f} |")
        return lines + buckets + [""]

    def costs(self):
        costs = self.report["reproducibility"]
        if not costs:
            return []
        lines = ["## What reproducibility costs", "", "| | | |", "|---|---|---|"]
        for kernel in costs["kernels"]:
            lines.append(f"| {kernel['kernel']}, fixed order against any order | {100 * kernel['price']:+.1f} % time | |")
        for row in costs["acceptance"]:
            lines.append(f"| acceptance at place {row['position']}, temperature 1: equal to the target's draw against ratio "
                         f"rejection | {row['acceptance']:.3f} | {row['ratio_acceptance']:.3f} |")
        return lines + [""]

    def plots(self, folder):
        series = lambda key: {n: [(c, median_of(self.at[c, n], key)) for c in self.clients] for n in self.names}
        draw = lambda name, text: (folder / f"{self.stem}-{name}.svg").write_text(text)
        draw("throughput", line_plot("Throughput", "clients", "tokens a second", series("tokens_per_second")))
        draw("user", line_plot("Speed of one user", "clients", "tokens a second", series("user_tokens_per_second")))
        pareto = {n: sorted((median_of(self.at[c, n], "user_tokens_per_second"),
                             median_of(self.at[c, n], "tokens_per_second")) for c in self.clients) for n in self.names}
        draw("pareto", line_plot("Throughput against a user's speed", "tokens a second of one user", "tokens a second of all",
                                 pareto, few_ticks=True))

    def write(self, folder):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{self.stem}.json").write_text(json.dumps(self.report, indent=1) + "\n")
        (folder / f"{self.stem}.md").write_text(self.markdown())
        self.plots(folder)
        print(folder / f"{self.stem}.md")


def header(args):
    """What a report says of the machine and of the run; before the run."""
    cpu = pathlib.Path("/proc/cpuinfo").read_text().partition("model name")[2].partition(":")[2].partition("\n")[0].strip()
    return {"cpu": cpu, "cores": len(os.sched_getaffinity(0)), "date": datetime.date.today().isoformat(),
            "load": os.getloadavg()[0], "arrivals": args.arrivals, "answer": args.answer, "rounds": args.rounds,
            "prompts": [file.stem for file in args.prompts], "made_by": "Made by `dspark bench sweep`."}


def reproducibility(args):
    """What the fixed order of sums and drawing by shared noise cost, by the commands that measure them."""
    def ask(*words):
        done = subprocess.run([args.dspark, *map(str, words), "--json"], capture_output=True, text=True, check=False)
        return json.loads(done.stdout) if done.returncode == 0 else {}

    kernels = ask("bench", "kernels").get("determinism", [])
    evaluated = ask("eval", "-m", args.model, "--temp", 1, "--limit", 4, "-n", 64,
                    *[w for f in args.prompts for w in ("--prompts", f)]) if args.model else {}
    rows = [p for p in evaluated.get("all", {}).get("positions", []) if "ratio_acceptance" in p]
    return {"kernels": kernels, "acceptance": rows}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", action="append", required=True, metavar="NAME=URL")
    parser.add_argument("--prompts", type=pathlib.Path, action="append", required=True)
    parser.add_argument("--clients", default="8,16,32,60,64,96", type=lambda t: [int(n) for n in t.split(",")])
    parser.add_argument("--modes", action="append")
    parser.add_argument("--arrivals", default="closed")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--requests", type=int, default=16, help="of a point at least; two for each client")
    parser.add_argument("--answer", type=int, default=128, help="tokens an answer may have")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("."))
    parser.add_argument("--dspark", default="", help="the program, to measure what reproducibility costs; empty: do not")
    parser.add_argument("--model", default="", help="its file, to measure what drawing by shared noise costs")
    args = parser.parse_args()
    args.modes = args.modes or ["off", "fixed:5", "planned"]
    args.rate = 1.0
    if args.arrivals != "closed":
        try:
            args.rate = float(args.arrivals.removeprefix("poisson:"))
        except ValueError:
            parser.error(f"--arrivals {args.arrivals}, expected closed or poisson:R")
    return args


def main():
    args = parse_arguments()
    servers = []
    for text in args.server:
        name, _, url = text.rpartition("=") if "=" in text.partition("://")[0] else ("dspark", "", text)
        try:
            servers.append(Server(name, url, os.environ.get("DSPARK_API_KEY", "")))
        except (OSError, ValueError, KeyError) as error:
            sys.exit(f"sweep: {url} does not answer as OpenAI's API: {error}")
    report = header(args)
    try:
        report["points"] = measure(args, servers)
    finally:
        for server in servers:
            server.restore()
    report["reproducibility"] = reproducibility(args) if args.dspark else None
    Report(report).write(args.out)


if __name__ == "__main__":
    main()
