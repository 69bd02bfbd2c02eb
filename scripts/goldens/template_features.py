"""Small templates, each about one feature of the language. templates.py renders them with jinja2."""

# What they may refer to.
CONTEXT = {
    "s": "Hello, World",
    "u": "Straße ΑΣ ÀÉ 你好 🙂 ǆ",
    "lines": "one\n\ntwo\r\nthree\n",
    "blank": " \t pad \n",
    "n": 7,
    "neg": -7,
    "f": 2.5,
    "big": 12345678901234567890,
    "yes": True,
    "no": False,
    "nothing": None,
    "empty": "",
    "items": [3, 1, 2],
    "mixed": [1, 2.0, "three", None, True, [4, 5], {"k": "v"}],
    "names": ["bob", "Alice", "carol", "Bob"],
    "d": {"b": 1, "a": {"x": [10, 20], "items": "shadow"}, "c": "see"},
    "messages": [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "", "tool_calls": [{"name": "f", "arguments": {"q": "é\"\n"}}]},
        {"role": "user", "content": "bye"},
    ],
    "people": [
        {"name": "ann", "age": 30, "city": {"zip": "b"}},
        {"name": "Bea", "age": 25, "city": {"zip": "a"}},
        {"name": "cid", "age": 30, "city": {"zip": "B"}},
    ],
}

OUTPUT = r"""
{{ s }}|{{ n }}|{{ f }}|{{ yes }}|{{ nothing }}|{{ missing }}|{{ d.missing }}|
{{ mixed }}
{{ d }}
{{ (1, 'a') }}{{ (1,) }}{{ () }}{{ [] }}{{ {} }}
{{ "it's" }}{{ ["it's", 'a "q"', 'both \' and "', 'back\\slash', 'nl\n\t\r\x00\x7f', 'é', '\u200b', '\U0001F600'] }}
{{ 'a\'b\"c\\d\x41\u00e9\101\q' }}
{{ 'con' 'cat' "enated" }}
{{ 1.0 }} {{ 0.1 + 0.2 }} {{ 1e16 }} {{ 1e15 }} {{ 123456789.0 }} {{ 1.5e-5 }} {{ 0.0001 }} {{ 1e100 }} {{ -0.0 }}
{{ 1_000 }} {{ 0x1F }} {{ 0o17 }} {{ 0b101 }} {{ 1_0.5_0 }} {{ 1e3 }} {{ 2E-2 }} {{ 00 }}
{{ True }} {{ false }} {{ None }} {{ none }}
{{ big }} {{ big + 1 }} {{ big * 3 }}
{{ u }}
{{- ' left' }} {{ 'right' -}}   
  done
a {{- 1 }} b {{ 2 -}} c
{{ range(3) }} {{ range(1, 10, 3) }} {{ d.items() }} {{ d.keys() }} {{ d.values() }}
{{ namespace(a=1, b='x') }}
{{ 1, 2 }}
{%- print 1, 'two' %}
{{ '{{' }} {{ '%}' }}
"""

ARITHMETIC = r"""
{{ 7 // 2 }} {{ -7 // 2 }} {{ 7 // -2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 7 / 2 }} {{ 6 / 2 }} {{ 2 ** 10 }}
{{ 7.5 // 2 }} {{ -7.5 // 2 }} {{ 7.5 % 2 }} {{ -7.5 % 2 }} {{ 2 ** -1 }} {{ 2 ** 0.5 }} {{ 2.0 ** 3 }} {{ -2 ** 2 }}
{{ 1 + 2 * 3 }} {{ (1 + 2) * 3 }} {{ 10 - 4 - 3 }} {{ 2 ** 3 ** 2 }} {{ 8 / 4 / 2 }} {{ 1 - -1 }} {{ +n }} {{ -f }} {{ - -n }}
{{ 'ab' * 3 }} {{ 2 * [1, 2] }} {{ (1,) * 2 }} {{ 'x' * 0 }} {{ 'x' * -1 }} {{ 'x' * true }}
{{ [1] + [2] }} {{ (1,) + (2,) }} {{ 'a' + 'b' }} {{ true + 1 }} {{ 1.5 + 1 }} {{ 1 ~ 2 ~ none ~ true ~ 1.0 ~ [1] }}
{{ 1 + 2 ~ 3 * 4 }} {{ 'n: ' ~ n + 1 }}
{{ 9007199254740993 / 3 }} {{ 1 / 3 }} {{ 1e308 * 10 }} {{ 5.0 // 0.1 }} {{ 5.0 % 0.1 }} {{ -0.0 // 1 }}
{{ '%s is %d' % ('x', 3) }} {{ '%05.1f|%-5s|%+d|%x|%X|%o|%e|%g|%%|%c|%r' % (3.14159, 'ab', 5, 255, 255, 8, 12345.678, 0.00001, 'z', 'q') }}
{{ '%(a)s-%(b)03d' % {'a': 1, 'b': 2} }} {{ '%s' % none }} {{ '%s' % [1, 2] }} {{ '%5s|%.2s' % ('é', 'éàü') }} {{ '%d' % 3.99 }}
{{ '%#x %#o % d %*d' % (255, 8, 5, 4, 7) }} {{ '%g %g %G' % (1e20, 123456789.0, 1e-10) }} {{ '%i%u' % (1, 2) }}
{{ "%s" | format(n) }} {{ "%(x)s" | format(x=1) }}
"""

COMPARISON = r"""
{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 == 1.0 }} {{ 1 == true }} {{ '1' == 1 }} {{ [1, 2] == [1, 2] }} {{ [1] == (1,) }} {{ {'a': 1} == {'a': 1.0} }}
{{ 'a' < 'b' }} {{ 'Z' < 'a' }} {{ [1, 2] < [1, 3] }} {{ (1,) < (1, 0) }} {{ 'é' > 'z' }} {{ none == none }} {{ missing == missing2 }} {{ missing == none }}
{{ 1 in [1, 2] }} {{ 'a' in 'cat' }} {{ 'x' not in 'cat' }} {{ 'b' in d }} {{ 1 in d.values() }} {{ 2 in range(3) }} {{ '' in '' }} {{ 1 in missing }} {{ ('b', 1) in d.items() }}
{{ 1 != 2 }} {{ 2 >= 2 }} {{ 2 > 2 }} {{ 2 <= 1.5 }} {{ not 1 == 2 }} {{ not not 1 }}
{{ 0 or 'x' }} {{ 1 and 'y' }} {{ '' or [] or 'z' }} {{ none and 1 }} {{ missing or 'dflt' }} {{ 1 and 0 or 2 }} {{ not missing }}
{{ 'a' if yes else 'b' }} {{ 'a' if no else 'b' }} [{{ 'a' if no }}] {{ 1 if no else 2 if no else 3 }} {{ ('x' if no) is undefined }}
{{ 9007199254740993 == 9007199254740992.0 }} {{ 9007199254740993 > 9007199254740992.0 }} {{ big > 1e19 }}
{{ range(3) == range(0, 3, 1) }} {{ range(0) == range(2, 2) }} {{ 1 == '1' }} {{ 'a' != none }} {{ true > false }}
{% for x in ['', 'a', 0, 1, 0.0, none, [], [0], {}, {'a': 1}, (), missing, range(0), range(1), d.items(), namespace()] %}{{ 1 if x else 0 }}{% endfor %}
"""

