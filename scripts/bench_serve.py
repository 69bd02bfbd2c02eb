#!/usr/bin/env python3
"""Measures `dspark serve` and llama-server side by side: same file (and its Q4_0), clients, prompts, in alternation.

For each number of clients every server answers the same conversations, drawn from --prompts, new ones for each number.
Writes docs/benchmarks/serve-<isa>.json, .md and .svg: tokens a second, times to the first token and between tokens, the
step gap, what `dspark bench` foresees for the same work, a second turn against a cold one, and what a warm-up saves.
Usage: scripts/bench_serve.py [--short] [--clients 1,8,...] [--rounds N] [--budget SECONDS] [--isa avx2] [--prompts DIR] ...
A point takes clients * 200 tokens from each server; llama-server needs about 10 minutes a round for all of them. --short
is one round of fewer points with shorter answers: 7 minutes on two cores.
"""
import argparse
import json
import os
import pathlib
import random
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

from bench_peers import DSPARK, LlamaCpp, isa_in_use, machine, median_spread, run
from load_client import Target, closed_loop
from svg_plot import line_plot

ROOT = pathlib.Path(__file__).resolve().parent.parent
AIMS = {"llama.cpp": 5.0, "llama.cpp Q4_0": 2.5}
SHORT = {"clients": [1, 8, 32, 96], "rounds": 1, "requests": 8, "answer": 128, "most_clients": {"llama.cpp": 32}}
FROM_CLIENTS = 8          # on which the aims for the total rate hold
CONVERSATION = 4000       # tokens, before the second turn
WARMUP_TOKENS = 1000      # of a system prompt that the warm-up file has, too


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Served:
    """A running server, until the end of the block."""

    def __init__(self, command):
        self.port = free_port()
        self.process = subprocess.Popen([str(c) for c in command] + ["--port", str(self.port)],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.target = Target(self.port)

    def __enter__(self):
        deadline = time.monotonic() + 300
        while True:
            try:
                if self.get("/health"):
                    return self
            except OSError:
                pass
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.__exit__()
                sys.exit(f"the server did not start: {' '.join(map(str, self.process.args))}")
            time.sleep(0.05)

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def get(self, path):
        return urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=60).read().decode()

    def post(self, path, body):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        return json.load(urllib.request.urlopen(request, timeout=600))

    def metric(self, name, **labels):
        """The sum over all lines of this name and these labels."""
        total = 0.0
        for line in self.get("/metrics").splitlines():
            if line.split("{")[0] == name and all(f'{k}="{v}"' in line for k, v in labels.items()):
                total += float(line.rsplit(" ", 1)[1])
        return total


class Contestants:
    """How each of them is started for a number of clients."""

    def __init__(self, args, bin_dir, model):
        self.args, self.bin, self.model = args, pathlib.Path(bin_dir), model
        self.q4_0 = LlamaCpp(bin_dir, args.threads).requantised(model)

    def dspark(self, *more):
        return Served([DSPARK, "serve", "-m", self.model, "--threads", self.args.threads, "--isa", self.args.isa,
                       "--kv-memory", self.args.kv_memory, "--cache-prealloc-ratio", 1, *self.args.dspark_flags.split(), *more])

    def llama(self, model, clients):
        return Served([self.bin / "llama-server", "-m", model, "-t", self.args.threads, "-tb", self.args.threads, "-np",
                       clients, "-c", 1024 * clients, "--host", "127.0.0.1"])

    def start(self, who, clients):
        if who == "dspark":
            return self.dspark()
        return self.llama(self.q4_0 if "Q4_0" in who else self.model, clients)


