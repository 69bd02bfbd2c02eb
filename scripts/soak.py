#!/usr/bin/env python3
"""Soaks `dspark serve`: many clients, mixed requests, random hang-ups, for minutes. At the end nothing may be left.

Fails if resident memory grows by more than 2 % over the second half of the run, if a request is stuck, if an answer to
the same question ever differs, or if the KV cache's accounting is not closed.
Usage: scripts/soak.py [--seconds 600] [--clients 96] [--command build/dspark] [--model MODEL] [--memory SIZE] [--flags ...]
With a build of `make tsan` or `make asan` as --command, --no-memory leaves out the check of resident memory. The real
model needs about 150 MB besides --memory, and a context that fits in it:
--model smollm2-135m --memory 256MiB --flags="--context 2048"
"""
import argparse
import asyncio
import json
import pathlib
import random
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
import serving  # noqa: E402

BEGINNINGS = ["You are a helpful assistant. ", "Write a short story. " * 8, "def f(x):\n    return " * 20, "1 2 3 4 "]


def make_request(draw):
    """Path and body of one of a few hundred different requests, all with seeds."""
    number = draw.randrange(300)
    own = random.Random(number)
    body = {"max_tokens": own.choice((1, 5, 20, 60, 150)), "seed": number, "temperature": own.choice((0, 0.7, 1.5)),
            "n": own.choice((1, 1, 1, 2, 4)), "ignore_eos": own.random() < 0.3}
    if own.random() < 0.2:
        body |= {"presence_penalty": 0.5, "repetition_penalty": 1.1}
    if own.random() < 0.2:
        body["stop"] = ["the", "\n"]
    text = own.choice(BEGINNINGS) + f"{number} " * own.choice((1, 5, 20))
    if own.random() < 0.1:
        return number, "/v1/embeddings", {"input": text}
    if own.random() < 0.5:
        return number, "/v1/completions", body | {"prompt": text, "echo": own.random() < 0.1}
    if own.random() < 0.3:
        body |= {"logprobs": True, "top_logprobs": 2}
    return number, "/v1/chat/completions", body | {"messages": [{"role": "user", "content": text}]}


class Soak:
    def __init__(self, port):
        self.port, self.answers, self.differs = port, {}, []
        self.done = self.left = 0
        self.statuses = {}

    async def client(self, seed, until):
        draw = random.Random(seed)
        while time.monotonic() < until:
            number, path, body = make_request(draw)
            body = dict(body)
            if path != "/v1/embeddings":
                body["stream"] = draw.random() < 0.5
            leave = draw.random() < 0.25
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            try:
                writer.write(serving.post_bytes(path, body, headers="Connection: close\r\n"))
                if leave:
                    try:
                        await asyncio.wait_for(reader.read(), draw.random() * 2)
                    except asyncio.TimeoutError:
                        pass
                    self.left += 1
                    continue
                answer = await asyncio.wait_for(reader.read(), 600)
                self.done += 1
                self.keep(number, answer, body.get("stream", False))
            finally:
                writer.close()

    def keep(self, number, answer, stream):
        status = int(answer[9:12])
        self.statuses[status] = self.statuses.get(status, 0) + 1
        if stream or status != 200:
            return
        parsed = json.loads(answer.partition(b"\r\n\r\n")[2])
        content = json.dumps(parsed.get("choices") or parsed["data"])
        content = content.replace(parsed["id"].removeprefix("chatcmpl-"), "")  # ids of tool calls
        if self.answers.setdefault(number, content) != content:
            self.differs.append(number)


async def watch(server, samples, until):
    while time.monotonic() < until:
        samples.append((time.monotonic(), server.resident_bytes()))
        await asyncio.sleep(1)


async def run(server, args, samples):
    soak, until = Soak(server.port), time.monotonic() + args.seconds
    await asyncio.gather(watch(server, samples, until), *(soak.client(args.seed + i, until) for i in range(args.clients)))
    return soak


def growth(samples):
    """Of the last tenth of the run against the tenth behind its middle."""
    size = [bytes_ for _, bytes_ in samples]
    tenth = max(1, len(size) // 10)
    middle = len(size) // 2
    return statistics.median(size[-tenth:]) / statistics.median(size[middle:middle + tenth]) - 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--clients", type=int, default=96)
    parser.add_argument("--command", default=str(ROOT / "build/dspark"))
    parser.add_argument("--model", default=str(serving.TINY), help="path or name; a small model stresses the server most")
    parser.add_argument("--memory", default="8MiB", help="KV memory; little, so that it is evicted and preempted")
    parser.add_argument("--flags", default="", help="more flags of dspark serve")
    parser.add_argument("--no-memory", action="store_true", help="do not judge resident memory")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    samples = []
    model = args.model
    if not pathlib.Path(model).exists():
        model = subprocess.run([args.command, "models", "--path", model], check=True, capture_output=True,
                               text=True).stdout.strip()
    with serving.Server(args.command, "--cache-prealloc-ratio", "1", *args.flags.split(), model=model,
                        memory=args.memory) as server:
        soak = asyncio.run(run(server, args, samples))
        cache = server.wait_until_idle(seconds=300)
        preemptions = server.metric("vllm:num_preemptions_total")
    grown = growth(samples)
    print(f"{soak.done} requests answered {soak.statuses}, {soak.left} left by their clients, {preemptions:.0f} preemptions, "
          f"{cache['counters']['evictions']} evictions; resident memory {samples[-1][1] / 1e6:.0f} MB, "
          f"{100 * grown:+.2f} % in the second half; accounting {cache['accounting']}")
    if soak.differs:
        sys.exit(f"answers differ for the requests {sorted(set(soak.differs))[:10]}")
    if set(soak.statuses) - {200}:
        sys.exit("expected the status 200 only")
    if grown > 0.02 and not args.no_memory:
        sys.exit("resident memory grew by more than 2 %")


if __name__ == "__main__":
    main()