SUBSCRIPTS = r"""
{{ items[0] }} {{ items[-1] }} [{{ items[9] }}] {{ items.0 }} {{ s[0] }} {{ s[-1] }} {{ u[4] }} {{ u[-1] }} [{{ s[99] }}] {{ items[true] }}
{{ s[1:4] }} {{ s[:-2] }} {{ s[-5:] }} {{ s[::2] }} {{ s[::-1] }} {{ s[10:2:-3] }} {{ u[2:7] }} {{ u[::-1] }} {{ s[5:2] }} [{{ s[50:] }}] {{ s[:99] }}
{{ items[1:] }} {{ items[:1] }} {{ items[::-1] }} {{ items[5:] }} {{ (1, 2, 3)[1:] }} {{ range(10)[2:8:2] }} {{ range(10)[::-3] }} {{ range(5)[1] }} {{ items[-2:none] }}
{{ d['b'] }} {{ d.b }} {{ d['a']['x'][1] }} {{ d.a.x.0 }} {{ d.a['items'] }} {{ d.get('zz', 'def') }} {{ d.get('zz') }} {{ d['get'] is callable }} {{ d.a.items is callable }}
{{ d['nope'] is defined }} {{ d.nope is undefined }} {{ d['items'] is defined }} {{ none.x is defined }} {{ n.foo is undefined }} {{ {1: 'one', none: 'nil', (1, 2): 't', true: 'same'}[1] }}
{{ {1: 'one'}[1.0] }} {{ {(1, 2): 't'}[1, 2] }} {{ {'a': 1, 'a': 2} }} {{ {true: 'x'} }} {{ {1.5: 2}[1.5] }} {{ messages[2]['tool_calls'][0].arguments.q }}
{{ messages[1:][0].role }} {{ messages | length }} {{ messages[-1]['content'] }} {{ d.a.x | last }} {{ ('a', 'b')[1] }} {{ 'abc'.upper()[1] }} {{ [[1, 2], [3]][0][1] }} {{ range(9).stop }} {{ s.__class__ }}|
"""

WHITESPACE = [
    "a\n{% if true %}\nb\n{% endif %}\nc\n",
    "a\n  {% if true %}  \n  b\n  {% endif %}\n  c",
    "  {%- if true -%}  \n  b  {%- endif -%}  \n c",
    "x\n    {%+ if true %}y{% endif +%}\nz",
    "{% set x = 1 %}\n\n{{ x }}\n\n",
    "a {# comment #} b\n  {# own line #}\nc {#- strip -#} d\n{# multi\nline #}\ne",
    "{#a#}\n\nb{#+ c +#}\nd",
    "{% raw %}\n{{ not }} {% evaluated %}\n  {% endraw %}\nafter",
    "a\n  {%- raw -%}  {{ x }}  {%- endraw -%}  b",
    "a{% raw %}{#{% endraw %}b {%raw%} {%+ endraw +%}\n c",
    "{{ 1 }}\n{{ 2 }}\n",
    "line\r\n{% if true %}\r\nwin\r{% endif %}\r\nend\r\n",
    "no newline at the end",
    "two at the end\n\n",
    "\n\nleading",
    "  {{ 1 }}  \n  {{- 2 }}  \n  {{ 3 -}}  \n  4",
    "a\t \t{% if 1 %}b{% endif %}",
    "\t{% if 1 %}tab{% endif %}\t\n  {# c #}  {# d #}\nz",
    "{% for i in [1,2] %}\n- {{ i }}\n{% endfor %}\nend",
    "{% for i in [1,2] -%}\n- {{ i }}\n{%- endfor %}\nend",
    "{%- macro m() %}\n  in\n{% endmacro -%}\n[{{ m() }}]",
    "text{{'-'}}\n   {{- 'x' -}}   \n text",
    "{{'a'}}{# c -#}   {{'b'}}",
    "a{% if 1 %} \n b{% endif %}\u00a0{%- if 1 %}c{% endif %}",
    "{{- '' }}\n{%- if 1 -%}\n\n{{ 'x' }}\n\n{%- endif -%}\n",
    "{{ {'a': {'b': 1}}}}",
    "{{ [1,2][0]}}{{-1}}{{+1}}",
    "{{ '{#' }}{# {{ '#}' }}",
    "{{ '}}' }}{% if '%}' %}ok{% endif %}",
]