def load_prompts(folder, seed):
    """First turns of all sets, one of each in turn."""
    sets = [[json.loads(line)["turns"][0] for line in path.read_text().splitlines() if line]
            for path in sorted(pathlib.Path(folder).glob("*.jsonl"))]
    if not sets:
        sys.exit(f"no *.jsonl in {folder}; name the folder of the prompts with --prompts")
    draw = random.Random(seed)
    for prompts in sets:
        draw.shuffle(prompts)
    out = []
    for i in range(max(map(len, sets))):
        out += [prompts[i] for prompts in sets if i < len(prompts)]
    return [[{"role": "user", "content": text}] for text in out]


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def summary(load):
    """The numbers of one point of one server."""
    good = [r for r in load.replies if r.ok]
    if not good:
        sys.exit(f"no request was answered: {load.replies[0].error}")
    gaps = [g for r in good for g in r.gaps()]
    tokens = sum(r.tokens for r in good)
    return {"requests": len(load.replies), "failed": len(load.replies) - len(good), "seconds": load.seconds,
            "output_tokens": tokens, "tokens_per_second": tokens / load.seconds,
            "user_tokens_per_second": statistics.median((len(r.token_times) - 1) / max(1e-9, r.last - r.first)
                                                        for r in good),
            "ttft_p50": percentile([r.first for r in good], 0.5), "ttft_p99": percentile([r.first for r in good], 0.99),
            "itl_p50": percentile(gaps, 0.5), "itl_p99": percentile(gaps, 0.99),
            "client_cpu_share": load.client_cpu_seconds / load.seconds}


class StepCosts:
    """What `dspark bench` says that steps and prompts take on average, for work like that of the replies."""

    def __init__(self, args, model, replies):
        prompt = round(statistics.mean(r.usage["prompt_tokens"] for r in replies))
        self.args, self.model, self.step_ms = args, model, {}
        self.context = prompt + round(statistics.mean(r.tokens for r in replies) / 2)
        report = self._bench("prefill", "--prompt-len", max(prompt, 32), "--repeats", 10)
        self.prompt_rate = report["prompt_len"] / report["seconds_mean"]

    def _bench(self, kind, *extra):
        return json.loads(run([DSPARK, "bench", kind, "-m", self.model, "--threads", self.args.threads, "--isa",
                               self.args.isa, "--json", *extra]))

    def step_s(self, batch):
        knots = (1, 2, 4, 8, 16, 32, 64, 96, 128)
        above = next(k for k in knots if k >= batch)
        below = max(k for k in knots if k <= batch)
        for k in (below, above):
            if k not in self.step_ms:
                self.step_ms[k] = self._bench("decode", "--batch", k, "--prompt-len", self.context, "--steps",
                                              40)["step_ms_mean"]
        part = 0 if above == below else (batch - below) / (above - below)
        return 1e-3 * ((1 - part) * self.step_ms[below] + part * self.step_ms[above])

    def predict_seconds(self, replies, clients):
        """The same requests, each token one step of all that decode, each prompt computed alone before its answer."""
        waiting = [(r.usage["prompt_tokens"] - r.usage["prompt_tokens_details"]["cached_tokens"], r.tokens)
                   for r in sorted(replies, key=lambda r: r.sent) if r.ok]
        running, seconds = [], 0.0
        while waiting or running:
            while waiting and len(running) < clients:
                prompt, tokens = waiting.pop(0)
                seconds += prompt / self.prompt_rate
                running.append(tokens - 1)
            running = [left for left in running if left > 0]
            if running:
                steps = 1 if waiting and len(running) < clients else min(running)
                seconds += steps * self.step_s(len(running))
                running = [left - steps for left in running]
        return seconds


def measure_point(contestants, who, clients, conversations, answer):
    with contestants.start(who, clients) as server:
        server.target.one_chat([{"role": "user", "content": "Say hello."}], 8)  # everybody's pages are touched
        names = ("plan", "forward", "draw", "deliver")

        def counters():
            if who != "dspark":
                return {}
            return {p: server.metric("dspark_step_seconds_total", phase=p) for p in names} | {
                "gap": server.metric("dspark_step_gap_seconds_total")}

        before = counters()
        load = closed_loop(server.target, conversations, clients, answer)
        out = summary(load)
        after = counters()
        if after:
            spent = {k: after[k] - before[k] for k in after}
            out |= {"gap_share": spent["gap"] / spent["forward"], "draw_share": spent["draw"] / spent["forward"],
                    "phases_s": spent}
        return out, load.replies


