#!/usr/bin/env python3
"""Writes what jinja2 makes of the templates under tests/data/templates: expected/*.json and features.json; and
the corpus of jinja_fuzz.

Run in an environment with jinja2 3.1.6 (pip install jinja2==3.1.6); nothing else is needed. See jinja_reference.py for
the environment that the templates run in.
"""
import json
import pathlib

import jinja_reference
import template_features

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = ROOT / "tests/data/templates"
FUZZ = ROOT / "tests/fuzz/jinja_fuzz"

# Which conversation is rendered how: (conversation, with tools, generation prompt, more variables).
SCENARIOS = [
    ("user", False, True, {}),
    ("user", False, False, {}),
    ("system", False, True, {}),
    ("turns", False, True, {}),
    ("system_turns", False, False, {}),
    ("thinking", False, True, {}),
    ("reasoning", False, True, {"enable_thinking": False}),
    ("user", True, True, {}),
    ("one_call", True, True, {}),
    ("two_calls", True, True, {"enable_thinking": True}),
    ("bare_call", True, False, {}),
    ("parts", False, True, {}),
    ("bad_order", False, True, {}),
]


def dump(path, value):
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(value, ensure_ascii=False, separators=(",", ":")).replace('},{"', '},\n{"') + "\n",
                    encoding="utf-8")


def render_templates():
    data = json.loads((DATA / "conversations.json").read_text(encoding="utf-8"))
    for path in sorted(DATA.glob("*.jinja")):
        source = path.read_text(encoding="utf-8")
        results = []
        for name, with_tools, generation, extra in SCENARIOS:
            context = {"messages": data["conversations"][name], "tools": data["tools"] if with_tools else None,
                       "documents": None, "add_generation_prompt": generation, "bos_token": "<s>", "eos_token": "</s>",
                       **extra}
            results.append({"conversation": name, "tools": with_tools, "generation": generation, "extra": extra,
                            **jinja_reference.render(source, context)})
        dump(DATA / "expected" / (path.stem + ".json"), results)


def render_features():
    cases = [{"group": group, "template": template,
              **jinja_reference.render(template, template_features.CONTEXT)}
             for group, templates in template_features.GROUPS.items() for template in templates]
    dump(DATA / "features.json", {"context": template_features.CONTEXT, "cases": cases})


def write_fuzz_corpus():
    for group, templates in template_features.GROUPS.items():
        for part in range(0, len(templates), 12):
            path = FUZZ / f"{group}-{part // 12}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("\n".join(templates[part:part + 12]), encoding="utf-8")


render_templates()
render_features()
write_fuzz_corpus()