LOOPS = [
    "{% for x in items %}{{ loop.index }}/{{ loop.length }}:{{ x }}{{ ',' if not loop.last }}{% endfor %}",
    "{% for x in items %}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }} {% endfor %}",
    "{% for x in items %}[{{ loop.previtem }}<{{ x }}<{{ loop.nextitem }}]{% endfor %}",
    "{% for x in items %}{{ loop.previtem is defined }}{{ loop.nextitem is undefined }}{% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}",
    "{% for k in d %}{{ k }}{% endfor %}{% for v in d.values() %}{{ v }}{% endfor %}",
    "{% for c in 'héy' %}{{ c }}.{% endfor %}",
    "{% for x in [] %}x{% else %}none{% endfor %}",
    "{% for x in items if x > 1 %}{{ loop.index }}:{{ x }}/{{ loop.length }}{{ loop.last }} {% else %}none{% endfor %}",
    "{% for x in items if x > 9 %}{{ x }}{% else %}none{% endfor %}",
    "{% for x in [1,2,3,4,5,6] %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 5 %}{% break %}{% endif %}{{ x }}{% endfor %}",
    "{% for x in [1] %}{% break %}{% else %}else runs{% endfor %}",
    "{% for x in [1] %}{% continue %}{% else %}else runs{% endfor %}",
    "{% for x in [1, 2] %}{% if x == 2 %}{% continue %}{% endif %}{{ x }}{% else %}else runs{% endfor %}",
    "{% for a, (b, c) in [(1, (2, 3)), (4, (5, 6))] %}{{ a }}{{ b }}{{ c }} {% endfor %}",
    "{% for x in items %}{% for y in items %}{{ loop.index }}{{ x }}{{ y }} {% endfor %}{{ loop.index }}|{% endfor %}",
    "{% for x in items %}{% set outer = loop %}{% for y in 'ab' %}{{ outer.index }}{{ loop.index }} {% endfor %}{% endfor %}",
    "{% set x = 0 %}{% for i in items %}{% set x = x + i %}{{ x }} {% endfor %}{{ x }}",
    "{% set ns = namespace(x=0) %}{% for i in items %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}",
    "{% for x in items %}{{ loop.cycle('odd', 'even') }} {% endfor %}",
    "{% for x in [1, 1, 2, 2, 1] %}{{ loop.changed(x) }} {% endfor %}",
    "{% for x in [[1, [2, [3]]], [4]] recursive %}{{ loop.depth }}{{ loop.depth0 }}{% if x is iterable %}({{ loop(x) }}){% else %}{{ x }}{% endif %}{% endfor %}",
    "{% for p in [{'n': 'a', 'c': [{'n': 'b', 'c': []}, {'n': 'd'}]}] recursive %}<{{ p.n }}{{ loop(p.c) if p.c }}>{% else %}-{% endfor %}",
    "{% for x in range(3) %}{{ x }}{% endfor %} {% for x in range(5, 0, -2) %}{{ x }}{% endfor %}",
    "{% for x in items | reverse %}{{ x }}{% endfor %}",
    "{% for x in missing %}{{ x }}{% else %}no{% endfor %}",
    "{% for x in 1, 2, 3 %}{{ x }}{% endfor %}",
    "{% for i in range(3) %}{% for j in range(3) %}{% if j == 1 %}{% break %}{% endif %}{{ i }}{{ j }} {% endfor %}{% endfor %}",
    "{% for m in messages if m.role != 'system' %}{{ loop.index0 }}{{ m.role }}{{ loop.nextitem.role if loop.nextitem }} {% endfor %}",
    "{% for x in [1, 2, 3] if loop is undefined %}{{ x }}{{ loop.index }}{% endfor %}",
    "{% for x in items %}{{ loop }}{% endfor %}",
    "{% for x in items %}{% set y = x %}{% endfor %}[{{ y }}]",
    "{% for x in items %}{% if loop.first %}{% set y = 'first' %}{% endif %}[{{ y }}]{% endfor %}",
    "{% for x in [1,2,3] %}{% if x is odd %}{{ x }}{% endif %}{{ loop.last }}{% endfor %}",
    "{% for a in [1, 2] %}{% for b in [a, 10] if b != 2 %}{{ a }}{{ b }} {% endfor %}{% endfor %}",
    "{% set seen = namespace(v=[]) %}{% for x in [1, 2, 1, 3, 2] if x not in seen.v %}{% set seen.v = seen.v + [x] %}{{ x }}{% endfor %}",
    "{% for x in [1, 2, 3, 4] if x is even %}{{ loop.index }}{{ loop.length }}{{ x }}{{ loop.nextitem }} {% endfor %}",
    "{% for x in items %}{{ loop.index is defined }}{% endfor %}{{ loop is defined }}",
    "{% for x in items | select('gt', 1) %}{{ loop.length }}{{ x }}{% endfor %}",
]

SCOPES = [
    "{% set x = 1 %}{% if true %}{% set x = 2 %}{% endif %}{{ x }}",
    "{% if false %}{% set s = 'changed' %}{% endif %}{{ s }}",
    "{{ s }}{% set s = 'changed' %}{{ s }}",
    "{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set (c, d) = 'xy' %}{{ c }}{{ d }}",
    "{% set t = 1, 2 %}{{ t }}{% set t = (3,) %}{{ t }}",
    "{% set x %}block {{ n }}{% endset %}[{{ x }}]",
    "{% set x | upper | trim %} block {{ n }} {% endset %}[{{ x }}]",
    "{% set ns = namespace({'a': 1}, b=2) %}{{ ns.a }}{{ ns.b }}{% set ns.c = 3 %}{{ ns.c }}{{ ns['c'] }}{{ ns.zz is defined }}",
    "{% set ns = namespace() %}{% set ns.items = [1] %}{{ ns.items }}",
    "{% set ns = namespace(a=1) %}{% set ns.a, b = 5, 6 %}{{ ns.a }}{{ b }}",
    "{% set ns = namespace() %}{% set ns.t %}captured{% endset %}{{ ns.t }}",
    "{% with x = 1, y = 2 %}{{ x }}{{ y }}{% set z = 3 %}{{ z }}{% endwith %}[{{ x }}{{ z }}]",
    "{% set x = 5 %}{% with x = x + 1, y = x %}{{ x }}{{ y }}{% endwith %}{{ x }}",
    "{% with %}{% set n = 1 %}{{ n }}{% endwith %}{{ n }}",
    "{% macro m() %}{{ v }}{% endmacro %}{% set v = 'late' %}{{ m() }}",
    "{% macro m() %}{{ s }}{% endmacro %}{{ m() }}|{% set s = 'later' %}{{ m() }}",
    "{% macro m() %}{% set s = 'inner' %}{{ s }}{% endmacro %}{{ m() }}{{ s }}",
    "{% macro m() %}{{ s }}{% set s = 'inner' %}{% endmacro %}{{ m() }}",
    "{% set x = 1 %}{% macro m() %}{% if false %}{% set x = 2 %}{% endif %}{{ x }}{% endmacro %}{{ m() }}",
    "{% for i in [1] %}{% macro m() %}{{ i }}{% endmacro %}{{ m() }}{% endfor %}{{ m is defined }}",
    "{% filter upper %}{% set x = 'in' %}{{ x }}{% endfilter %}{{ x }}",
    "{% set x = 'out' %}{% set y %}{% set x = 'in' %}{{ x }}{% endset %}{{ x }}{{ y }}",
    "{% if true %}{% for i in [1] %}{% set q = i %}{% endfor %}{% endif %}[{{ q }}]",
    "{% set n = n + 1 %}{{ n }}",
    "{% set n = none %}{{ n }}{% set n = undefined_name %}[{{ n }}]",
    "{% generation %}{% set x = 1 %}{{ x }}{% endgeneration %}[{{ x }}]",
    "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}<{{ m.content }}>{% endgeneration %}{% else %}{{ m.role }} {% endif %}{% endfor %}",
    "{% set loop = 5 %}{{ loop }}",
    "{% set caller = 1 %}{{ caller }}",
    "{% set range = 3 %}{{ range }}",
    "{%set x=1%}{%if x==1%}a{%elif x==2%}b{%else%}c{%endif%}",
    "{% if no %}a{% elif n == 7 %}b{% elif yes %}c{% else %}d{% endif %}",
    "{% if no %}a{% endif %}{% if not no and yes or nope %}b{% endif %}",
    "{% if x is defined and x %}a{% else %}b{% endif %}",
    "{% for i in range(2) %}{% if i == 0 %}{% set w = 'set' %}{% endif %}[{{ w }}]{% endfor %}",
]

