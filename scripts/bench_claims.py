#!/usr/bin/env python3
"""Measures the claims of docs/claims.md that need a server under load, each by a function below that bears its name.

Every claim has a server of its own, with the default model and the shipped drafter; settings that can change while it
runs do. What a claim compares is measured in alternation, the order turning from round to round (monitoring at the same
time), and each run sends its prompts under a salt of its own, so that none finds the KV of another. Writes
docs/benchmarks/claims-<isa>.json and .md.
Usage: scripts/bench_claims.py [--full | --tiny] [--only NAME,...] [--prompts DIR] [--isa avx2] [--threads N] [--out DIR]
At most 14 minutes on two cores. With --only the other claims stay in the report as they are. --full takes the sizes that
the claims name, and much longer; --tiny shows that it works.
"""
import argparse
import asyncio
import concurrent.futures
import contextlib
import dataclasses
import itertools
import json
import os
import pathlib
import statistics
import sys
import threading
import time

from bench_peers import DSPARK, ROOT, isa_in_use, machine, median_spread, run
from bench_serve import Served, load_prompts, long_text, warm_up
from bench_sweep import summary
from load_client import LoadResult, Target, closed_loop, read_reply

SETTLE_TOKENS = 16  # of an answer before the first run, so that code and memory are touched
ASKED = 500         # times for metrics and health, to time one answer


@dataclasses.dataclass
class Sizes:
    """Tokens and clients; these take 12 minutes at most."""
    rounds: int = 2
    kv_memory: str = "2GiB"
    clients: tuple = (16, 60, 96)    # planned: of each point, with a request each
    answer: int = 64                 # of all claims that name none
    reuse_clients: int = 8
    reuse_prompt: int = 4000         # of the last of four turns
    reuse_answer: int = 64
    crowd: int = 128
    crowd_prompt: int = 320
    crowd_answer: int = 64
    mixed_requests: int = 64         # policy: every fourth is long
    mixed_prompt: int = 800
    window_clients: int = 4
    window_prompt: int = 2600
    few_requests: int = 32           # threshold and monitoring
    eval_prompts: int = 20           # acceptance: of each set
    eval_answer: int = 128


FULL = Sizes(rounds=3, kv_memory="5GiB", answer=200, reuse_answer=512, crowd_prompt=1280, crowd_answer=512,
             mixed_requests=128, few_requests=128, eval_prompts=40, eval_answer=256)
TINY = Sizes(rounds=1, kv_memory="512MiB", clients=(2, 4), answer=8, reuse_clients=2, reuse_prompt=400, reuse_answer=8,
             crowd=6, crowd_prompt=40, crowd_answer=8, mixed_requests=8, mixed_prompt=120, window_clients=1,
             window_prompt=300, few_requests=4, eval_prompts=1, eval_answer=8)

# What a run says: the head of its column, a factor and the digits behind the point.
MEASURES = {"tokens_per_second": ("tok/s", 1, 0), "user_tokens_per_second": ("tok/s a user", 1, 1),
            "ttft_p50": ("TTFT P50, ms", 1e3, 0), "ttft_p99": ("TTFT P99, ms", 1e3, 0),
            "itl_p50": ("ITL P50, ms", 1e3, 1), "itl_p99": ("ITL P99, ms", 1e3, 1),
            "e2e_p50": ("whole answer P50, s", 1, 2), "e2e_p99": ("P99, s", 1, 2),
            "ttft_variance": ("variance of TTFT, s²", 1, 3), "itl_variance": ("of ITL, ms²", 1e6, 0),
            "e2e_variance": ("of the whole answer, s²", 1, 3),
            "prompt_tokens": ("prompt tokens", 1, 0), "reuse": ("of them reused, %", 100, 1),
            "checked": ("guesses checked", 1, 0), "used": ("used", 1, 0), "misjudged": ("checked and not used, %", 100, 1),
            "cpu_ms": ("server's CPU, ms a token", 1, 3), "guesses": ("guesses", 1, 0),
            "first": ("first guess right, %", 100, 1), "third": ("third, given those before, %", 100, 1),
            "each": ("each, given those before, %", 100, 1), "tau": ("tokens a step", 1, 2)}


@dataclasses.dataclass
class Section:
    """What one claim's function found."""
    traffic: str    # what was sent
    runs: dict      # {setting: [{measure: value} of each round]}
    measures: str   # those to show, by their names in MEASURES
    pairs: list     # (setting, setting): the second is told against the first


