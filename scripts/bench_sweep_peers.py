#!/usr/bin/env python3
"""The sweep of docs/benchmarks: no guesses, five fixed ones, planned ones and llama-server, 8 to 96 clients.

What `dspark bench sweep` does with servers that run, for servers that this starts: `dspark serve` on the default model with
the shipped drafter, once, and llama-server on the same file anew for each number of clients, with a slot for each and its
reuse of prompts off, as every dspark run has a salt of its own. Writes docs/benchmarks/sweep-<isa>.md, .json and .svg.
Usage: scripts/bench_sweep_peers.py [--clients 8,...] [--rounds N] [--answer N] [--peer-rounds N] [--prompts DIR] [--out DIR] ...
Some 25 minutes on two cores, of which llama-server takes a third with one request a client in one round.
"""
import argparse
import pathlib

from bench_peers import DSPARK, ROOT, isa_in_use, machine, run
from bench_serve import Served
from bench_sweep import BUCKETS, Report, Server, header, measure, reproducibility

MODES = ["off", "fixed:5", "planned"]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", default="8,16,32,60,64,96", type=lambda t: [int(n) for n in t.split(",")])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peer-rounds", type=int, default=1, help="of llama-server")
    parser.add_argument("--peer-share", type=float, default=0.5, help="of the requests, for llama-server; one a client at least")
    parser.add_argument("--requests", type=int, default=16, help="of a point at least; two for each client")
    parser.add_argument("--answer", type=int, default=64, help="tokens an answer may have")
    parser.add_argument("--prompts", type=pathlib.Path, default=ROOT / ".." / "shared" / "data" / "prompts")
    parser.add_argument("--kv-memory", default="2GiB", help="taken at the start, as llama-server takes its own")
    parser.add_argument("--isa", default="auto")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs" / "benchmarks")
    args = parser.parse_args()
    args.modes, args.arrivals, args.dspark = MODES, "closed", str(DSPARK)
    args.prompts = [file for file in sorted(args.prompts.glob("*.jsonl")) if file.stem in BUCKETS]
    if not args.prompts:
        parser.error(f"no *.jsonl of {', '.join(BUCKETS)}; name the folder of the prompts with --prompts")
    return args


def url(served):
    return f"http://127.0.0.1:{served.port}"


def points_of(args, served, llama, clients):
    """Of one number of clients."""
    args.clients = [clients]
    ours, theirs = Server("dspark", url(served), ""), Server("llama-server", url(llama), "")
    theirs.share, theirs.rounds = args.peer_share, args.peer_rounds
    theirs.target.more["cache_prompt"] = False
    try:
        return measure(args, [ours, theirs])
    finally:
        ours.restore()


def main():
    args = parse_arguments()
    info = machine()
    run([DSPARK, "pull", "smollm2-135m"])
    args.isa = isa_in_use(args.isa)
    flavour = "avx2" if args.isa == "avx2" else "native"
    llama_bin = pathlib.Path(run([ROOT / "scripts" / "build-llama-cpp.sh", flavour]).strip())
    args.model = run([DSPARK, "models", "--path", "smollm2-135m"]).strip()
    report = header(args) | {
        "commit": info["commit"], "isa": args.isa, "points": [], "made_by":
        f"Commit {info['commit']}, {args.isa}, {args.threads} threads; llama-server is {llama_bin.parent.name} on the same file, "
        f"with {args.peer_share:g} of the requests, one a client at least, in {args.peer_rounds} of the rounds. "
        "SmolLM2-135M-Instruct Q4_1 with the shipped drafter. Made by `make bench-sweep`."}
    with Served([DSPARK, "serve", "-m", args.model, "--threads", args.threads, "--isa", args.isa,
                 "--kv-memory", args.kv_memory, "--cache-prealloc-ratio", 1]) as served:
        for clients in args.clients:
            with Served([llama_bin / "llama-server", "-m", args.model, "-t", args.threads, "-tb", args.threads,
                         "-np", clients, "-c", 1024 * clients, "--host", "127.0.0.1"]) as llama:
                report["points"] += points_of(args, served, llama, clients)
    report["reproducibility"] = reproducibility(args)
    Report(report, f"sweep-{args.isa}").write(args.out)


if __name__ == "__main__":
    main()