MACROS = [
    "{% macro m(a, b=2, c='x') %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }} {{ m(1, c=3) }} {{ m(b=5, a=4) }} {{ m(1, 2, 3) }} [{{ m() }}]",
    "{% macro m(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}{{ m(1, 2) }}",
    "{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, x=3) }}{{ m() }}",
    "{% macro m(a) %}{{ a }}{{ varargs | length }}{{ kwargs.get('z') }}{% endmacro %}{{ m(1, 2, 3, z=4) }}",
    "{% macro m() %}<{{ caller() }}>{% endmacro %}{% call m() %}body {{ n }}{% endcall %}",
    "{% macro m(xs) %}{% for x in xs %}{{ caller(x, loop.index) }};{% endfor %}{% endmacro %}{% call(v, i) m(items) %}{{ i }}:{{ v }}{% endcall %}",
    "{% macro outer() %}{% call inner() %}[{{ caller() }}]{% endcall %}{% endmacro %}{% macro inner() %}({{ caller() }}){% endmacro %}{% call outer() %}x{% endcall %}",
    "{% macro fact(k) %}{{ 1 if k < 2 else k * (fact(k - 1) | int) }}{% endmacro %}{{ fact(10) }}",
    "{% macro tree(t) %}{{ t.v }}{% for c in t.c %}({{ tree(c) }}){% endfor %}{% endmacro %}{{ tree({'v': 1, 'c': [{'v': 2, 'c': []}, {'v': 3, 'c': [{'v': 4}]}]}) }}",
    "{% macro m(a='') %}{{ a | length }}{% endmacro %}{{ m('abc') }}{{ m() }}",
    "{% macro a() %}A{{ b() }}{% endmacro %}{% macro b() %}B{% endmacro %}{{ a() }}",
    "{{ m is defined }}{% macro m() %}{% endmacro %}{{ m is defined }}{{ m.name }}{{ m.arguments }}",
    "{% macro m(x, y) %}{% endmacro %}{{ m.arguments }}{{ m.catch_kwargs }}{{ m.caller }}{{ m }}",
    "{% macro m() %}  {{- 'x' }}\n{% endmacro %}[{{ m() }}][{{ m() | trim }}]",
    "{% macro m(x) %}{% if x %}{{ x }}{% else %}none{% endif %}{% endmacro %}{{ m() }}{{ m(none) }}{{ m(0) }}",
    "{% macro m(x) %}{{ x is defined }}{% endmacro %}{{ m() }}{{ m(none) }}",
    "{% macro m(caller=none) %}{{ caller }}{% endmacro %}{{ m() }}",
    "{% macro m() %}{{ caller is defined }}{% endmacro %}{{ m() }}{% call m() %}{% endcall %}",
    "{% set f = 1 %}{% macro m() %}{{ f }}{% endmacro %}{% set f = 2 %}{{ m() }}",
    "{% macro m(a, b) %}{{ a }}{{ b }}{% endmacro %}{{ m(*[1, 2]) }}{{ m(**{'a': 3, 'b': 4}) }}{{ m(5, **{'b': 6}) }}{{ m(*'xy') }}",
    "{% filter upper %}abc {{ s }}{% endfilter %}{% filter replace('a', 'b') | trim %} aaa {% endfilter %}",
    "{% macro x(a) %}{{ a }}{% endmacro %}{{ x(x('q')) ~ x(1) }}{{ x(a=x) }}",
    "{% set ns = namespace(f=none) %}{% macro m(z) %}<{{ z }}>{% endmacro %}{% set ns.f = m %}{{ ns.f(3) }}",
    "{% macro m(n) %}{% set n = n + 1 %}{{ n }}{% endmacro %}{{ m(1) }}{{ n }}",
    "{% macro m(_if, not_=1) %}{{ _if }}{{ not_ }}{% endmacro %}{{ m(1) }}",
    "{% call(x) [1, 2].count() %}{% endcall %}",
    "{% macro m() %}{{ varargs[0] }}{{ kwargs | tojson }}{% endmacro %}{{ m('p', k='v') }}",
]