class Lab:
    """Starts servers and sends them traffic."""

    def __init__(self, args, model):
        self.args, self.model, self.sizes = args, model, args.sizes
        self.prompts = load_prompts(args.prompts, seed=1)
        self.salts = map(str, itertools.count())

    def dspark(self, *flags, threads=None):
        return Served([DSPARK, "serve", "-m", self.model, "--threads", threads or self.args.threads, "--isa", self.args.isa,
                       "--kv-memory", self.sizes.kv_memory, "--cache-prealloc-ratio", 1, *flags])

    def alternate(self, settings, measure, rounds=None):
        """{setting: [measure(setting) of each round]}."""
        found = {setting: [] for setting in settings}
        for turn in range(rounds or self.sizes.rounds):
            for setting in (*settings[turn % len(settings):], *settings[:turn % len(settings)]):
                started = time.monotonic()
                found[setting].append(measure(setting))
                print(f"  {setting}: {time.monotonic() - started:.0f} s", file=sys.stderr)
        return found

    def fresh(self, server, **change):
        """Where to send a run with these settings: with a salt of its own."""
        server.target.one_chat([{"role": "user", "content": "Say hello."}], SETTLE_TOKENS, cache_salt="settle")
        if change:
            server.post("/api/v1/config", change)
        return Target(server.port, cache_salt=next(self.salts))

    def load(self, server, conversations, clients, answer, **change):
        """The numbers of a closed loop."""
        return numbers(closed_loop(self.fresh(server, **change), conversations, clients, answer).replies)

    def documents(self, server, count, tokens, shared=""):
        """First turns of about so many tokens."""
        return [[{"role": "user", "content": shared + long_text(server, self.prompts, tokens, i) + "\nSummarise this."}]
                for i in range(count)]


def numbers(replies):
    """What the sweep says of a load, and what it does not."""
    failed = next((r for r in replies if not r.ok), None)
    if failed:
        sys.exit(f"a request failed: {failed.status} {failed.error}")
    seconds = max(r.sent + r.last for r in replies) - min(r.sent for r in replies)
    times = {"ttft": [r.first for r in replies], "itl": [gap for r in replies for gap in r.gaps()],
             "e2e": [r.last for r in replies]}
    prompt = sum(r.usage["prompt_tokens"] for r in replies)
    cached = sum(r.usage["prompt_tokens_details"]["cached_tokens"] for r in replies)
    return (summary(LoadResult(replies, seconds, 0.0)) | {"prompt_tokens": prompt, "reuse": cached / prompt}
            | {f"{name}_variance": statistics.pvariance(values) for name, values in times.items()})


def talk(target, conversations, answer):
    """[replies of all conversations to each turn]: they run side by side, each turn with all that was said before it."""
    async def one(opening, questions):
        turns, replies = list(opening), []
        for question in questions:
            turns.append({"role": "user", "content": question})
            replies.append(read_reply(*await target.chat(turns, answer)))
            turns.append({"role": "assistant", "content": replies[-1].text})
        return replies

    async def everybody():
        return await asyncio.gather(*(one(*conversation) for conversation in conversations))

    return list(zip(*asyncio.run(everybody())))


class Guesses:
    """Counts a server's guesses in a block; since() adds them to a run."""

    def __init__(self, server):
        self.server, self.before = server, self._counts(server)

    @staticmethod
    def _counts(server):
        return [server.metric(f"vllm:spec_decode_num_{kind}_tokens_total") for kind in ("draft", "accepted")]

    def since(self):
        checked, used = (now - then for now, then in zip(self._counts(self.server), self.before))
        return {"checked": checked, "used": used, "misjudged": 1 - used / checked if checked else 0.0}


# The claims. Each docstring's first line is the claim.


def planned(lab):
    """301, 241, 194 tokens a second for a user at 16, 60, 96 sequences; planned against fixed five −1.5, +5.4, +11.0 %"""
    runs, pairs = {}, []
    with lab.dspark() as server:
        for clients in lab.sizes.clients:
            work = lab.prompts[:clients]
            found = lab.alternate(("fixed:5", "planned"),
                                  lambda mode: lab.load(server, work, clients, lab.sizes.answer, dspark_mode=mode))
            runs |= {f"{clients} clients, {mode}": rounds for mode, rounds in found.items()}
            pairs.append((f"{clients} clients, fixed:5", f"{clients} clients, planned"))
    return Section(f"Prompts of all sets in turn, one for each client; answers of up to {lab.sizes.answer} tokens.", runs,
                   "user_tokens_per_second tokens_per_second itl_p99", pairs)


