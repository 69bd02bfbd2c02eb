"""jinja2 set up as transformers sets it up for chat templates: the reference that src/text/jinja_* is compared with.

The environment follows transformers' documented behaviour (utils/chat_template_utils.py of 5.x): an immutable sandbox,
trim_blocks and lstrip_blocks, loop controls, a {% generation %} tag that only marks its body, json.dumps as tojson,
raise_exception and strftime_now. The clock stands still.
"""
import json
from datetime import datetime

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

NOW = datetime(2025, 7, 4, 15, 5, 9)


class Generation(Extension):
    """{% generation %}...{% endgeneration %} renders its body in a scope of its own."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_render"), [], [], body).set_lineno(line)

    def _render(self, caller):
        return caller()


class Namespace(jinja2.utils.Namespace):
    """As transformers', which refuses attributes that start with an underscore."""

    def __init__(*args, **kwargs):
        self, args = args[0], args[1:]
        attributes = dict(*args, **kwargs)
        for name in attributes:
            Namespace.check(name)
        jinja2.utils.Namespace.__init__(self, attributes)

    def __setitem__(self, name, value):
        Namespace.check(name)
        jinja2.utils.Namespace.__setitem__(self, name, value)

    @staticmethod
    def check(name):
        if isinstance(name, str) and name.startswith("_"):
            raise jinja2.exceptions.SecurityError(
                "Chat templates cannot store underscore-prefixed attributes on a namespace, but got "
                f"{name!r}. Please rename the attribute.")


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda format: NOW.strftime(format)
    env.globals["namespace"] = Namespace
    return env


def error_line(error):
    """The line of the template that an exception of its rendering came from."""
    if isinstance(error, jinja2.TemplateSyntaxError):
        return error.lineno
    line, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "<template>":
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def render(source, context):
    """{"text": ...}, or {"error": message, "line": number}."""
    try:
        return {"text": environment().from_string(source).render(**context)}
    except RecursionError:
        raise
    except Exception as error:  # whatever a template can provoke is a golden
        return {"error": str(error), "line": error_line(error)}