STRINGS = r"""
{{ s.upper() }} {{ s.lower() }} {{ s.title() }} {{ s.capitalize() }} {{ s.swapcase() }} {{ u.upper() }} {{ u.lower() }} {{ u.title() }} {{ u.capitalize() }} {{ u.casefold() }} {{ 'ǆ ŉ ﬁ'.title() }}
[{{ blank.strip() }}] [{{ blank.lstrip() }}] [{{ blank.rstrip() }}] [{{ 'xxhixx'.strip('x') }}] [{{ 'abcba'.lstrip('ab') }}] [{{ 'éàé'.rstrip('é') }}] [{{ s.strip(none) }}]
{{ s.split() }} {{ s.split(',') }} {{ s.split('l') }} {{ s.split('l', 1) }} {{ s.rsplit('l', 1) }} {{ ' a  b c '.split() }} {{ ' a  b c '.split(none, 1) }} {{ ' a  b c '.rsplit(none, 1) }} {{ 'a,b,,c'.split(',') }} {{ ''.split() }} {{ ''.split(',') }} {{ 'aaa'.split('aa') }} {{ 'aaa'.rsplit('aa') }} {{ s.split(sep='o', maxsplit=1) }} {{ 'x'.split('y', 0) }} {{ ' x y '.split(maxsplit=0) }}
{{ lines.splitlines() }} {{ lines.splitlines(true) }} {{ 'a\x0bb\x1cc\u2028d'.splitlines() }}
{{ s.replace('l', 'L') }} {{ s.replace('l', 'L', 1) }} {{ 'aaa'.replace('aa', 'b') }} {{ 'abc'.replace('', '-') }} {{ ''.replace('', 'x') }} {{ 'é'.replace('', '.') }} {{ 'abc'.replace('', '-', 2) }}
{{ s.startswith('Hell') }} {{ s.startswith('ell', 1) }} {{ s.startswith(('x', 'He')) }} {{ s.endswith('ld') }} {{ s.endswith(('a', 'b')) }} {{ s.startswith('') }} {{ 'abc'.startswith('bc', 1, 2) }} {{ 'abc'.endswith('b', 0, 2) }} {{ ''.startswith('', 1) }}
{{ s.find('o') }} {{ s.find('o', 5) }} {{ s.rfind('o') }} {{ s.find('zz') }} {{ s.index('W') }} {{ u.find('好') }} {{ u.rfind('你') }} {{ s.count('l') }} {{ 'aaaa'.count('aa') }} {{ 'abc'.count('') }} {{ s.find('l', -3) }} {{ s.count('l', 0, 3) }} {{ s.rindex('l') }}
{{ ','.join(['a', 'b']) }} {{ ''.join('abc') }} {{ '-'.join(d) }} {{ ', '.join(names | sort) }} {{ '.'.join([]) }}
{{ s.partition(', ') }} {{ s.rpartition('o') }} {{ s.partition('zz') }} {{ s.rpartition('zz') }} {{ 'prefix-x'.removeprefix('prefix-') }} {{ 'x.txt'.removesuffix('.txt') }} {{ 'x'.removeprefix('y') }}
[{{ 'a'.ljust(3) }}] [{{ 'a'.rjust(3, '*') }}] [{{ 'ab'.center(5, '-') }}] [{{ 'ab'.center(6) }}] [{{ 'abc'.center(6, '-') }}] {{ '42'.zfill(5) }} {{ '-42'.zfill(5) }} {{ 'é'.zfill(3) }} [{{ 'a\tb\tc'.expandtabs(4) }}]
{{ '123'.isdigit() }} {{ '12a'.isdigit() }} {{ ''.isdigit() }} {{ 'abc'.isalpha() }} {{ 'ab1'.isalnum() }} {{ ' \n'.isspace() }} {{ 'AB'.isupper() }} {{ 'ab1'.islower() }} {{ '½'.isnumeric() }} {{ '²'.isdigit() }} {{ '²'.isdecimal() }} {{ 'Ab Cd'.istitle() }} {{ 'aB'.istitle() }} {{ 'x_1'.isidentifier() }} {{ '1x'.isidentifier() }} {{ 'é'.isascii() }} {{ 'a\n'.isprintable() }} {{ 'É'.isupper() }} {{ '1'.islower() }}
{{ '{} {}'.format(1, 'b') }} {{ '{1}{0}{1}'.format('a', 'b') }} {{ '{x} {y.role} {y[content]} {z[0]}'.format(x=1, y=messages[0], z=items) }} {{ '{{}}'.format() }} {{ '{!r} {!s}'.format('q', 'q') }}
{{ '{:>5}|{:<5}|{:^5}|{:*^7}|{:05d}|{:+d}|{:,}|{:_}|{:x}|{:#x}|{:b}|{:o}|{:c}'.format('a', 'b', 'c', 'd', 42, 5, 1234567, 1234567, 255, 255, 5, 8, 65) }}
{{ '{:.2f}|{:8.3f}|{:e}|{:g}|{:.0f}|{:%}|{:.1%}|{:,.2f}|{}|{:.3}|{:10}|{:<10}|'.format(3.14159, 2.5, 12345.678, 1e-7, 2.5, 0.25, 0.255, 1234567.891, 1e20, 123.456, 1.5, 2) }} {{ '{:.3}'.format('abcdef') }} {{ '{:{w}}|'.format('x', w=4) }} {{ '{:5}|{:5}|'.format(true, 'é') }} {{ '{a}'.format_map({'a': 1}) }} {{ '{:.3}'.format(1.0) }} {{ '{:=+5d}'.format(3) }}
{{ 'Αθήνα ΣΑΣ'.lower() }} {{ 'İ'.lower() | length }} {{ 'ß'.upper() }} {{ 'ŉ'.upper() }} {{ 'ﬃ'.upper() }} {{ 'mcdonald\'s o\'neil'.title() }} {{ 'ÀB'.swapcase() }} {{ 'a' 'b'.upper() }} {{ "x".upper is callable }}
"""