def reuse(lab):
    """KV reuse of 68 to 73 % at 4,000 tokens in and 512 out"""
    s, turns = lab.sizes, 4
    shared = s.reuse_prompt // 4
    each = (s.reuse_prompt - shared) // turns - s.reuse_answer
    with lab.dspark() as server:
        system = [{"role": "system", "content": long_text(server, lab.prompts, shared, 9999)}]
        talks = [(system, [long_text(server, lab.prompts, each, turns * i + turn) for turn in range(turns)])
                 for i in range(s.reuse_clients)]
        runs = {f"turn {i + 1}": [numbers(replies)]
                for i, replies in enumerate(talk(Target(server.port), talks, s.reuse_answer))}
        runs["all, by `dflash_kv_reuse_rate`"] = [{"prompt_tokens": server.metric("vllm:prompt_tokens_total"),
                                                   "reuse": server.metric("dflash_kv_reuse_rate")}]
    return Section(f"{s.reuse_clients} conversations of {turns} turns side by side, behind one system prompt of {shared} "
                   f"tokens; each turn brings about {each} new tokens and an answer of up to {s.reuse_answer}; the last "
                   f"has about {s.reuse_prompt} tokens in.", runs, "prompt_tokens reuse", [])


def crowd(lab):
    """P50 −33 %, P99 −44 %, throughput +62 % at 128 clients with 1,280 in and 512 out"""
    s = lab.sizes
    with lab.dspark() as server:
        work = lab.documents(server, s.crowd, s.crowd_prompt)
        runs = lab.alternate(("off", "planned"),
                             lambda mode: lab.load(server, work, s.crowd, s.crowd_answer,
                                                   enable_dspark="off" if mode == "off" else "auto"))
    return Section(f"{s.crowd} clients at once (96 run, the others wait), each with one prompt of about {s.crowd_prompt} "
                   f"tokens and an answer of up to {s.crowd_answer}.", runs,
                   "tokens_per_second itl_p50 itl_p99 ttft_p50 ttft_p99 e2e_p50 e2e_p99", [("off", "planned")])