def long_text(server, prompts, tokens, seed):
    """Text of about so many tokens, of a beginning of its own."""
    texts = [c[0]["content"] for c in prompts]
    random.Random(seed).shuffle(texts)
    text = f"Document {seed}.\n"
    for piece in texts:
        text += piece + "\n\n"
        if len(text) > 2 * tokens and len(server.post("/tokenize", {"content": text, "prompt": text})["tokens"]) >= tokens:
            return text
    return text


def second_turn(contestants, prompts, repeats):
    """Times to the first token: of a conversation of 4,000 tokens that nobody knows, and of its next turn."""
    cold, second = [], []
    with contestants.dspark() as server:
        for i in range(repeats):
            turns = [{"role": "user", "content": long_text(server, prompts, CONVERSATION, i) + "\nSummarise this."}]
            first = server.target.one_chat(turns, 32)
            turns += [{"role": "assistant", "content": first.text}, {"role": "user", "content": "And in one sentence?"}]
            again = server.target.one_chat(turns, 8)
            cold.append(first.first)
            second.append(again.first)
            tokens, cached = (again.usage["prompt_tokens"], again.usage["prompt_tokens_details"]["cached_tokens"])
    return {"prompt_tokens": tokens, "cached_tokens": cached, "cold_ttft": median_spread(cold),
            "second_ttft": median_spread(second), "ratio": median_spread([c / s for c, s in zip(cold, second)])}


def warm_up(contestants, prompts, repeats):
    """The first request behind a system prompt of 1,000 tokens, with and without a warm-up file that has it."""
    times = {"cold": [], "warm": []}
    with tempfile.TemporaryDirectory() as folder, contestants.dspark() as server:
        system = {"role": "system", "content": long_text(server, prompts, WARMUP_TOKENS, 99)}
        file = pathlib.Path(folder) / "warmup.jsonl"
        file.write_text(json.dumps({"messages": [system, {"role": "user", "content": "Hi"}]}) + "\n")
        for _ in range(repeats):
            for how, flags in (("cold", []), ("warm", ["--cache-warmup-file", file])):
                with contestants.dspark(*flags) as fresh:
                    reply = fresh.target.one_chat([system, {"role": "user", "content": "What is this about?"}], 8)
                    times[how].append(reply.first)
    return {how: median_spread(values) for how, values in times.items()}


def foretell(args, model, point, replies, clients):
    """Adds to the point our rate as a share of what `dspark bench` foresees for the same work, measured just now."""
    good = [r for r in replies if r.ok]
    costs = StepCosts(args, model, good)
    point |= {"share_of_predicted": costs.predict_seconds(good, clients) / point["seconds"],
              "bench_prompt_rate": costs.prompt_rate, "bench_step_ms": dict(sorted(costs.step_ms.items()))}


def measure_rounds(args, contestants, prompts):
    """points[clients][who] = the summaries of all rounds; stops at the end of a point when the budget is spent."""
    points, deadline = {}, time.monotonic() + args.budget
    position = 0
    for round_number in range(args.rounds):
        for clients in args.clients:
            count = max(clients, args.requests) if clients > 1 else min(args.requests, 8)
            conversations = [prompts[(position + i) % len(prompts)] for i in range(count)]
            position += count
            order = args.contestants[round_number % len(args.contestants):] + \
                args.contestants[:round_number % len(args.contestants)]
            for who in order:
                if clients > args.most_clients.get(who, clients):
                    continue
                share = conversations if who == "dspark" or not args.peer_requests else \
                    conversations[:max(clients, args.peer_requests)]
                point, replies = measure_point(contestants, who, clients, share, args.answer)
                points.setdefault(clients, {}).setdefault(who, []).append(point)
                if who == "dspark" and "prediction" not in args.skip:
                    foretell(args, contestants.model, point, replies, clients)
                print(f"round {round_number}, {clients} clients, {who}: {point['tokens_per_second']:.1f} tok/s, "
                      f"P99 ITL {1e3 * point['itl_p99']:.0f} ms", file=sys.stderr)
            if time.monotonic() > deadline:
                print("the budget is spent", file=sys.stderr)
                return points
    return points


def median_of(points, key):
    return statistics.median(p[key] for p in points)


def mark(good):
    return " ✓" if good else " ✗"