FILTERS = r"""
{{ s | upper }} {{ s | lower }} {{ 'hello wORLD-foo (bar)' | title }} {{ 'HELLO' | capitalize }} {{ '  x ' | trim }}| {{ 'xxaxx' | trim('x') }} {{ n | string + '!' }} {{ s | length }} {{ items | count }} {{ u | length }} {{ d | length }}
{{ items | first }} {{ items | last }} [{{ [] | first }}] [{{ '' | last }}] {{ s | first }} {{ u | last }} {{ d | first }} {{ d | last }} {{ range(3) | last }} {{ d.items() | first }} {{ d.items() | last }}
{{ items | join }} {{ items | join(', ') }} {{ mixed | join('|') }} {{ people | join(',', attribute='name') }} {{ 'abc' | join('.') }} {{ d | join }} {{ missing | join }} {{ [missing, none] | join('x') }}
{{ items | sort }} {{ items | sort(reverse=true) }} {{ names | sort }} {{ names | sort(case_sensitive=true) }} {{ people | sort(attribute='age') | map(attribute='name') | list }} {{ people | sort(attribute='age,name', reverse=true) | map(attribute='name') | join }} {{ people | sort(attribute='city.zip') | map(attribute='name') | list }} {{ 'cab' | sort }} {{ d | sort }}
{{ names | unique | list }} {{ names | unique(true) | list }} {{ people | unique(attribute='age') | map(attribute='name') | list }} {{ items | min }} {{ items | max }} {{ names | min }} {{ names | max(case_sensitive=true) }} {{ (people | max(attribute='age')).name }} [{{ [] | max }}]
{{ items | sum }} {{ people | sum(attribute='age') }} {{ items | sum(start=10) }} {{ [] | sum }} {{ [1.5, 2] | sum }} {{ items | reverse | list }} {{ 'abc' | reverse }} {{ items | list }} {{ 'abc' | list }} {{ d | list }} {{ range(3) | list }}
{{ people | map(attribute='name') | list }} {{ people | map(attribute='city.zip') | join }} {{ names | map('upper') | list }} {{ people | map(attribute='zz', default='-') | list }} {{ ['1', '2'] | map('int') | sum }} {{ [[1, 2], [3]] | map('first') | list }} {{ [[1, 2], [3]] | map(attribute=0) | list }} {{ ['ab'] | map('replace', 'a', 'x') | list }}
{{ items | select('gt', 1) | list }} {{ items | reject('odd') | list }} {{ [0, 1, '', 'a'] | select | list }} {{ [0, 1, none] | reject | list }} {{ people | selectattr('age', 'eq', 30) | map(attribute='name') | list }} {{ messages | selectattr('tool_calls', 'defined') | list | length }} {{ messages | rejectattr('role', 'equalto', 'user') | map(attribute='role') | list }} {{ messages | selectattr('content') | list | length }} {{ messages | selectattr('role', 'in', ['user', 'system']) | list | length }} {{ none | select | list }} {{ missing | map('upper') | list }} {{ people | rejectattr('nope') | list | length }}
{{ people | groupby('age') | map('first') | list }} {% for g in people | groupby('city.zip') %}{{ g.grouper }}:{{ g.list | map(attribute='name') | join(',') }};{% endfor %} {% for k, v in people | groupby('age') %}{{ k }}{{ v | length }} {% endfor %} {{ people | groupby('zz', default='q') | length }}
{{ d | dictsort | map('first') | list }} {{ {'b': 2, 'A': 3, 'c': 1} | dictsort }} {{ {'b': 2, 'A': 3} | dictsort(true) }} {{ {'b': 2, 'A': 3, 'c': 1} | dictsort(by='value', reverse=true) }} {{ d | items | list | length }} {% for k, v in d | items %}{{ k }}{% endfor %}
{{ missing | default('d') }} {{ missing | d }} {{ none | default('d') }} {{ '' | default('d', true) }} {{ '' | default('d') }}| {{ 0 | default(5, boolean=true) }} {{ d.zz | default(d.b) }}
{{ '3.7' | int }} {{ 'x' | int }} {{ 'x' | int(9) }} {{ '0x1f' | int(base=16) }} {{ 'ff' | int(0, 16) }} {{ 3.9 | int }} {{ ' 42 ' | int }} {{ '1_000' | int }} {{ true | int }} {{ none | int }} {{ '-5' | int }} {{ '1e3' | int }} {{ '0b11' | int(0, 2) }} {{ '012' | int }} {{ '2.5' | float }} {{ 'x' | float }} {{ 'x' | float(1.5) }} {{ 3 | float }} {{ '1e5' | float }} {{ 'inf' | float }} {{ ' 2 ' | float }} {{ '1_0' | float }} {{ [] | int }} {{ 'abc' | float(none) }}
{{ 42.55 | round }} {{ 42.55 | round(1) }} {{ 2.5 | round }} {{ 3.5 | round }} {{ -2.5 | round }} {{ 42.55 | round(1, 'floor') }} {{ 42.1 | round(method='ceil') }} {{ 1234 | round(-2) }} {{ 5 | round }} {{ 2.675 | round(2) }} {{ 1.005 | round(2) }} {{ 25 | round(-1) }} {{ 15.0 | round(-1) }} {{ 7 | round(1, 'ceil') }} {{ -5 | abs }} {{ -2.5 | abs }} {{ true | abs }}
{{ 'a\nb\n\nc' | indent }} {{ 'a\nb' | indent(2, true) }} {{ 'a\n\nb' | indent(2, false, true) }} {{ 'a\nb' | indent('>> ') }} {{ 'a\nb' | indent(width=1, first=true) }} {{ '' | indent }}|
{{ 'foo bar baz qux' | truncate(9) }} {{ 'foo bar baz qux' | truncate(9, true) }} {{ 'foo bar baz qux' | truncate(11) }} {{ 'foo bar baz qux' | truncate(11, false, '..', 0) }} {{ 'foo bar' | truncate(3, true, '', 0) }} {{ 'héllo wörld foo' | truncate(8, leeway=0) }}
[{{ 'ab' | center(6) }}] {{ 'a b-c d_e' | wordcount }} {{ 'aXbX' | replace('X', '-') }} {{ 'aaa' | replace('a', 'b', 2) }} {{ 1234 | replace(2, 'x') }} {{ items | batch(2) | list }} {{ items | batch(2, 0) | list }} {{ range(5) | slice(2) | list }} {{ range(5) | slice(3, 'z') | list }}
{{ '<a href="x">&\'</a>' | escape }} {{ '<b>' | e }} {{ ('<b>' | safe) + '<i>' }} {{ '<i>' + ('<b>' | safe) }} {{ ('<%s>' | safe) % '<q>' }} {{ ('a' | safe) ~ '<' }} {{ ('<b>' | safe).replace('b', '<') }} {{ ('x' | safe).join(['<', '>']) }} {{ ('<' | safe) | e }} {{ ('<' | safe) | forceescape }} {{ ['<' | safe] }} {{ ('<' | safe) is escaped }} {{ '<' is escaped }} {{ (('<b> ' | safe) | upper) + '<' }} {{ ('a,b' | safe).split(',') }} {{ ('{}' | safe).format('<') }} {{ ('<' | safe)[0] + '<' }} {{ ('<' | safe) * 2 + '>' }} {{ (('<' | safe) | trim) ~ '' }}
{{ 'a b/c?é' | urlencode }} {{ {'a b': 'c/d', 'e': 1} | urlencode }} {{ [('a', 'b c')] | urlencode }} {{ 1000 | filesizeformat }} {{ 1 | filesizeformat }} {{ 512 | filesizeformat }} {{ 1048576 | filesizeformat(true) }} {{ 123456789 | filesizeformat }} {{ 1e30 | filesizeformat }}
{{ d | attr('items') is callable }} {{ d | attr('b') is defined }} {{ s | attr('upper') is callable }} {{ s | attr('zz') is defined }} {{ namespace(q=1) | attr('q') }}
{{ messages | map(attribute='role') | unique | join(',') }} {{ (messages | last).content }} {{ messages | map(attribute='content') | select | list | length }} {{ items | map('string') | join('-') }} {{ [1, 2, 3] | map('float') | list }} {{ people | map(attribute='age') | sum }} {{ [3, 1] | sort | first }} {{ s | list | length }} {{ 'a-b' | replace('-', '') | upper }} {{ items | sort | reverse | join }} {{ [1,[2]] | string }} {{ '' | string == '' }} {{ d.a.x | map('string') | join('/') }}
"""

