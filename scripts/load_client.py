"""A light load client for OpenAI servers: many streaming chats at once on one asyncio thread.

It shares its cores with the server that it measures, so while it runs it only notes when bytes came; what they say is
read afterwards. No HTTP library, one connection a request.
"""
import asyncio
import dataclasses
import itertools
import json
import random
import ssl
import time
import urllib.parse


@dataclasses.dataclass
class Reply:
    """What came back: times in seconds since the request was sent."""
    sent: float                 # on the clock of time.perf_counter
    status: int = 0
    token_times: list = dataclasses.field(default_factory=list)
    text: str = ""
    usage: dict = dataclasses.field(default_factory=dict)
    error: str = ""

    @property
    def ok(self):
        return self.status == 200 and not self.error and bool(self.token_times)

    @property
    def first(self):
        return self.token_times[0]

    @property
    def last(self):
        return self.token_times[-1]

    @property
    def tokens(self):
        return self.usage.get("completion_tokens", len(self.token_times))

    def gaps(self):
        return [b - a for a, b in zip(self.token_times, self.token_times[1:])]


class _Connection(asyncio.Protocol):
    """One request; collects (time, bytes)."""

    def __init__(self, request):
        self.request, self.pieces, self.sent = request, [], 0.0
        self.done = asyncio.get_running_loop().create_future()

    def connection_made(self, transport):
        self.sent = time.perf_counter()
        transport.write(self.request)

    def data_received(self, data):
        self.pieces.append((time.perf_counter(), data))

    def connection_lost(self, exc):
        if not self.done.done():
            self.done.set_result(exc)


def _events(pieces):
    """(time, text) of each server-sent event, from a response in chunks; the time is that of its last byte."""
    buffer, body_begun, left, out, event = b"", False, 0, [], b""
    for when, data in pieces:
        buffer += data
        if not body_begun:
            head, found, rest = buffer.partition(b"\r\n\r\n")
            if not found:
                continue
            body_begun, buffer = True, rest
        while buffer:
            if left == 0:
                size, found, rest = buffer.partition(b"\r\n")
                if not found:
                    break
                left, buffer = int(size, 16) + 2, rest  # with the line's end behind the chunk
                if left == 2:
                    return out
            take, buffer = buffer[:left], buffer[left:]
            event += take[:max(0, left - 2)]
            left -= len(take)
            while b"\n\n" in event:
                text, _, event = event.partition(b"\n\n")
                out.append((when, text.decode("utf-8", "replace").removeprefix("data: ")))
    return out


def read_reply(sent, pieces):
    reply = Reply(sent)
    raw = b"".join(data for _, data in pieces)
    if not raw.startswith(b"HTTP/1.1 "):
        reply.error = "no answer"
        return reply
    reply.status = int(raw[9:12])
    if reply.status != 200:
        reply.error = raw.partition(b"\r\n\r\n")[2].decode("utf-8", "replace")[:300]
        return reply
    for when, text in _events(pieces):
        if text == "[DONE]":
            break
        if text.startswith(":"):  # a comment, by which llama-server shows that it is still there
            continue
        event = json.loads(text)
        if "error" in event:
            reply.error = json.dumps(event["error"])
            break
        reply.usage = event.get("usage") or reply.usage
        for choice in event.get("choices", []):
            delta = choice.get("delta", {})
            if isinstance(delta.get("content"), str) and "role" not in delta and choice.get("finish_reason") is None:
                reply.token_times.append(when - sent)
                reply.text += delta["content"]
    return reply


class Target:
    """Where requests go; `more` belongs to every request."""

    def __init__(self, port, host="127.0.0.1", path="", tls=False, api_key="", **more):
        self.host, self.port, self.path, self.api_key, self.more = host, port, path, api_key, more
        self.tls = ssl.create_default_context() if tls else None

    @classmethod
    def of_url(cls, url, api_key="", **more):
        parts = urllib.parse.urlsplit(url)
        tls = parts.scheme == "https"
        return cls(parts.port or (443 if tls else 80), parts.hostname, parts.path.rstrip("/"), tls, api_key, **more)

    def _bytes(self, path, body, task):
        payload = json.dumps(body).encode()
        kind = f"X-Task: {task}\r\n" if task else ""
        key = f"Authorization: Bearer {self.api_key}\r\n" if self.api_key else ""
        return (f"POST {self.path}{path} HTTP/1.1\r\nHost: {self.host}\r\nContent-Type: application/json\r\n{key}{kind}"
                f"Content-Length: {len(payload)}\r\nConnection: close\r\n\r\n").encode() + payload

    async def chat(self, messages, max_tokens, task="", **more):
        """(time sent, pieces) of a streamed chat; read_reply makes a Reply of it. `task`: its kind, if the server cares."""
        body = {"messages": messages, "max_tokens": max_tokens, "temperature": 0, "stream": True,
                "stream_options": {"include_usage": True}} | self.more | more
        request = self._bytes("/v1/chat/completions", body, task)
        _, protocol = await asyncio.get_running_loop().create_connection(lambda: _Connection(request), self.host,
                                                                         self.port, ssl=self.tls)
        await protocol.done
        return protocol.sent, protocol.pieces

    def one_chat(self, messages, max_tokens, **more):
        return read_reply(*asyncio.run(self.chat(messages, max_tokens, **more)))


@dataclasses.dataclass
class LoadResult:
    replies: list
    seconds: float
    client_cpu_seconds: float


def _measured(work):
    """Runs `work`, which adds what it gets to a list."""
    async def run():
        out, start, cpu = [], time.perf_counter(), time.process_time()
        await work(out)
        return out, time.perf_counter() - start, time.process_time() - cpu

    raw, seconds, cpu = asyncio.run(run())
    return LoadResult([read_reply(*one) for one in raw], seconds, cpu)


def closed_loop(target, conversations, clients, max_tokens, tasks=()):
    """Each client sends its next conversation when it has the answer to its last; all conversations are sent once, in
    order. `tasks`: the kind of each, or nothing."""
    async def work(out):
        waiting = iter(itertools.zip_longest(conversations, tasks, fillvalue=""))

        async def client():
            for messages, task in waiting:
                out.append(await target.chat(messages, max_tokens, task))

        await asyncio.gather(*(client() for _ in range(clients)))

    return _measured(work)


def poisson_arrivals(target, conversations, rate, max_tokens, seed=1, tasks=()):
    """Sends each conversation when its time has come, whatever runs: `rate` a second on average, gaps exponential."""
    draw = random.Random(seed)

    async def work(out):
        async def ask(messages, task, delay):
            await asyncio.sleep(delay)
            out.append(await target.chat(messages, max_tokens, task))

        delay, waiting = 0.0, []
        for messages, task in itertools.zip_longest(conversations, tasks, fillvalue=""):
            delay += draw.expovariate(rate)
            waiting.append(ask(messages, task, delay))
        await asyncio.gather(*waiting)

    return _measured(work)
