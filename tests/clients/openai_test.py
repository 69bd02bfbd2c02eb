#!/usr/bin/env python3
"""The `openai` Python client against `dspark serve` with the default model: what it sends must be understood, and what
comes back must be what it expects. Run by scripts/test-clients.sh, in an environment that has the client.

    tests/clients/openai_test.py build/dspark MODEL
"""

import asyncio
import hashlib
import json
import pathlib
import sys
import tempfile
import unittest

import openai

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import serving  # noqa: E402

COMMAND = MODEL = ""
QUESTION = [{"role": "user", "content": "Name three colours."}]
TOOLS = [{"type": "function", "function": {
    "name": "get_weather", "description": "The weather of a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}]


def tool_conversation():
    """Examples enough that even a small model calls the tool."""
    messages = [{"role": "system", "content": "You call tools. Answer with a tool call only."}]
    for city in ("Rome", "Berlin", "Madrid", "London"):
        call = json.dumps({"name": "get_weather", "arguments": {"city": city}})
        messages += [{"role": "user", "content": f"Weather in {city}?"},
                     {"role": "assistant", "content": f"<tool_call>\n{call}\n</tool_call>"}]
    return messages + [{"role": "user", "content": "Weather in Paris?"}]


class OpenAiClient(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        keys = pathlib.Path(cls.folder.name) / "keys.json"
        keys.write_text(json.dumps({"keys": [{"sha256": hashlib.sha256(b"sesame").hexdigest(), "tenant": "t",
                                              "rights": ["admin"]}]}))
        cls.server = serving.Server(COMMAND, "--api-keys", keys, model=MODEL, memory="1GiB")
        cls.url = f"http://127.0.0.1:{cls.server.port}/v1"
        cls.client = openai.OpenAI(base_url=cls.url, api_key="sesame", max_retries=0)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        cls.server.wait_until_idle({"Authorization": "Bearer sesame"})
        cls.server.__exit__()
        cls.folder.cleanup()

    def chat(self, **more):
        return self.client.chat.completions.create(
            **({"model": "tiny", "messages": QUESTION, "max_tokens": 24, "temperature": 0} | more))

    def test_models(self):
        self.assertEqual([model.id for model in self.client.models.list()], ["tiny"])
        self.assertEqual(self.client.models.retrieve("tiny").owned_by, "dspark")

    def test_chat_and_its_stream_are_equal(self):
        whole = self.chat()
        self.assertIn(whole.choices[0].finish_reason, ("stop", "length"))
        self.assertEqual(whole.usage.total_tokens, whole.usage.prompt_tokens + whole.usage.completion_tokens)
        text, usage = "", None
        for chunk in self.chat(stream=True, stream_options={"include_usage": True}):
            text += "".join(choice.delta.content or "" for choice in chunk.choices)
            usage = chunk.usage or usage
        self.assertEqual(text, whole.choices[0].message.content)
        self.assertEqual(usage.completion_tokens, whole.usage.completion_tokens)

    def test_seeds_choices_and_logprobs(self):
        first = self.chat(n=3, temperature=1, seed=17, logprobs=True, top_logprobs=2)
        again = self.chat(n=3, temperature=1, seed=17, logprobs=True, top_logprobs=2)
        self.assertEqual([c.message.content for c in first.choices], [c.message.content for c in again.choices])
        self.assertEqual(first.system_fingerprint, again.system_fingerprint)
        content = first.choices[0].logprobs.content
        self.assertEqual("".join(token.token for token in content), first.choices[0].message.content)
        self.assertTrue(all(len(token.top_logprobs) == 2 and token.logprob <= 0 for token in content))

    def test_completions(self):
        answer = self.client.completions.create(model="tiny", prompt=["One, two,", "A, B,"], max_tokens=8, logprobs=1,
                                                echo=True, stop=["\n\n"], temperature=0)
        self.assertEqual([choice.text[:5] for choice in answer.choices], ["One, ", "A, B,"])
        self.assertIsNone(answer.choices[0].logprobs.token_logprobs[0])

    def test_tools(self):
        answer = self.chat(messages=tool_conversation(), tools=TOOLS, max_tokens=60)
        self.assertEqual(answer.choices[0].finish_reason, "tool_calls")
        call = answer.choices[0].message.tool_calls[0]
        self.assertEqual((call.function.name, json.loads(call.function.arguments)), ("get_weather", {"city": "Paris"}))
        arguments = ""
        for chunk in self.chat(messages=tool_conversation(), tools=TOOLS, max_tokens=60, stream=True):
            for delta in chunk.choices[0].delta.tool_calls or []:
                arguments += delta.function.arguments or ""
        self.assertEqual(json.loads(arguments), {"city": "Paris"})
        back = tool_conversation() + [answer.choices[0].message.model_dump(exclude_none=True),
                                      {"role": "tool", "tool_call_id": call.id, "content": "sunny"}]
        self.assertTrue(self.chat(messages=back, tools=TOOLS, tool_choice="none").choices)

    def test_embeddings(self):
        floats = self.client.embeddings.create(model="tiny", input=["red", "blue"], encoding_format="float")
        packed = self.client.embeddings.create(model="tiny", input="red")  # the client asks for base64 by itself
        self.assertEqual(len(floats.data), 2)
        for a, b in zip(floats.data[0].embedding, packed.data[0].embedding):
            self.assertAlmostEqual(a, b, places=6)
        self.assertAlmostEqual(sum(x * x for x in floats.data[1].embedding), 1, places=4)

    def test_errors_have_their_classes(self):
        for arguments, kind, code in (({"temperature": -1}, openai.BadRequestError, "invalid_value"),
                                      ({"model": "gpt-4"}, openai.NotFoundError, "model_not_found"),
                                      ({"response_format": {"type": "json_object"}}, openai.BadRequestError,
                                       "unsupported_parameter"),
                                      ({"messages": [{"role": "user", "content": "a b " * 9000}]}, openai.BadRequestError,
                                       "context_length_exceeded")):
            with self.assertRaises(kind) as caught:
                self.chat(**arguments)
            self.assertEqual(caught.exception.code, code)
        with self.assertRaises(openai.AuthenticationError):
            openai.OpenAI(base_url=self.url, api_key="wrong", max_retries=0).models.list()

    def test_async_clients_together(self):
        expected = self.chat().choices[0].message.content

        async def stream(client, i):
            if i % 2 == 0:
                return (await client.chat.completions.create(model="tiny", messages=QUESTION, max_tokens=24,
                                                             temperature=0)).choices[0].message.content
            text = ""
            async for chunk in await client.chat.completions.create(model="tiny", messages=QUESTION, max_tokens=24,
                                                                    temperature=0, stream=True):
                text += chunk.choices[0].delta.content or ""
            return text

        async def run():
            async with openai.AsyncOpenAI(base_url=self.url, api_key="sesame", max_retries=0) as client:
                return await asyncio.gather(*(stream(client, i) for i in range(12)))

        self.assertEqual(asyncio.run(run()), [expected] * 12)

    def test_a_stream_may_be_left(self):
        with self.chat(stream=True, max_tokens=2000, extra_body={"ignore_eos": True}) as stream:
            next(iter(stream))
        self.server.wait_until_idle({"Authorization": "Bearer sesame"})


if __name__ == "__main__":
    COMMAND, MODEL = sys.argv.pop(1), sys.argv.pop(1)
    unittest.main()