JSON = r"""
{{ d | tojson }}
{{ mixed | tojson }}
{{ u | tojson }} {{ u | tojson(ensure_ascii=true) }} {{ '"\\/\b\f\n\r\t\x01\x1f\x7f\u2028<>&\'' | tojson }} {{ '\x7f\x80' | tojson(true) }}
{{ d | tojson(indent=2) }}
{{ d | tojson(indent=0) }} {{ [] | tojson(indent=2) }} {{ {} | tojson(indent=2) }} {{ [[], {}] | tojson(indent=1) }} {{ [1, [2]] | tojson(indent='\t') }}
{{ d | tojson(separators=(',', ':')) }} {{ d | tojson(indent=1, separators=(',', ':')) }} {{ d | tojson(sort_keys=true) }} {{ {'b': 1, 'a': {'d': 1, 'c': 2}} | tojson(sort_keys=true, indent=4) }}
{{ 1.0 | tojson }} {{ 1e20 | tojson }} {{ 0.1 | tojson }} {{ big | tojson }} {{ -1 | tojson }} {{ (1, 2) | tojson }} {{ {1: 2, none: 3, true: 4, 1.5: 5} | tojson }} {{ ('inf' | float) | tojson }} {{ none | tojson }} {{ '' | tojson }} {{ true | tojson }} {{ ('<' | safe) | tojson }} {{ messages | tojson }} {{ range(3) | list | tojson }} {{ (d | tojson) | length }} {{ d | tojson | upper }}
"""

TESTS = r"""
{{ n is odd }} {{ n is even }} {{ n is divisibleby 7 }} {{ n is divisibleby(2) }} {{ -3 is odd }} {{ n is defined }} {{ missing is defined }} {{ missing is not defined }} {{ missing is undefined }} {{ d.zz is undefined }}
{{ none is none }} {{ n is none }} {{ yes is boolean }} {{ yes is true }} {{ yes is false }} {{ 1 is true }} {{ n is integer }} {{ yes is integer }} {{ f is float }} {{ f is number }} {{ yes is number }} {{ s is number }} {{ s is string }} {{ n is string }}
{{ d is mapping }} {{ items is mapping }} {{ items is sequence }} {{ s is sequence }} {{ d is sequence }} {{ n is sequence }} {{ items is iterable }} {{ n is iterable }} {{ s is iterable }} {{ missing is iterable }} {{ range(2) is sequence }} {{ d.items() is sequence }} {{ d.items() is iterable }} {{ (items | map('string')) is sequence }} {{ (items | map('string')) is iterable }}
{{ 'ABC' is upper }} {{ 'abc' is lower }} {{ 'aBc' is upper }} {{ 1 is eq 1 }} {{ 1 is == 1 }} {{ 1 is ne 2 }} {{ 1 is lt 2 }} {{ 2 is ge 2 }} {{ 3 is gt(2) }} {{ 3 is lessthan 4 }} {{ 'a' is in 'abc' }} {{ 1 is in [1] }} {{ 1 is not in [1] }} {{ none is sameas none }} {{ true is sameas true }} {{ 1 is sameas true }} {{ 1 is sameas 1.0 }}
{{ raise_exception is callable }} {{ s is callable }} {{ s.upper is callable }} {{ 'upper' is filter }} {{ 'nope' is filter }} {{ 'odd' is test }} {{ 'nope' is test }} {{ n is number and n is odd }} {{ n is not number or n is odd }} {{ not n is odd }} {{ n is odd is true if 0 else 'x' }}
{{ 'x' if n is eq 7 else 'y' }} {{ [1, 2] is eq [1, 2] }} {{ n is equalto 7 }} {{ (n - 1) is even }} {{ d.a.x is sequence and d.a.x is not string }} {{ 2 is in(items) }} {{ namespace() is mapping }} {{ () is sequence }} {{ items is not none and items | length > 2 }}
"""

FUNCTIONS = r"""
{{ range(4) | list }} {{ range(2, 4) | list }} {{ range(5, 1, -2) | list }} {{ range(0) | list }} {{ dict(a=1, b=2) }} {{ dict({'x': 1}, y=2) }} {{ dict([('k', 'v')]) }} {{ dict() }} {{ dict(d, b=5).b }} {{ dict(**d) | length }}
{% set c = cycler('a', 'b', 'c') %}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ c.next() }}{{ c.next() }}{{ c.reset() }}{{ c.current }}
{% set j = joiner('; ') %}{% for x in items %}{{ j() }}{{ x }}{% endfor %}{% set k = joiner() %}{{ k() }}a{{ k() }}b
{{ strftime_now('%Y-%m-%d %H:%M:%S') }} {{ strftime_now('%d %b %Y, %B %A %a %j %I %p %y %% %-d %e') }} {{ strftime_now('') }}| {{ strftime_now('no directive é') }} {{ strftime_now('%f') }}
{{ [1, 2].count(1) }} {{ [1, 2].index(2) }} {{ (1, 2, 1).count(1) }} {{ 'abc'.index('c') }} {{ d.keys() | list }} {{ d.copy() == d }} {{ d.get('b') }} {{ d.get('zz', {}).get('y', 'deep') }} {{ 2.0.is_integer() }} {{ range(5).count(2) }}
{% set g = items | map('string') %}{{ g | list }}{{ g | list }} {% set r = items | reverse %}{{ r | list }}{{ r | list }} {% set v = d.items() %}{{ v | list | length }}{{ v | list | length }}
"""