def rate_rows(report):
    yield "| clients | dspark tok/s | " + " | ".join(f"{w} | ratio" for w in report["peers"]) + " | of predicted |"
    yield "|---|---|" + "---|---|" * len(report["peers"]) + "---|"
    for clients, entry in report["points"].items():
        ours = [p["tokens_per_second"] for p in entry["dspark"]]
        row = f"| {clients} | {statistics.median(ours):.0f} ({min(ours):.0f}–{max(ours):.0f}) |"
        for who in report["peers"]:
            theirs = [p["tokens_per_second"] for p in entry.get(who, [])]
            if not theirs:
                row += " | |"
                continue
            ratio = statistics.median(ours) / statistics.median(theirs)
            judged = mark(ratio >= AIMS[who]) if int(clients) >= FROM_CLIENTS else ""
            row += f" {statistics.median(theirs):.0f} ({min(theirs):.0f}–{max(theirs):.0f}) | {ratio:.2f}×{judged} |"
        shares = [p["share_of_predicted"] for p in entry["dspark"] if "share_of_predicted" in p]
        share = statistics.median(shares) if shares else None
        yield row + (f" {100 * share:.0f} %{mark(share >= 0.88)} |" if shares else " |")


def latency_rows(report):
    yield "| clients | server | tok/s a user | TTFT P50 | P99 | ITL P50 | P99 | step gap | sampling | client's CPU |"
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for clients, entry in report["points"].items():
        for who, points in entry.items():
            s = {k: median_of(points, k) for k in ("user_tokens_per_second", "ttft_p50", "ttft_p99", "itl_p50",
                                                    "itl_p99", "client_cpu_share")}
            judged = ""
            against = next((peer for peer in report["peers"] if peer in entry), None)
            if who == "dspark" and against:
                judged = mark(s["itl_p99"] <= 0.5 * median_of(entry[against], "itl_p99"))
            gap = draw = ""
            if who == "dspark":
                gap = f"{100 * median_of(points, 'gap_share'):.1f} %" + (
                    mark(median_of(points, "gap_share") <= 0.02) if clients in ("1", "96") else "")
                draw = f"{100 * median_of(points, 'draw_share'):.1f} %"
            yield (f"| {clients} | {who} | {s['user_tokens_per_second']:.1f} | {s['ttft_p50']:.2f} s | "
                   f"{s['ttft_p99']:.2f} s | {1e3 * s['itl_p50']:.0f} ms | {1e3 * s['itl_p99']:.0f} ms{judged} | {gap} | "
                   f"{draw} | {100 * s['client_cpu_share']:.0f} % |")


def markdown(report):
    m = report["machine"]
    lines = [f"# dspark serve and llama-server, {report['isa']}", "",
             f"{m['cpu']} (family, model, stepping {m['family_model_stepping']}), {m['cores']} cores, "
             f"{report['threads']} threads; commit {m['commit']}, {m['date']}; load before the run "
             f"{m['load_before'][0]:.2f}. {report['llama_cpp']}. SmolLM2-135M-Instruct Q4_1; answers of up to "
             f"{report['answer']} tokens, greedy; {report['rounds']} rounds in alternation, medians, spread in brackets. "
             "Made by `make bench-serve`.", "",
             f"Output tokens a second, all clients together. Aims from {FROM_CLIENTS} clients up: ≥ 5× llama-server on the "
             "same file, ≥ 2.5× on its Q4_0; ≥ 88 % of what `dspark bench` foresees for the same prompts and answers.", "",
             *rate_rows(report), "", f"![tokens a second](serve-{report['isa']}-rate.svg) "
             f"![time between tokens](serve-{report['isa']}-itl.svg)", "",
             "Latency (aims: P99 ITL at most half of llama-server's on the same file, or on its Q4_0 where that was not "
             "measured; step gap at most 2 % of the forward "
             "passes at 1 and 96 clients). Sampling is what draws take of the forward passes' time.", "",
             *latency_rows(report), ""]
    if report["second_turn"]:
        t = report["second_turn"]
        lines += [f"Second turn of a conversation of {t['prompt_tokens']} tokens, of which {t['cached_tokens']} came from "
                  f"the cache: first token after {1e3 * t['second_ttft']['median']:.0f} ms; the first turn, cold, "
                  f"{t['cold_ttft']['median']:.2f} s: {t['ratio']['median']:.0f}× sooner"
                  f"{mark(t['ratio']['median'] >= 50)} (aim 50×).", ""]
    if report["warm_up"]:
        w = report["warm_up"]
        lines += [f"First request after the start, behind a system prompt of {WARMUP_TOKENS} tokens: first token after "
                  f"{1e3 * w['cold']['median']:.0f} ms, with that prompt in `--cache-warmup-file` "
                  f"{1e3 * w['warm']['median']:.0f} ms.", ""]
    return "\n".join(lines)


