#!/usr/bin/env python3
"""Checks the golden greedy tokens of the default model against transformers, where its choice is clear.

    VENV/bin/python scripts/goldens/check_greedy.py [MODEL.gguf]

Reads tests/data/smollm2/prompts.json and greedy.json (a list of {"name", "prompt_tokens", "tokens"}, made by our
engine). The prompt tokens must be what the model's chat template and tokenizer give for the messages. Then transformers
reads prompt and answer at once, so that one near tie does not part the ways, and at every position the engine's token
must be the argmax or lie within TIE of it. Logits here have float activations, the engine's are rounded to int8: TIE is
six times the root mean square of what that rounding changes (logits.json).
"""

import json
import pathlib
import sys

import jinja2
import numpy as np

import quantised
from smollm2 import DATA, chat_template, default_path, load_model, load_tokenizer


def main() -> None:
    path = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default_path()
    folder = DATA / "smollm2"
    tie = 6 * json.loads((folder / "logits.json").read_text())["rounding_rms"]
    messages = {p["name"]: p["messages"] for p in json.loads((folder / "prompts.json").read_text())}
    golden = json.loads((folder / "greedy.json").read_text())
    model, tokenizer = load_model(path), load_tokenizer(path)
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(chat_template(path))
    failed = sorted(g["name"] for g in golden) != sorted(messages)
    if failed:
        print("greedy.json and prompts.json name different prompts")
    for entry in golden:
        text = template.render(messages=messages[entry["name"]], add_generation_prompt=True)
        expected = tokenizer.encode(text, add_special_tokens=False).ids
        prompt, answer = entry["prompt_tokens"], entry["tokens"]
        logits = quantised.run(model, prompt + answer)[len(prompt) - 1 : -1]
        behind = logits.max(-1) - logits[np.arange(len(answer)), answer]
        wrong = [i for i, gap in enumerate(behind) if gap > tie]
        failed |= bool(wrong) or prompt != expected
        print(f"{entry['name']}: {int((behind == 0).sum())} of {len(answer)} are the argmax, farthest behind "
              f"{behind.max():.2f} (allowed {tie:.2f})" + (f", wrong at {wrong}" if wrong else "")
              + ("" if prompt == expected else ", prompt tokens differ"))
        print("  " + repr(tokenizer.decode(answer, skip_special_tokens=False)))
    sys.exit(failed)


if __name__ == "__main__":
    main()