ERRORS = [
    "line one\n{{ missing.attribute }}",
    "{{ d.zz.yy }}",
    "a\nb\n{{ raise_exception('Conversation roles must alternate') }}",
    "{% for m in messages %}\n{% if m.role == 'assistant' %}\n{{ raise_exception('no ' ~ m.role) }}\n{% endif %}\n{% endfor %}",
    "{{ 1 + 'a' }}", "{{ 'a' + 1 }}", "{{ [1] + (2,) }}", "{{ d + d }}", "{{ 1 / 0 }}", "{{ 1 // 0 }}", "{{ 1 % 0 }}", "{{ 1.0 / 0 }}", "{{ none + 1 }}",
    "{{ 1 < 'a' }}", "{{ none < 1 }}", "{{ [1] < ['a'] }}", "{{ d < d }}", "{{ missing + 1 }}", "{{ 1 - missing }}", "{{ missing < 1 }}", "{{ missing() }}", "{{ -missing }}", "{{ -s }}", "{{ 'a' - 'b' }}",
    "{{ 1 in 'abc' }}", "{{ 1 in 5 }}", "{{ [] in d }}", "{{ 1 in none }}",
    "\n\n{{ n() }}", "{{ s.nope() }}", "{{ d.update({'x': 1}) }}", "{{ items.append(1) }}", "{{ d.pop('b') }}", "{{ s() }}", "{{ none.x.y }}",
    "{% for x in 5 %}{% endfor %}", "{% for x in none %}{% endfor %}", "{% for a, b in [1] %}{% endfor %}", "{% for a, b in [(1, 2, 3)] %}{% endfor %}", "{% for a, b in [(1,)] %}{% endfor %}",
    "{% set a, b = 1 %}", "{% set d.x = 1 %}", "{% set ns = namespace() %}{% set ns._x = 1 %}", "{% set a, b = [1, 2, 3] %}",
    "{{ [1] | tojson }}\n{{ missing | tojson }}", "{{ d.items() | tojson }}", "{{ {(1, 2): 3} | tojson }}", "{{ [raise_exception] | tojson }}",
    "{{ items | nope }}", "{{ 1 is nope }}", "{% if no %}{{ items | nope }}{% endif %}ok", "{% if yes %}\n{{ items | nope }}{% endif %}", "{{ (1 | nope) if no else 'ok' }}", "{{ items | map('nope') | list }}", "{{ items | select('nope') | list }}",
    "{{ 5 | length }}", "{{ (items | map('string')) | length }}", "{{ none | length }}", "{{ 5 | first }}", "{{ 5 | join }}", "{{ none | list }}", "{{ [1, 'a'] | sort }}", "{{ ['a', none] | max }}", "{{ ['a'] | sum }}", "{{ missing | int }}", "{{ none | items | list }}",
    "{{ 'abc'.index('z') }}", "{{ 'abc'.split('') }}", "{{ ','.join([1]) }}", "{{ 'a'.center(5, 'ab') }}", "{{ [1].index(2) }}", "{{ 'a'.upper(1) }}", "{{ 'a'.replace('b') }}", "{{ '%d' % 'x' }}", "{{ '%s %s' % 'x' }}", "{{ '%s' % (1, 2) }}", "{{ '%y' % 1 }}", "{{ '%(a)s' % 1 }}", "{{ '{}'.format() }}", "{{ '{'.format() }}", "{{ '{:d}'.format('x') }}",
    "{{ s[1:2:0] }}", "{{ s['a':] }}", "{{ d[1:] }}", "{{ n[0:] }}", "{{ missing[0] }}", "{{ missing[1:] }}", "{{ {[]: 1} }}", "{{ {{}: 1} }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(b=1) }}", "{% macro m() %}\n{{ x.y }}\n{% endmacro %}\n{{ m() }}", "{% macro m() %}{% endmacro %}{% call m() %}{% endcall %}", "{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}",
    "{{ range(100001) }}", "{{ range(1, 2, 0) }}", "{{ range('a') }}", "{{ range() }}", "{{ dict(1) }}", "{{ cycler() }}", "{{ namespace(_a=1) }}", "{{ 'x' * 'y' }}", "{{ 2 ** 'x' }}", "{{ [1] * 1.5 }}",
    # Syntax.
    "{% if x %}", "text\n{% for x in y %}\n{{ x }}", "{% endif %}", "{% if x %}{% endfor %}", "{% for x in y %}{% if z %}{% endfor %}", "{% nope %}", "{% if %}{% endif %}", "{{ }}", "{{ 1 + }}", "{{ (1 }}", "{{ 1) }}", "{{ [1, 2 }}", "{{ {'a' 1} }}", "{{ a b }}", "{{ 'abc }}", "{{ a ? b }}", "{{ a.", "{{ a", "{% set x %}", "{% set 1 = 2 %}", "{% set none = 2 %}", "{% set x + 1 = 2 %}", "{{ a | }}", "{{ a is }}", "{{ a is b is c }}", "{% for loop in x %}{% endfor %}", "{% for x in y %}{% set loop = 1 %}{% endfor %}", "{# never closed", "line\n{% raw %} never closed", "{% break %}", "{% macro m() %}{% continue %}{% endmacro %}", "{% macro m(a=1, b) %}{% endmacro %}", "{% macro 1() %}{% endmacro %}", "{% call 5 %}{% endcall %}", "{{ f(a=1, 2) }}", "{{ f(**a, *b) }}", "{% %}", "{%\n\n\n if x", "a\n\n{{ '\\x4' }}", "{{ x..y }}", "{{ x[ }}", "{{ !x }}", "{{ x = 1 }}", "{% if x = 1 %}{% endif %}", "{% else %}", "{% elif x %}", "{% if x %}{% else %}{% else %}{% endif %}", "{% do x %}", "{% set x = %}", "{% with a %}{% endwith %}", "{% filter nope %}{% endfilter %}", "{{ x if }}", "{{ not }}", "{{ x not y }}", "{{ 'a' 'b }}", "{{ x.1.y.'z' }}", "{% macro m(a, a) %}{% endmacro %}", "{{ f(a=1, a=2) }}",
]


def split(text):
    """One template a line, so that a difference names it."""
    return [line for line in text.strip("\n").split("\n") if line]


GROUPS = {
    "output": split(OUTPUT), "arithmetic": split(ARITHMETIC), "comparison": split(COMPARISON),
    "subscripts": split(SUBSCRIPTS), "whitespace": WHITESPACE, "loops": LOOPS, "scopes": SCOPES, "macros": MACROS,
    "strings": split(STRINGS), "filters": split(FILTERS), "json": split(JSON), "tests": split(TESTS),
    "functions": split(FUNCTIONS), "errors": ERRORS,
}
