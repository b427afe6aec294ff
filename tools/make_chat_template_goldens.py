#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/data/text/chat_templates.json: templates, variables, and what Jinja makes of them.

Debian's python3-jinja2 with the settings of transformers: a sandbox whose values cannot be changed, trim_blocks,
lstrip_blocks, break and continue, tojson without HTML's escapes, raise_exception and strftime_now.

  /usr/bin/python3 tools/make_chat_template_goldens.py            write the file
  /usr/bin/python3 tools/make_chat_template_goldens.py TOKENIZER_CONFIG.json... > others.json    rows of models' templates,
      which tests/text/chat_template_test.cpp reads from where WEFT_CHAT_TEMPLATES says
Rows of "random" are drawn by the grammar below; {"error": its name} where Jinja or Python refuse.
"""
import copy
import datetime
import json
import pathlib
import random
import subprocess
import sys
import warnings

import jinja2
import jinja2.ext
import jinja2.sandbox

warnings.simplefilter("ignore", SyntaxWarning)
NOW = 1700000000  # 2023-11-14 22:13:20 UTC


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        next(parser.stream)
        return parser.parse_statements(["name:endgeneration"], drop_needle=True)


def environment():
    made = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", Generation])

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def strftime_now(pattern):
        return datetime.datetime.fromtimestamp(NOW, datetime.timezone.utc).strftime(pattern)

    made.filters["tojson"] = tojson
    made.globals["raise_exception"] = raise_exception
    made.globals["strftime_now"] = strftime_now
    return made


def rendered(source, variables):
    given = {"messages": [], "tools": None, "documents": None, "add_generation_prompt": True}
    given.update(copy.deepcopy(variables))  # Jinja's indent changes lists in place
    try:
        text = environment().from_string(source).render(**given)
        text.encode()
        return {"text": text}
    except Exception as error:
        return {"error": type(error).__name__}


MESSAGES = [
    {"role": "system", "content": "You are <b>terse</b> & \"good\".\n"},
    {"role": "user", "content": "  Hi there! \u4f60\u597d\n\n"},
    {"role": "assistant", "content": "<think>\nhm\n</think>\n\nHello."},
    {"role": "user", "content": [{"type": "text", "text": "What's in"}, {"type": "image"}, {"type": "text", "text": " it?"}]},
    {"role": "assistant", "content": None, "tool_calls": [
        {"id": "abc123", "type": "function", "function": {"name": "look", "arguments": {"where": "here", "n": 3, "deep": [1.5, None, True]}}}]},
    {"role": "tool", "content": "{\"found\": 1}", "tool_call_id": "abc123", "name": "look"},
]
TOOLS = [{"type": "function", "function": {"name": "look", "description": "Looks <around> \u00e9", "parameters": {
    "type": "object", "properties": {"where": {"type": "string", "enum": ["here", "there"]}, "n": {"type": "integer"}}, "required": ["where"]}}}]
TEXT_MESSAGES = [m for m in MESSAGES if isinstance(m["content"], str) and m["role"] != "tool"]

EXPRESSIONS = """
1 + 2 * 3|1 - -2|-3 // 2|-7 % 3|7 % -3|7.5 // 2|-7.5 % 2|2 ** 10|2 ** -1|2 ** 3 ** 2|-2 ** 2|1 / 4|6 / 3|1e16|1e15|0.1 + 0.2|1e-5|0.0001|1.0|3e8|-0.0
true|false|none|True and none|0 or "x"|"" or [] or {}|not 1|not not "a"|1 and 2|undefined_name|undefined_name or 3
"a" ~ 1 ~ none ~ true ~ 1.5 ~ [1, "b"]|"a" "b" 'c'|"ab" * 3|2 * "xy"|[1] * 3|[1] + [2]|(1,) + (2, 3)|"%s-%d" % ("a", 3)|"%s" % "b"|"%05.2f|%x" % (3.14159, 255)
1 < 2 < 3|1 < 3 < 2|"a" < "b"|[1, 2] < [1, 3]|(1, 2) < (1, 2, 0)|1 == 1.0|1 == true|"1" == 1|[1] == [1.0]|{"a": 1} == {"a": 1}|none == false|1 != 2|2 >= 2|"a" in "cat"|"x" not in "cat"|1 in [1, 2]|"k" in {"k": 1}|3 in {"k": 1}
"yes" if 1 else "no"|"yes" if 0 else "no"|"yes" if 0|1 if 0 else 2 if 0 else 3|(1 if true else 2) + 1
[1, 2, 3][0]|[1, 2, 3][-1]|[1, 2, 3][5]|"h\u00e9llo"[1]|"h\u00e9llo"[-2:]|"hello"[::-1]|"hello"[1:4]|"hello"[:-1]|"hello"[10:]|"hello"[4:1:-1]|[1, 2, 3, 4][::2]|[1, 2, 3, 4][3:0:-2]|[1, 2, 3][-5:2]|(1, 2, 3)[1:]|"hello"[-100:2]|"hello"[3:-100:-1]
{"a": 1}.a|{"a": 1}["a"]|{"a": {"b": 2}}.a.b|{"a": 1}.b|{"items": 1}["items"]|{"a": 1, 2: "x", none: true}|{1: 2}[1]|"abc".missing|none.x|[1].0
[1, "a", none, 2.5, true, (), (1,), (1, 2), {}, {"k": [1]}]|["it's", 'say "x"', "a\\\\b", "tab\\t\\n\\r", "\\x07\\u200b\\u00e9\\U0001F600"]|"\\x41\\u00e9\\101\\q"
"  a b ".strip()|"xxaxx".strip("x")|"xya".lstrip("yx")|"a\\n".rstrip()|"a,b,,c".split(",")|" a  b ".split()|"a b c".split(" ", 1)|"a b  c d".split(none, 2)|" a b  c".rsplit(none, 1)|"a,b,c".rsplit(",", 1)|"abc".split("bc")|"a\\nb\\r\\nc\\n".splitlines()
"Hello".startswith("He")|"Hello".endswith(("lo", "x"))|"Hello".upper()|"HeLLo".lower()|"hello wORLD 1st x2y".title()|"hELLO".capitalize()|"aXbX".replace("X", "--")|"aXbX".replace("X", "", 1)|"abc".replace("", ".")|"hello".find("l")|"h\u00e9llo".find("lo")|"x".find("y")|"banana".count("an")|"-".join(["a", "b"])|"{} {}".format("a", 2)|"{0}{1}{0} {n} {{}}".format("a", 2, n=none)
{"a": 1, "b": 2}.items()|list|{"a": 1, "b": 2}.keys()|list|{"a": 1}.values()|list|{"a": 1}.get("a")|{"a": 1}.get("z")|{"a": 1}.get("z", 5)
"  x "|trim|"xxa"|trim("x")|"abc"|length|[1, 2]|count|{"a": 1}|length|undefined_name|length|5|string|"A"|lower|"a"|upper|"hello world-x (y"|title|"hELLO"|capitalize|1.5|string
undefined_name|default("d")|""|default("d")|""|default("d", true)|undefined_name|default|none|default("x")|none|d("x", boolean=true)
[1, 2, 3]|join|["a", 1, none]|join(", ")|[{"x": 1}, {"x": 2}]|join("+", attribute="x")|"abc"|join("-")|"abc"|list|{"a": 1}|list|"abc"|first|[1, 2]|last|[]|first|[]|last|"abc"|reverse|[1, 2]|reverse|list|"\u00e9t\u00e9"|upper|"STRASSE \u00df"|lower|"stra\u00dfe"|upper
{"b": 1, "a": 2}|dictsort|{"b": 1, "A": 2}|dictsort(true)|{"b": 1, "a": 2}|dictsort(by="value")|{"b": 1, "a": 2}|dictsort(reverse=true)|{"a": 1}|items|list
[3, 1, 2]|sort|["b", "A", "c"]|sort|["b", "A"]|sort(case_sensitive=true)|[3, 1]|sort(reverse=true)|[{"k": 2, "n": 1}, {"k": 1, "n": 2}]|sort(attribute="k")|[1, 1, 2]|unique|list|["a", "A"]|unique|list|[3, 1]|min|[3, 1]|max|[]|max|["a", "B"]|max|[1, 2.5]|sum|[{"v": 1}]|sum(attribute="v")|[1, 2, 3, 4, 5]|batch(2)|list|[1, 2, 3]|batch(2, "x")|list
[1, 2, 3, 4]|select("odd")|list|[1, 2]|reject("equalto", 1)|list|[0, 1, ""]|select|list|[{"r": "u"}, {"r": "a"}, {}]|selectattr("r", "equalto", "u")|list|[{"r": 1}, {}]|selectattr("r", "defined")|list|[{"r": 1}, {}]|rejectattr("r")|list|[{"f": {"n": 1}}]|map(attribute="f.n")|list|["a"]|map("upper")|list|[{}]|map(attribute="x", default="d")|list|[[1, 2]]|map(attribute=1)|list|["a", "b"]|map("replace", "a", "c")|join
"aXa"|replace("a", "b")|"aXa"|replace("a", "b", 1)|"a\\nb\\n\\nc"|indent|"a\\nb"|indent(2, true)|"a\\n\\nb"|indent(2, blank=true)|"a\\nb"|indent("> ")|"a\\n"|indent(2)|""|indent(2, true)
"5"|int|"5.7"|int|"x"|int|"x"|int(3)|5.9|int|-5.9|int|none|int|"ff"|int(base=16)|"1.5"|float|"x"|float|3|float|true|int|" 7 "|int|-3|abs|2.5|abs
2.5|round|3.5|round|2.567|round(2)|5|round|2.1|round(method="ceil")|2.9|round(0, "floor")|-2.5|round|0.125|round(2)|1234.5678|round(1)
"<a href='x'>&\\"</a>"|e|"<b>"|escape|"<b>"|safe|"%s and %s"|format("a", 1)
{"a": [1, 2.0, null_name is defined, none, "\u00e9\\"\\n\\\\</script>'"]}|tojson|[]|tojson|{}|tojson(indent=2)|{"a": [1, {"b": []}], "c": "x"}|tojson(indent=2)|{"b": 1, "a": 2}|tojson(sort_keys=true)|"\u00e9\U0001F600"|tojson(ensure_ascii=true)|[1, {"a": 2}]|tojson(separators=(",", ":"))|{1: 2, none: 3, true: 4, 1.5: 6}|tojson|1e100|tojson|(1, 2)|tojson|"\\x7f\\x1f\u2028"|tojson|"\u00e9\\x7f"|tojson(true)
1 is defined|undefined_name is defined|undefined_name is undefined|none is none|"a" is string|{} is mapping|[] is mapping|"a" is iterable|1 is iterable|[] is sequence|{} is sequence|"" is sequence|1 is number|true is number|1 is integer|true is integer|1.0 is float|true is boolean|1 is boolean|true is true|1 is true|false is false|3 is odd|4 is even|4 is divisibleby 2|4 is divisibleby(3)|1 is equalto 1|1 is eq(2)|1 is ne 2|1 is lt 2|2 is ge 3|1 is in [1]|"AB" is upper|"ab" is lower|"1" is upper|range is callable|1 is not none|not 1 is none|1 is sameas true|undefined_name is iterable
range(3)|list|range(1, 4)|list|range(5, 0, -2)|list|dict(a=1, b="x")|namespace(a=1).a|strftime_now("%d %b %Y")|strftime_now("%Y-%m-%d %H:%M:%S %A %B %j")
"x\\ny"|upper|lower|trim|length|1|string|length + 1|"a" ~ "b"|upper|-1|abs|(1, 2)|1,|1, 2|() |[1, 2,]|{"a": 1,}|"a" if "b" is defined and "c" == "c" else "d"|1 in [1] and 2 not in [1]|not 1 in [2]|1 + 1 ~ 2|"a" ~ 1 + 1
[1,2,3]|length > 2|messages|length|messages[0].role|messages[-1]["content"]|messages[1:]|length|messages|map(attribute="role")|join(",")|messages|selectattr("role", "eq", "user")|list|length|tools is none|documents is defined|bos_token|bos_token is defined
undefined_name.x|none + 1|"a" + 1|[1] + "a"|1 / 0|1 // 0|5 % 0|"a" < 1|[] < {}|none < 1|1 in 5|"a".split("")|"x"|nofilter|1 is notest|1()|undefined_name()|range(1, 2, 0)|[1, 2]|join("x", foo=1)|raise_exception("no")|{}[[]]|"%d" % "x"|"%s %s" % ("a",)|"{}".format()|[3, "a"]|sort|1.x.y|(1|(1, 2]|"abc|1 +|* 2|a b|{"a" 1}|[1 2]|1 if|"a" is|x.|x[|x[]|1 || 2|@|{{}|tojson|undefined_name|tojson|namespace(a=1)|tojson|range(200000)|length|"a".nomethod()|loop.index|1 is 2|-"a"|"abc"[1.5]|"abc"["a"]|"abc"[::0]|-none|items()|~|1 not 2|(1, 2|9223372036854775807
"""

STATEMENTS = [
    "{% if x %}a{% elif y %}b{% else %}c{% endif %}|{% if messages %}m{% endif %}",
    "{% for m in messages %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ m.role }};{% endfor %}",
    "{% for x in [1,2,3] %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }}{{ loop.previtem is defined }}{% endfor %}",
    "{% for x in [] %}a{% else %}none{% endfor %}{% for x in [1] %}a{% else %}none{% endfor %}",
    "{% for x in [1,2,3,4] if x is odd %}{{ loop.index }}:{{ x }} {% endfor %}",
    "{% for x in [1,2] if x > 5 %}a{% else %}empty{% endfor %}",
    "{% for k, v in {'a': 1, 'b': 2}.items() %}{{ k }}={{ v }},{% endfor %}{% for (a, b) in [[1, 2]] %}{{ a + b }}{% endfor %}",
    "{% for k in {'a': 1} %}{{ k }}{% endfor %}{% for c in 'h\u00e9' %}[{{ c }}]{% endfor %}{% for x in undefined_name %}x{% endfor %}",
    "{% for x in range(9) %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 5 %}{% break %}{% endif %}{{ x }}{% endfor %}",
    "{% for x in [1,2] %}{% for y in [1,2] %}{{ loop.depth }}{{ loop.depth0 }}{% if y == 1 %}{% break %}{% endif %}{{ y }}{% endfor %}{{ loop.index }}{% endfor %}",
    "{% set x = 1 %}{% for i in [1,2] %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}",
    "{% set ns = namespace(x=1) %}{% for i in [1,2] %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}{% set ns.y = 5 %}{{ ns.y }}{{ ns.z }}|",
    "{% set x = 1 %}{% if true %}{% set x = 2 %}{% endif %}{{ x }}",
    "{% set a, b = 1, 2 %}{{ b }}{{ a }}{% set t = 1, 2 %}{{ t }}{% set (c, d) = [3, 4] %}{{ c }}{{ d }}",
    "{% set x %}hello {{ 1 }}{% endset %}{{ x|upper }}{{ x|length }}{% set y | upper | trim %} abc {% endset %}[{{ y }}]",
    "{% macro m(a, b='d', c=a) %}({{ a }},{{ b }},{{ c }}){% endmacro %}{{ m(1) }}{{ m(1, 2) }}{{ m(1, c=3) }}{{ m(b=1, a=2) }}{{ m() }}",
    "{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}{{ f(1)|length }}",
    "{% macro box(t) %}<{{ t }}:{{ caller() }}>{% endmacro %}{% call box('x') %}inside{% endcall %}",
    "{% macro each(l) %}{% for x in l %}{{ caller(x, loop.index) }}{% endfor %}{% endmacro %}{% call(v, i) each([5,6]) %}{{ i }}={{ v }};{% endcall %}",
    "{% set g = 'outer' %}{% macro m() %}{{ g }}{% endmacro %}{% set g = 'later' %}{{ m() }}{% for g in [1] %}{{ m() }}{% endfor %}",
    "{% macro m(x) %}{% set y = x %}{{ y }}{% endmacro %}{{ m(1) }}{{ y is defined }}",
    "{% filter upper %}abc {{ 'def' }}{% endfilter %}{% filter trim | replace('a', 'b') %} aXa {% endfilter %}|",
    "{% generation %}gen{{ 1 }}{% endgeneration %}|{%- generation %} x {%- endgeneration %}",
    "{% raw %}{{ not }} {% this %}{% endraw %}|{%- raw -%}  x {{ }}  {%- endraw -%}  y",
    "a{# comment {{ x }} #}b{#- trimmed -#}  c  {#+ kept #}d\n  {# line #}\ne",
    "{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{{ a is defined }}{% with %}{% set q = 1 %}{{ q }}{% endwith %}{{ q is defined }}",
    "line1\n  {% if true %}\n  body\n  {% endif %}\nline2\n",
    "line1\n  {%+ if true %}\n  body\n  {%- endif +%}\nline2\n\n",
    "  {% if true %}  \n x {% endif %} y\n",
    "a  {%- if true -%}  b  {%- endif -%}  c",
    "a \n {{- 'b' -}} \n c {{ 'd' }}\n{{ 'e' }}\n",
    "\n\n{% if true %}\n\nx\n\n{% endif %}\n\n",
    "\t {% set x = 1 %}\n\t{{ x }}\r\nwin\r\n{% if x %}\r\ny\r\n{% endif %}\r",
    "{{ '{{' }}{{ '%}' }}{{ {'a': {'b': 1}}.a.b }}{ % { { }",
    "{{ 'multi\nline' }}{{ \"q'q\" }}{{ 'q\"q' }}{{ 'it\\'s' }}",
    "{% if a is defined and a %}1{% elif not a %}2{% endif %}",
    "{%- for message in messages %}\n    {%- if message['role'] == 'user' %}\n        {{- '<u>' + message['content']|string + '</u>' }}\n    {%- endif %}\n{%- endfor %}",
    "{% for x in [1, 2, 3] %}{{ x }}{% if not loop.last %}, {% endif %}{% endfor %}",
    "{% for x in [[1, [2, 3]]] %}{{ x[1][0] }}{% endfor %}{% set x = [1] %}{{ x }}{% set x = x + [2] %}{{ x }}",
    "{{ loop is defined }}{% for i in [1] %}{{ loop is defined }}{% endfor %}",
    "{% for i in [1,2] %}{{ loop.cycle is defined }}{% endfor %}"[:0] + "{{ 1 }}",
    "{% set messages = messages[1:] %}{{ messages|length }}{% set loop_messages = messages %}{{ loop_messages is sequence }}",
    "{% for x in [3] %}{% set y = x %}{% endfor %}{{ y is defined }}",
    "{% if messages[0]['role'] == 'system' %}{% set sys = messages[0]['content'] %}{% set messages = messages[1:] %}{% else %}{% set sys = '' %}{% endif %}{{ sys|trim }}:{{ messages|length }}",
    # refused
    "{% if %}", "{% if 1 %}", "{% endif %}", "{% for x %}{% endfor %}", "{% for x in [1] %}", "{% set %}", "{% set x %}", "{% nosuch %}", "{% macro %}{% endmacro %}", "{{ 1", "{% if 1", "{# x",
    "{% raw %}x", "{% for a, b in [1] %}{% endfor %}", "{% for a, b in [[1, 2, 3]] %}{% endfor %}", "{% set x.y = 1 %}", "{% set d = {} %}{% set d.y = 1 %}", "{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}",
    "{% macro m(a) %}{% endmacro %}{{ m(b=1) }}", "{% for x in 5 %}{% endfor %}", "{% for x in none %}{% endfor %}", "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "{{ }}", "{% %}", "{% else %}", "{{ [1,2}} ]", "{{ ) }}",
    "{% if 1 %}{% else %}{% else %}{% endif %}", "{% macro m(a=1, b) %}{% endmacro %}", "{% call 1 %}{% endcall %}", "{% filter nosuch %}{% endfilter %}",
]

# Templates in the ways of models that people use, written for this test.
CHATS = {
    "chatml": "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
    "instructions": "{{ bos_token }}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ message['content'] + eos_token}}{% else %}{{ raise_exception('Only user and assistant roles are supported!') }}{% endif %}{% endfor %}",
    "turns": "{{ bos_token }}{% set system = '' %}{% if messages[0].role == 'system' %}{% set system = messages[0].content | trim ~ '\n\n' %}{% set messages = messages[1:] %}{% endif %}{% for message in messages %}{% if message.role == 'assistant' %}{% set role = 'model' %}{% else %}{% set role = message.role %}{% endif %}{{ '<start_of_turn>' + role + '\n' + (system if loop.first else '') }}{% if message.content is string %}{{ message.content | trim }}{% elif message.content is iterable %}{% for item in message.content %}{% if item.type == 'image' %}<image>{% else %}{{ item.text | trim }}{% endif %}{% endfor %}{% endif %}{{ '<end_of_turn>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}",
    "headers": """{{- bos_token }}
{%- set date_string = strftime_now("%d %b %Y") if strftime_now is defined else "26 Jul 2024" %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{%- if tools is not none %}
    {{- "Environment: ipython\\n" }}
{%- endif %}
{{- "Today Date: " + date_string + "\\n\\n" }}
{%- if tools is not none %}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
{%- endif %}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- for message in messages %}
    {%- if not (message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}
            {{- raise_exception("This model only supports single tool-calls at once!") }}
        {%- endif %}
        {%- set tool_call = message.tool_calls[0].function %}
        {{- '{"name": "' + tool_call.name + '", ' }}
        {{- '"parameters": ' }}
        {{- tool_call.arguments | tojson }}
        {{- "}" }}
    {%- elif message.role == "tool" %}
        {{- "<|start_header_id|>ipython<|end_header_id|>\\n\\n" }}
        {%- if message.content is mapping or message.content is iterable %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- "<|eot_id|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
""",
    "types": """{%- macro type_of(spec, required=false) -%}
    {%- if spec.type == "array" -%}{{ type_of(spec["items"]) }}[]
    {%- elif spec.type is string -%}
        {%- if spec.enum -%}{%- for e in spec.enum -%}"{{ e }}"{%- if not loop.last %} | {% endif -%}{%- endfor -%}
        {%- else -%}{{ spec.type }}{%- endif -%}
    {%- else -%}any{%- endif -%}
    {%- if not required %}?{% endif -%}
{%- endmacro -%}
{%- for tool in tools or [] %}{% set f = tool.function %}
// {{ f.description }}
type {{ f.name }} = (_: {
{%- for name, spec in f.parameters.properties.items() %}
{{ name }}: {{ type_of(spec, name in f.parameters.required) }},
{%- endfor %}
}) => any;
{% endfor %}
{%- set ns = namespace(last=-1) %}
{%- for m in messages[::-1] %}{% if m.role == 'user' and ns.last < 0 %}{% set ns.last = messages|length - loop.index %}{% endif %}{% endfor %}
{%- for m in messages %}
{%- if m.role == 'assistant' and m.content is string and '</think>' in m.content %}
{%- set parts = m.content.split('</think>') %}
[{{ parts[0].split('<think>')[-1].strip('\\n') if loop.index0 > ns.last else '' }}]{{ parts[-1].lstrip('\\n') }}
{%- elif m.content is string %}
{{ m.role|upper }}: {{ m.content|trim }}
{%- endif %}
{%- endfor %} {{ ns.last }}""",
}


class Draw:
    """Random templates out of a small grammar; deterministic by seed.

    Out of it: slices of constants, which Jinja folds by other rules, and names of the context that are set later, which
    Jinja takes for undefined within loops before that.
    """

    def __init__(self, seed):
        self.r = random.Random(seed)

    def atom(self):
        return self.r.choice(["1", "2", "-3", "0", "2.5", "true", "none", "'ab'", "'x y'", "''", "a", "b", "n", "s", "l", "d",
                              "u", "v", "w", "[1, 2]", "['b', 'a']", "{'k': 1}", "l[0]", "d.k", "d['z']", "s[1:]", "messages[0].role"])

    def expression(self, depth):
        if depth == 0:
            return self.atom()
        e = lambda: self.expression(depth - 1)
        return self.r.choice([
            lambda: self.atom(),
            lambda: f"({e()} {self.r.choice(['+', '-', '*', '~', '//', '%', '/', 'and', 'or', '==', '!=', '<', '>=', 'in', 'not in'])} {e()})",
            lambda: f"({e()} if {e()} else {e()})",
            lambda: f"{self.atom()}|{self.r.choice(['length', 'upper', 'trim', 'string', 'list', 'first', 'last', 'join', 'join(1)', 'int', 'tojson', 'default(3)', 'reverse|list', 'sort', 'unique|list', 'abs', 'title', 'capitalize', 'indent(1)', 'replace(1, 2)', 'max', 'round'])}",
            lambda: f"({e()} is {self.r.choice(['defined', 'none', 'string', 'mapping', 'iterable', 'number', 'true', 'odd', 'not sequence', 'not boolean'])})",
            lambda: f"(not {e()})", lambda: f"-{self.atom()}", lambda: f"[{e()}, {e()}]", lambda: f"({e()}, {e()})[{self.r.choice(['0', '-1', '1:', '::-1'])}]",
            lambda: f"{self.atom()}[{self.r.choice(['0', '-1', repr('k')])}]",
            lambda: f"{self.r.choice(['l', 's', 'a', 'n', 'd', 'u'])}[{self.r.choice([':1', '::-1', '1:'])}]",
        ])()

    def block(self, depth):
        return "".join(self.statement(depth) for _ in range(self.r.randint(1, 3)))

    def statement(self, depth):
        blank = self.r.choice(["", " ", "\n", "\n  ", "x", "  y\n"])
        open_, close = self.r.choice([("{%", "%}"), ("{%-", "%}"), ("{%", "-%}"), ("{%-", "-%}"), ("{%+", "%}")])
        e = self.expression(self.r.randint(0, 2))
        if depth == 0:
            return blank + self.r.choice(["{{ %s }}", "{{- %s }}", "{{ %s -}}"]) % e
        body = self.block(depth - 1)
        return blank + self.r.choice([
            lambda: f"{open_} if {e} {close}{body}{open_} else {close}{blank}{open_} endif {close}",
            lambda: f"{open_} for a in {e} {close}{body}{open_} endfor {close}",
            lambda: f"{open_} set v = {e} {close}{body}",
            lambda: f"{open_} set w {close}{body}{open_} endset {close}{blank}",
            lambda: "{{ %s }}%s" % (e, body),
            lambda: f"{open_} macro f(a, b=1) {close}{body}{open_} endmacro {close}" + "{{ f(2) }}",
            lambda: f"{{#- c -#}}{body}",
        ])()


RANDOM = {"a": 1, "b": [3, 1], "n": None, "s": "h\u00e9 llo", "l": ["q", 2, None], "d": {"k": "v", "w": 2},
          "messages": [{"role": "user", "content": "hi"}]}


def rows():
    made = {"now": NOW, "variables": {"chat": {"messages": MESSAGES, "tools": TOOLS}, "texts": {"messages": TEXT_MESSAGES, "bos_token": "<s>", "eos_token": "</s>"},
                                      "turns": {"messages": TEXT_MESSAGES[1:], "bos_token": "<s>", "eos_token": "</s>", "add_generation_prompt": False}, "random": RANDOM}, "rows": []}

    def add(source, variables):
        made["rows"].append([source, variables, rendered(source, made["variables"][variables])])

    for line in EXPRESSIONS.strip().split("\n"):
        # Expressions stand on lines with | between, which also stands before filters: the longest that Jinja takes.
        parts = line.split("|")
        while parts:
            count = 1
            while count < len(parts) and parts[count].strip() and parts[count][0].isalpha() and parts[count].split("(")[0].split(" ")[0].strip() in environment().filters:
                count += 1
            add("{{ " + "|".join(parts[:count]) + " }}", "texts")
            parts = parts[count:]
    for source in STATEMENTS:
        add(source, "texts")
    for source in CHATS.values():
        for variables in ("chat", "texts", "turns"):
            add(source, variables)
    kept = {True: 500, False: 60}
    for seed in range(20000):
        source = Draw(seed).block(1)
        result = rendered(source, RANDOM)
        if len(source) < 400 and kept["text" in result] > 0:
            kept["text" in result] -= 1
            made["rows"].append([source, "random", result])
    return made


def shared_rows(variables, root):
    """Renderings of the conversations by Qwen 3's template, which is not copied here."""
    path = root.parent / "shared/data/language/tokenizers-more/qwen3.tokenizer_config.json.zst"
    source = json.loads(subprocess.run(["zstd", "-dcq", path], check=True, capture_output=True).stdout)["chat_template"]
    made = []
    for i, conversation in enumerate(conversations()):
        variables[f"conversation {i}"] = conversation
        made.append([path.name, f"conversation {i}", rendered(source, conversation)])
    return made


def conversations():
    """Inputs for templates of models: turns with and without a system message, tools, parts, thoughts."""
    plain = [m for m in TEXT_MESSAGES if m["role"] != "system"]
    tokens = {"bos_token": "<BOS>", "eos_token": "<EOS>"}
    call = [{"role": "user", "content": "Look."}, dict(MESSAGES[4], content=""), MESSAGES[5]]
    return [{"messages": TEXT_MESSAGES, **tokens}, {"messages": plain, **tokens}, {"messages": plain[:1], **tokens, "add_generation_prompt": False},
            {"messages": plain[:1], **tokens, "enable_thinking": False}, {"messages": TEXT_MESSAGES[:2], "tools": TOOLS, **tokens},
            {"messages": call, "tools": TOOLS, **tokens}, {"messages": MESSAGES[3:4], **tokens}, {"messages": plain + [{"role": "user", "content": "More?"}], **tokens},
            {"messages": call + [{"role": "assistant", "content": "Done."}], **tokens}]


def main():
    if len(sys.argv) > 1:
        sources = [json.loads(pathlib.Path(path).read_text())["chat_template"] for path in sys.argv[1:]]
        inputs = conversations()
        json.dump({"now": NOW, "variables": {str(i): v for i, v in enumerate(inputs)},
                   "rows": [[s, str(i), rendered(s, v)] for s in sources for i, v in enumerate(inputs)]}, sys.stdout, indent=1)
        return
    made = rows()
    root = pathlib.Path(__file__).resolve().parents[1]
    made["shared"] = shared_rows(made["variables"], root)
    lines = ",\n".join(json.dumps(row, ensure_ascii=True) for row in made.pop("rows"))
    head = json.dumps(made, ensure_ascii=True)[:-1]
    (root / "tests/data/text/chat_templates.json").write_text(head + ',\n"rows": [\n' + lines + "\n]}\n")


if __name__ == "__main__":
    main()