def plots(report, out):
    def series(key, factor=1.0):
        lines = {}
        for clients, entry in report["points"].items():
            for who, points in entry.items():
                lines.setdefault(who, []).append((int(clients), factor * median_of(points, key)))
        return lines

    stem = f"serve-{report['isa']}"
    (out / f"{stem}-rate.svg").write_text(line_plot("Output of all clients", "clients", "tokens a second",
                                                    series("tokens_per_second")))
    (out / f"{stem}-itl.svg").write_text(line_plot("Time between tokens, P99", "clients", "milliseconds",
                                                   series("itl_p99", 1e3), log_y=True))


def limits(text):
    """"llama.cpp=32,..." as a dictionary."""
    return {who: int(count) for who, count in (item.rsplit("=", 1) for item in text.split(",") if item)}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="what is not given: " + json.dumps(SHORT))
    parser.add_argument("--prompts", type=pathlib.Path, default=ROOT / ".." / "shared" / "data" / "prompts")
    parser.add_argument("--clients", default="1,8,16,32,64,96", type=lambda t: [int(n) for n in t.split(",")])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--budget", type=float, default=7200, help="seconds after which no further point is begun")
    parser.add_argument("--answer", type=int, default=200, help="tokens an answer may have")
    parser.add_argument("--requests", type=int, default=32, help="of a point at least; 8 at most with one client")
    parser.add_argument("--peer-requests", type=int, default=0, help="of a point for llama-server at least; 0: as many")
    parser.add_argument("--contestants", default="dspark,llama.cpp,llama.cpp Q4_0", type=lambda t: t.split(","))
    parser.add_argument("--most-clients", default={}, type=limits, help="leave out points above: llama.cpp=32,...")
    parser.add_argument("--skip", default="", help="any of prediction,second-turn,warm-up")
    parser.add_argument("--dspark-flags", default="", help="more flags of dspark serve")
    parser.add_argument("--kv-memory", default="2GiB", help="taken at the start, as llama-server takes its own")
    parser.add_argument("--isa", default="auto")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs" / "benchmarks")
    if parser.parse_known_args()[0].short:
        parser.set_defaults(**SHORT)
    return parser.parse_args()


def main():
    args = parse_arguments()
    info = machine()
    run([DSPARK, "pull", "smollm2-135m"])
    args.isa = isa_in_use(args.isa)
    bin_dir = run([ROOT / "scripts" / "build-llama-cpp.sh", "avx2" if args.isa == "avx2" else "native"]).strip()
    model = run([DSPARK, "models", "--path", "smollm2-135m"]).strip()
    contestants = Contestants(args, bin_dir, model)
    prompts = load_prompts(args.prompts, args.seed)
    points = measure_rounds(args, contestants, prompts)
    report = {"machine": info, "isa": args.isa, "threads": args.threads, "rounds": args.rounds, "answer": args.answer,
              "llama_cpp": pathlib.Path(bin_dir).parent.name,
              "peers": [w for w in args.contestants if w != "dspark"],
              "second_turn": None if "second-turn" in args.skip else second_turn(contestants, prompts, 3),
              "warm_up": None if "warm-up" in args.skip else warm_up(contestants, prompts, 3),
              "points": points}
    report = json.loads(json.dumps(report))  # keys as they are read back
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / f"serve-{args.isa}.json").write_text(json.dumps(report, indent=1) + "\n")
    (args.out / f"serve-{args.isa}.md").write_text(markdown(report))
    plots(report, args.out)
    print(markdown(report))


if __name__ == "__main__":
    main()