def policy(lab):
    """latency variance −63 % by the scheduler"""
    s, clients = lab.sizes, 16
    with lab.dspark() as server:
        shared = long_text(server, lab.prompts, s.mixed_prompt // 2, 9999)
        long = lab.documents(server, s.mixed_requests // 4, s.mixed_prompt // 2, shared)
        short = iter(lab.prompts)
        work = [long[i // 4] if i % 4 == 3 else next(short) for i in range(s.mixed_requests)]
        runs = lab.alternate(("hit-rate", "latency-aware", "hybrid"),
                             lambda name: lab.load(server, work, clients, s.answer // 2, dspark_scheduler_policy=name))
    return Section(f"{clients} clients, {s.mixed_requests} requests, every fourth of about {s.mixed_prompt} tokens, half of "
                   f"which those share, the others of all sets in turn; answers of up to {s.answer // 2} tokens.", runs,
                   "ttft_variance itl_variance e2e_variance ttft_p50 ttft_p99 itl_p99 tokens_per_second",
                   [("hit-rate", "hybrid"), ("latency-aware", "hybrid")])


def warmup(lab):
    """first request −40 to −60 % by warm-up"""
    found = warm_up(lab, lab.prompts, lab.sizes.rounds + 1)
    runs = {how: [{"ttft_p50": seconds} for seconds in times["runs"]] for how, times in found.items()}
    return Section("The first request after the start, behind a system prompt of 1,000 tokens, which is in "
                   "`--cache-warmup-file` (warm) or not (cold).", runs, "ttft_p50", [("cold", "warm")])


def window(lab):
    """window 2,048 → 3,072: +5 % reuse, +18 ms P99"""
    s = lab.sizes

    def measure(positions):
        target, guesses = lab.fresh(server, dflash_window_size=positions), Guesses(server)
        replies = [reply for turn in talk(target, talks, s.answer) for reply in turn]
        return numbers(replies) | guesses.since()

    with lab.dspark() as server:
        talks = [((), [long_text(server, lab.prompts, s.window_prompt, i) + "\nSummarise this.", "And in one sentence?"])
                 for i in range(s.window_clients)]
        runs = lab.alternate((2048, 3072), measure)
    return Section(f"{s.window_clients} conversations of two turns side by side, the first of about {s.window_prompt} "
                   f"tokens; answers of up to {s.answer}. `dflash_window_size` is changed while the server runs.", runs,
                   "reuse itl_p50 itl_p99 checked used misjudged", [(2048, 3072)])


def threshold(lab):
    """threshold 0.72 → 0.68: +9 % drafts used, misjudged 1.2 → 3.7 %"""
    s, clients = lab.sizes, 4

    def measure(value):
        target, guesses = lab.fresh(server, dflash_validation_threshold=value), Guesses(server)
        return numbers(closed_loop(target, lab.prompts[:s.few_requests], clients, s.answer).replies) | guesses.since()

    with lab.dspark() as server:
        runs = lab.alternate((0.72, 0.68), measure, 2 * s.rounds)
    return Section(f"{clients} clients, {s.few_requests} requests, prompts of all sets in turn, answers of up to {s.answer} "
                   "tokens. `dflash_validation_threshold` is changed while the server runs.", runs,
                   "checked used misjudged tokens_per_second", [(0.72, 0.68)])


def monitoring(lab):
    """metrics and health checks cost 2 % of CPU"""
    s, clients = lab.sizes, 8
    flags = {"without": ("--no-enable-metrics",), "with": ("--enable-metrics", "--enable-health-check")}
    work = lab.prompts[:s.few_requests]

    def measure(how):
        server, target = servers[how], lab.fresh(servers[how])
        with Monitor(server) if how == "with" else contextlib.nullcontext():
            before = cpu_seconds(server.process.pid)
            found = numbers(closed_loop(target, work, clients, s.answer).replies)
            spent = cpu_seconds(server.process.pid) - before
        return found | {"cpu_ms": 1e3 * spent / found["output_tokens"]}

    runs = {how: [] for how in flags}
    with contextlib.ExitStack() as stack:  # a plan of guesses would make the work depend on the time
        servers = {how: stack.enter_context(lab.dspark("--enable-dspark", "off", *flags[how], threads=1)) for how in flags}
        both = stack.enter_context(concurrent.futures.ThreadPoolExecutor(len(flags)))
        for _ in range(4 * s.rounds):
            for how, found in zip(flags, both.map(measure, flags)):
                runs[how].append(found)
        before = cpu_seconds(servers["with"].process.pid)
        for _ in range(ASKED):
            Monitor.ask(servers["with"])
        ask_ms = 1e3 * (cpu_seconds(servers["with"].process.pid) - before) / ASKED
    return Section(f"{clients} clients, {s.few_requests} requests, answers of up to {s.answer} tokens, without guesses. Both "
                   "servers at the same time, of one thread each, so that the machine's moods hit both. With "
                   "`--enable-metrics --enable-health-check`, `/metrics` and `/health` are asked once a second, against "
                   f"`--no-enable-metrics`. To answer both once takes {ask_ms:.2f} ms of the server's CPU.", runs, "cpu_ms tokens_per_second", [("without", "with")])


def acceptance(lab):
    """75 % acceptance, by task"""
    s, files = lab.sizes, sorted(lab.args.prompts.glob("*.jsonl"))
    found = json.loads(run([DSPARK, "eval", "-m", lab.model, "--threads", lab.args.threads, "--temp", 0, "--limit",
                            s.eval_prompts, "-n", s.eval_answer, "--json",
                            *(word for file in files for word in ("--prompts", file))]))

    def quality(entry):
        places = entry["positions"]
        tried, right = (sum(p[key] for p in places) for key in ("reached", "accepted"))
        return [{"guesses": tried, "first": places[0]["acceptance"], "third": places[2]["acceptance"],
                 "each": right / max(1, tried), "tau": entry["tau"]}]

    runs = {f"{entry['name']} ({entry['bucket']})": quality(entry) for entry in found["sets"]}
    return Section(f"`dspark eval --temp 0`: at most {s.eval_prompts} prompts of each set, answers of up to {s.eval_answer} "
                   "tokens, whole blocks of 7 guesses checked in every step; the machine's speed changes nothing here.",
                   runs | {"all": quality(found["all"])}, "guesses first third each tau", [])


def cpu_seconds(pid):
    """Of all threads of a process, user's and system's."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Monitor:
    """Asks a server for metrics and health once a second until the end of the block."""

    def __init__(self, server):
        self.server, self.over = server, threading.Event()
        self.thread = threading.Thread(target=self._ask)

    def _ask(self):
        while not self.over.wait(1):
            with contextlib.suppress(OSError):  # a machine under strain: 503
                self.ask(self.server)

    @staticmethod
    def ask(server):
        server.get("/metrics")
        server.get("/health")

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


CLAIMS = {claim.__name__: claim for claim in (planned, reuse, crowd, policy, warmup, window, threshold, monitoring,
                                               acceptance)}


def evaluated(claim, section):
    """A section as it is written: medians, spreads, and changes round by round."""
    keys = section.measures.split()
    of = lambda setting, key: [r[key] for r in section.runs[setting]]
    change = lambda a, b, key: [100 * (y / x - 1) for x, y in zip(of(a, key), of(b, key)) if x]
    return {"claim": claim.__doc__.splitlines()[0], "traffic": section.traffic, "runs": section.runs,
            "found": {setting: {key: median_spread(of(setting, key)) for key in keys} for setting in section.runs},
            "changes": [{"from": a, "to": b, "percent": {key: median_spread(percent) for key in keys
                                                         if (percent := change(a, b, key))}} for a, b in section.pairs]}


def spread(value, factor, digits, sign=""):
    show = lambda x: f"{factor * x:{sign}.{digits}f}"
    return show(value["median"]) + (f" ({show(value['min'])} to {show(value['max'])})" if len(value["runs"]) > 1 else "")


def markdown(report):
    m, sizes = report["machine"], report["sizes"]
    lines = [f"# Claims under load, {report['isa']}", "",
             f"{m['cpu']} (family, model, stepping {m['family_model_stepping']}), {m['cores']} cores, "
             f"{report['threads']} threads; commit {m['commit']}, {m['date']}; load before the run "
             f"{m['load_before'][0]:.2f}; {report['minutes']:.1f} minutes. SmolLM2-135M-Instruct Q4_1 with the shipped "
             f"drafter, temperature 0, {sizes['rounds']} rounds at least in alternation; medians, spread in brackets; "
             f"changes are those of each round. Made by `make bench-claims`{report['size']}; [claims.md](../claims.md) says "
             "what to make of it.", ""]
    for name, entry in report["claims"].items():
        keys = list(next(iter(entry["found"].values())))
        later = f" Measured at commit {entry['commit']}." if entry.get("commit", m["commit"]) != m["commit"] else ""
        lines += [f"## {name}", "", f"Claim: {entry['claim']}.", "", entry["traffic"] + later, "",
                  "| | " + " | ".join(MEASURES[key][0] for key in keys) + " |", "|---|" + "---|" * len(keys)]
        for setting, values in entry["found"].items():
            lines.append(f"| {setting} | " + " | ".join(spread(values[k], *MEASURES[k][1:]) for k in keys) + " |")
        for change in entry["changes"]:
            cells = (spread(change["percent"][k], 1, 1, "+") + " %" if k in change["percent"] else "" for k in keys)
            lines.append(f"| *{change['from']} → {change['to']}* | " + " | ".join(cells) + " |")
        lines.append("")
    return "\n".join(lines)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--full", dest="sizes", action="store_const", const=FULL, default=Sizes())
    size.add_argument("--tiny", dest="sizes", action="store_const", const=TINY)
    parser.add_argument("--only", default=list(CLAIMS), type=lambda t: t.split(","), help=", ".join(CLAIMS))
    parser.add_argument("--prompts", type=pathlib.Path, default=ROOT / ".." / "shared" / "data" / "prompts")
    parser.add_argument("--isa", default="auto")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs" / "benchmarks")
    args = parser.parse_args()
    if unknown := set(args.only) - set(CLAIMS):
        parser.error(f"no claim is called {', '.join(sorted(unknown))}; there are {', '.join(CLAIMS)}")
    return args


def main():
    args = parse_arguments()
    info, started = machine(), time.monotonic()
    run([DSPARK, "pull", "smollm2-135m"])
    args.isa = isa_in_use(args.isa)
    lab = Lab(args, run([DSPARK, "models", "--path", "smollm2-135m"]).strip())
    claims = {}
    for name in args.only:
        print(f"{(time.monotonic() - started) / 60:.1f} min: {name}", file=sys.stderr)
        claims[name] = evaluated(CLAIMS[name], CLAIMS[name](lab)) | {"commit": info["commit"]}
    report = {"machine": info, "isa": args.isa, "threads": args.threads, "minutes": (time.monotonic() - started) / 60,
              "size": {id(FULL): " with `--full`", id(TINY): " with `--tiny`"}.get(id(args.sizes), ""),
              "sizes": dataclasses.asdict(args.sizes), "claims": claims}
    report = json.loads(json.dumps(report))  # keys as they are read back
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / f"claims-{args.isa}.json"
    if len(args.only) < len(CLAIMS) and path.exists():  # the others stay as they were measured
        before = json.loads(path.read_text())
        report = before | {"claims": before["claims"] | report["claims"]}
    path.write_text(json.dumps(report, indent=1) + "\n")
    (args.out / f"claims-{args.isa}.md").write_text(markdown(report))
    print(markdown(report))


if __name__ == "__main__":
    main()
