"""Writes `rendered.json`: templates, and what Jinja2 makes of them with the settings of transformers.

    python templates/generate.py [--check]

It needs jinja2 3.1. A template that Jinja2 refuses has no text. `chats/` has whole chat templates.
"""

import argparse
import datetime
import json
from pathlib import Path

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

FOLDER = Path(__file__).parent

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "The weather of a place: it's \"now\".",
            "parameters": {
                "type": "object",
                "properties": {
                    "place": {"type": "string", "description": "A town, like Zürich"},
                    "days": {"type": "integer", "default": 1},
                    "unit": {"type": "string", "enum": ["C", "F"]},
                },
                "required": ["place"],
            },
        },
    },
    {
        "type": "function",
        "function": {
            "name": "stop",
            "description": "Ends it.",
            "parameters": {"type": "object", "properties": {}},
            "return": {"type": "boolean"},
        },
    },
]
VARIABLES = {
    "n": 7,
    "m": -7,
    "two": 2,
    "minus": -2,
    "zero": 0,
    "f": 2.5,
    "g": -3.75,
    "large": 1e16,
    "small": 0.00001,
    "third": 0.1,
    "wide": 9007199254740993,
    "yes": True,
    "no": False,
    "nothing": None,
    "s": "Hello World",
    "empty": "",
    "it": "it's",
    "both": "it's \"so\"",
    "lines": "one\ntwo\r\nthree\n\nfive\n",
    "padded": " \t x y \n",
    "path": "a/b/c/d",
    "words": "the quick  brown\tfox",
    "umlauts": "Grüße aus Zürich 漢字 🦀",
    "control": "a\\b\tc\x07\x1b\u200b\u00a0\u2028é",
    "html": "<a href=\"x\">&'</a>",
    "digits": "0042",
    "xs": [3, 1, 2],
    "names": ["b", "A", "c", "a"],
    "none_of_it": [],
    "nested": [1, [2.0, "x'y"], {"a": None, "b": [True, {"c": "d"}]}],
    "d": {"b": 2, "a": 1, "C": 3},
    "mixed": {"text": "é\n\"q\"", "no": None, "yes": True, "list": [1, 2.5, {"x": []}], "map": {}},
    "users": [
        {"name": "Ann", "age": 30, "ok": True, "tags": ["x", "y"]},
        {"name": "bob", "age": 25, "ok": False, "tags": []},
        {"name": "Cy", "age": 30, "ok": True, "tags": ["z"]},
    ],
    "bos_token": "<s>",
    "eos_token": "</s>",
    "weather": TOOLS[0],
}
MESSAGES = [
    {"role": "system", "content": "Be short."},
    {"role": "user", "content": "Hi, it's \"me\"!\n"},
    {"role": "assistant", "content": "<think>\nA user.\n</think>\n\nHello."},
    {"role": "user", "content": "  What is 1 + 1?  "},
]
# Chats with calls of tools, as variables in place of `messages`.
CALLS = [
    {"role": "user", "content": "How is it in Bern?"},
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {
                "type": "function",
                "id": "call_12345",
                "function": {"name": "get_weather", "arguments": {"place": "Bern", "days": 2, "exact": True, "at": None}},
            }
        ],
    },
    {"role": "tool", "name": "get_weather", "tool_call_id": "call_12345", "content": "{\"sky\": \"grey\"}"},
    {"role": "assistant", "content": "It is grey."},
    {"role": "user", "content": [{"type": "text", "text": "And in "}, {"type": "text", "text": "Genf?"}]},
]


def expressions(text):
    """An expression in each line."""
    return ["{{ " + line.strip() + " }}" for line in text.strip().splitlines() if line.strip()]


NUMBERS = expressions("""
n // two
m // two
n // minus
m // minus
n % two
m % two
n % minus
m % minus
7 // -2
-7 // 2
7 % -3
-7 % 3
f // two
g // two
g // minus
f % minus
g % two
7.5 // -2
n / two
n / -4
6 / 2
1 / 3
two ** 3
two ** minus
2 ** 0.5
9 ** 0.5
-2 ** 2
n * f
n - 2.5
yes + 1
yes + yes
no * 3
-yes
-f
- n + 2
1e3
1e16
1.0
100000000000000000000
1e22
0.1 + 0.2
f
large
small
third * 3
wide
wide + 1
1_000 + 1
n / zero
n // zero
n % zero
f % zero
n < f
n == 7.0
yes == 1
no == 0
yes == 2
1 == 1.0
nothing == no
nothing == nothing
missing == nothing
missing == missing
1 < 2 < 3
1 < 3 < 2
n > two >= 2
'a' < 'b'
'B' < 'a'
'10' < '9'
[1, 2] < [1, 3]
n < 'a'
nothing < 1
1 != 2
'1' == 1
[1, 2] == [1, 2]
[1, 2] == (1, 2)
{'a': 1} == {'a': 1.0}
n|abs
m|abs
f|round
3.5|round
2.675|round(2)
1234.5678|round(-2)
f|round(0, 'floor')
f|round(method='ceil')
7|round
n|int
'42'|int
' 42 '|int
'42.9'|int
'x'|int
'x'|int(5)
'x'|int(default=5)
'0x1f'|int(0, 16)
'ff'|int(0, 16)
2.9|int
g|int
nothing|int
yes|int
'1e3'|float
'x'|float
'x'|float(1.5)
n|float
'2.50'|float
yes|float
'nan'|float
'inf'|float
1.0|string
7.0|int|string
n|string ~ '!'
10 / 4 * 2
10 - 4 - 3
2 + 3 * 4 ~ 5
not n == 7
n is odd
m is odd
two is even
n is divisibleby 7
n is divisibleby(2)
n is number
yes is number
'7' is number
n is integer
yes is integer
f is float
n is float
yes is boolean
n is boolean
n is gt 3
n is lessthan 3
n is eq 7
n is ne 7
n in [7, 8]
n is in [7, 8]
n not in [1, 2]
7.0 in [7]
true in [1]
""")

STRINGS = expressions("""
'%s' % 'a'
'%s and %s' % ('a', 'b')
'%s' % n
'%d' % f
'%d items' % n
'%5d|' % n
'%-5d|' % n
'%05d' % m
'%+d' % n
'%x %X %o' % (255, 255, 8)
'%.2f' % f
'%8.3f|' % g
'%e' % 12345.678
'%g' % 0.0001
'%g' % 1e10
'%s %s %s' % (yes, nothing, xs)
'%r' % 'it'
'%s' % f
'%s' % 1e16
'%5s|%-5s|' % ('ab', 'cd')
'%.2s' % 'abc'
'%%' % ()
'100%% of %s' % 'x'
'%(a)s-%(b)s' % d
'%(a)d' % {'a': 5}
'%s' % ('x',)
'%s %s' % 'a'
'%d' % 'a'
'%s' % xs
'%s' % d
'%c' % 'x'
'%s %s'|format('a', n)
'%(x)s'|format(x=yes)
'%s'|format(nothing)
'{} {}'.format('a', n)
'{0} {1} {0}'.format('a', yes)
'{name}!'.format(name='x')
'{:>5}|{:<5}|{:^5}|'.format('a', 'b', 'c')
'{:.2f}'.format(f)
'{:05d}'.format(n)
'{:,}'.format(1234567)
'{!r}'.format('a')
'{}'.format(nothing)
'{}'.format(xs)
'{}'.format(f)
'{}'.format(1e16)
'{{}} {}'.format(1)
'{0[a]} {0[b]}'.format(d)
'{:x}'.format(255)
'{:%}'.format(0.25)
s.upper()
s.lower()
s.title()
s.capitalize()
s.swapcase()
'straße'.upper()
'ǆ'.title()
"they're bill's".title()
'it IS so'.capitalize()
s|upper
s|lower
"they're bill's"|title
'foo-bar (baz) x_y'|title
'HELLO wORLD'|capitalize
s.replace('l', 'L')
s.replace('l', 'L', 1)
s.replace('l', 'L', 0)
s.replace('l', 'L', -1)
s.replace('', '-')
s.replace('', '-', 3)
s|replace('l', 'L')
s|replace('l', 'L', 2)
n|replace('7', '8')
s.split()
s.split(' ')
words.split()
words.split(none, 1)
words.split(none, 2)
path.split('/', 1)
path.split('/', 2)
path.split('/')[-1]
path.rsplit('/', 1)
path.rsplit('/', 2)
path.rsplit('/')
words.rsplit(none, 1)
path.split(sep='/', maxsplit=1)
path.rsplit('/', maxsplit=1)
''.split()
''.split(',')
'a,,b'.split(',')
' a '.split(' ')
'a'.split('')
path.partition('/')
path.partition('-')
path.rpartition('/')
path.rpartition('-')
path.partition('/')[2]
s.removeprefix('Hello ')
s.removeprefix('x')
s.removesuffix('World')
s.removesuffix('')
s.index('o')
s.index('x')
s.rindex('o')
s.find('o')
s.find('o', 5)
s.find('x')
s.find('o', 5, 6)
s.rfind('o')
s.rfind('o', 0, 5)
umlauts.find('Z')
umlauts.rfind('🦀')
umlauts.index('漢')
lines.splitlines()
lines.splitlines(true)
'a\\x0bb\\u2028c\\r'.splitlines()
padded.strip()
padded.lstrip()
padded.rstrip()
'xxhixx'.strip('x')
'xyhiyx'.strip('xy')
'xxhixx'.lstrip('x')
'xxhixx'.rstrip('x')
'abc'.strip(none)
'\\u00a0a\\u200b'.strip()|length
padded|trim
'xxhixx'|trim('x')
s.startswith('Hell')
s.startswith(('x', 'H'))
s.startswith(('x', 'y'))
s.startswith('World', 6)
s.endswith('World')
s.endswith(('x', 'd'))
s.endswith('o', 0, 5)
', '.join(names)
', '.join(d)
''.join([])
'-'.join('abc')
', '.join([1, 2])
digits.zfill(6)
'-42'.zfill(6)
'+4'.zfill(4)
'x'.zfill(0)
s.count('l')
s.count('l', 4)
s.count('')
'aaaa'.count('aa')
digits.isdigit()
''.isdigit()
'4.2'.isdigit()
'²'.isdigit()
'²'.isdecimal()
'½'.isnumeric()
'½'.isdigit()
'abc'.isalpha()
''.isalpha()
'ab1'.isalnum()
''.isalnum()
' \\t'.isspace()
''.isspace()
'abc'.islower()
'ab1'.islower()
'1'.islower()
'ABC'.isupper()
''.isupper()
'A1'.isupper()
'Hello World'.istitle()
'a_1'.isidentifier()
'é'.isascii()
'a'.center(5) ~ '|'
'ab'.center(5, '*')
'a'.ljust(3, '.') ~ '|'
'a'.rjust(3) ~ '|'
'a\\tb'.expandtabs(4)
'ß'.casefold()
'abc'.encode('utf-8')
s.translate({})
s[0]
s[-1]
s[20]
s[1:4]
s[:-1]
s[-3:]
s[::2]
s[::-1]
s[::-2]
s[4:1:-1]
s[-2:-5:-1]
s[1::-1]
s[:0:-1]
s[20:30]
s[:100]
umlauts[-1]
s|length
umlauts|length
umlauts|count
s|reverse
s|first
s|last
s|list
s|string
'a' ~ 1 ~ 2.0 ~ yes ~ nothing ~ xs
true ~ none
'a' ~ missing
'a' + 'b'
'a' + 1
'a' * 3
'-' * n
'a' * 0
'a' * -1
3 * 'ab'
'ab' 'cd'
'a' in 'abc'
'' in 'abc'
1 in 'abc'
'x' not in 'abc'
"\\n" ~ '\\t' ~ '\\\\'
'\\x41\\u00e9'
'\\''
"\\d\\("
html|e
html|escape
html|safe
html|e|e
(html|e) ~ '<'
('<'|safe) + '<'
(html|safe)|upper
[html|safe]
s|indent
lines|indent
lines|indent(2)
lines|indent(2, true)
lines|indent(width=3, first=true, blank=true)
lines|indent('> ', true)
s|wordcount
words|wordcount
s|center(21) ~ '|'
s|truncate(8)
s|truncate(8, true, '')
'a b c d e f'|wordwrap(5)
'<b>x</b>  y'|striptags
s|urlencode
'a b/ü?'|urlencode
'a b c'|split
s|default('x')
empty|default('x')
empty|default('x', true)
missing|default('x')
missing|d('y')
nothing|default('x')
nothing|default('x', boolean=true)
missing|default
missing
missing|upper
missing|length
missing|list
missing|string
missing.x
missing + 'a'
missing is defined
s is string
s is mapping
s is sequence
s is iterable
n is string
s is lower
'abc' is lower
'ABC' is upper
s is eq 'Hello World'
s is sameas s
nothing is none
s is none
missing is none
missing is undefined
empty is undefined
s is callable
raise_exception is callable
s is filter
'upper' is filter
'odd' is test
'nope' is filter
s is nope
s|nope
s.nope
s.nope()
""")

LISTS = expressions("""
xs
names
nested
none_of_it
[yes, no, nothing]
[f, large, small, 1.0, 100]
[it, both, s, '"', "'", '\\\\', 'a\\nb']
[control]
[umlauts]
['\\U0001F970', '\\u0378', '\\ud7a3', '\\ue000']
[missing]
(1, 2)
(1,)
()
('a', [1, (2, 3)])
[(1, 'a')]
d
mixed
{}
{'a': 1, 2: 'b', none: true, 1.5: []}
{1: 'a', true: 'b'}
users[0]
xs|string
xs ~ ''
d|string
xs + [4]
xs + names
xs + (1, 2)
(1, 2) + (3,)
xs + 1
xs * 2
[0] * 3
xs[0]
xs[-1]
xs[10]
xs[1:]
xs[:-1]
xs[::-1]
xs[::2]
xs[2:0:-1]
xs[-1:-3:-1]
xs[5:]
xs[-2:]
(1, 2, 3)[::-1]
(1, 2, 3)[1]

xs|length
d|length
xs|first
xs|last
none_of_it|first
none_of_it|last
xs|sort
names|sort
names|sort(case_sensitive=true)
xs|sort(reverse=true)
xs|sort(true)
users|sort(attribute='age')|map(attribute='name')|list
users|sort(attribute='age,name')|map(attribute='name')|list
users|sort(attribute='name', reverse=true)|map(attribute='name')|join
[1, 'a']|sort
xs|reverse|list
xs|sum
users|sum(attribute='age')
[0.5, 1]|sum
xs|sum(start=10)
none_of_it|sum
xs|min
xs|max
names|min
names|max
users|max(attribute='age')
none_of_it|min
xs|join
xs|join(', ')
names|join('-')
[1, none, true, 2.0, [3]]|join(',')
users|join(', ', attribute='name')
users|map(attribute='name')|join(', ')
users|map(attribute='tags.0')|list
users|map(attribute='nope', default='-')|list
names|map('upper')|list
names|map('replace', 'a', 'x')|join
users|map('length')|list
users|map(attribute='name')|map('lower')|list
users|selectattr('ok')|map(attribute='name')|list
users|selectattr('age', 'equalto', 30)|map(attribute='name')|list
users|selectattr('age', '==', 30)|list|length
users|selectattr('age', 'gt', 26)|map(attribute='name')|join(',')
users|selectattr('name', 'in', ['Ann', 'Cy'])|map(attribute='age')|list
users|rejectattr('ok')|map(attribute='name')|list
users|rejectattr('age', 'equalto', 30)|map(attribute='name')|list
users|selectattr('nope', 'defined')|list
users|selectattr('nope')|list
xs|select('odd')|list
xs|select('gt', 1)|list
xs|reject('odd')|list
[0, 1, '', none, 'a']|select|list
[0, 1, '', none, 'a']|reject|list
users|selectattr('ok')|first
(users|selectattr('ok')|list)[0].name
(users|selectattr('nope')) is true
1 if users|selectattr('nope') else 2
1 if none_of_it|map('upper') else 2
users|groupby('age')|map(attribute='grouper')|list
users|groupby('age')|map('first')|list
users|groupby('ok')|map('last')|map('length')|list
[1, 2, 1, 3]|unique|list
names|unique|list
users|map(attribute='age')|unique|list
xs|batch(2)|list
xs|batch(2, 0)|list
range(7)|slice(3)|list
d|dictsort
d|dictsort(true)
d|dictsort(by='value')
d|dictsort(reverse=true)
d|dictsort(false, 'value')
d|items|list
missing|items|list
d|list
d.items()|list
d.keys()|list
d.values()|list
d.items()
d.keys()
d.values()
d.get('a')
d.get('x')
d.get('x', 5)
d.get('x', none)
d.get('a', default=5)
d['a']
d.a
d['x']
d.x
d.x is defined
d.x.y
d.pop('a')
d.update({'a': 2})
d.copy()
d.setdefault('x', 1)
d.clear()
xs.append(4)
xs.index(2)
xs.index(5)
xs.count(1)
xs.copy()
xs.reverse()
xs.pop()
xs.insert(0, 1)
xs.extend([1])
xs.sort()
(1, 2, 1).count(1)
(1, 2).index(2)
'a' in d
'x' in d
1 in xs
1 in nothing
'a' in missing
'x' not in names
dict(a=1, b=2)
dict(d, z=1)
dict([('a', 1)])
dict(a=1).items()|list
range(3)|list
range(1, 4)|list
range(5, 0, -2)|list
range(3)
range(3)|length
range(3)[-1]
range(0)|list
1 in range(3)
xs is sequence
xs is iterable
xs is mapping
xs is string
d is mapping
d is sequence
d is iterable
(1, 2) is sequence
d.items() is sequence
d.items() is iterable
(xs|map('string')) is sequence
(xs|map('string')) is iterable
(xs|map('string'))|length
range(3) is sequence
range(3) is iterable
n is iterable
nothing is iterable
missing is iterable
xs is sameas xs
yes is sameas true
1 is sameas true
yes is true
1 is true
no is false
xs and 'full'
none_of_it or 'empty'
'' and 'x'
0 or '' or none
not xs
not none_of_it
none_of_it or d
1 if xs
2 if none_of_it
1 if yes else 2
'x' if missing else 'y'
xs|tojson
mixed|tojson
mixed|tojson(indent=2)
mixed|tojson(indent=4)
mixed|tojson(indent='\\t')
mixed|tojson(indent=0)
mixed|tojson(2)
mixed|tojson(false, 2)
mixed|tojson(true)
mixed|tojson(ensure_ascii=true)
mixed|tojson(ensure_ascii=false)
umlauts|tojson(ensure_ascii=true)
mixed|tojson(separators=(',', ':'))
mixed|tojson(separators=(', ', ': '))
mixed|tojson(indent=1, separators=(',', ' = '))
d|tojson(sort_keys=true)
mixed|tojson(sort_keys=true, indent=2)
mixed|tojson(none, 2)
mixed|tojson(indent=none)
mixed|tojson(nope=1)
{'a': (1, 2), 3: none, true: 1.5, none: 1e16}|tojson
[1e16, 1e-7, 0.1, 1.0, -0.0, 12345678901234567890]|tojson
control|tojson
html|tojson
(html|safe)|tojson
missing|tojson
[missing]|tojson
d.items()|tojson
d.items()|list|tojson
range(3)|list|tojson
raise_exception|tojson
'inf'|float|tojson
weather|tojson
weather|tojson(indent=4)
weather.function.parameters.properties.items()|list|length
weather['function']['parameters']['required']
users|tojson
xs|pprint
xs|random is number
xs|nope
users|attr('nope')
cycler('a', 'b').next()
cycler('a', 'b', 'c').current
joiner(', ')()
strftime_now('%Y')|length
strftime_now('%Y-%m-%d')|length
raise_exception('no')
messages[0]['content']
messages|length
messages[-1].content|trim
messages[1:]|map(attribute='role')|list
messages|selectattr('role', 'equalto', 'user')|list|length
(messages|first).role
messages[0]
add_generation_prompt
tools
documents
bos_token ~ eos_token
[1, 2, 3,]
{'a': 1,}
[1, 2] is eq [1, 2]
d|map('upper')|list
users|map(attribute='ok')|select|list
users|map(attribute='name')|sort
'abc'|map('upper')|list
'abc'|batch(2)|map('join')|list
xs|map('float')|list
[[1, 2], [3]]|sum(start=[])
[[1, 2], [3]]|map('sum')|list
""")

STATEMENTS = [
    "{% for x in xs %}{{ x }},{% endfor %}",
    "{% for x in none_of_it %}x{% else %}none{% endfor %}",
    "{% for x in nothing %}x{% endfor %}",
    "{% for x in missing %}x{% else %}none{% endfor %}",
    "{% for x in n %}x{% endfor %}",
    "{% for c in s %}{{ c }}.{% endfor %}",
    "{% for k in d %}{{ k }}{% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}",
    "{% for k, v in d|dictsort %}{{ k }}={{ v }};{% endfor %}",
    "{% for k, v in d|items %}{{ k }}={{ v }};{% endfor %}",
    "{% for (k, v) in d.items() %}{{ k }}={{ v }};{% endfor %}",
    "{% for item in d.items() %}{{ item }}{{ item[0] }}{% endfor %}",
    "{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
    "{% for x in xs if x > 1 %}{{ loop.index }}:{{ x }}/{{ loop.length }} {% endfor %}",
    "{% for x in xs if x is odd %}{{ x }}{% else %}no{% endfor %}",
    "{% for x in xs %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}"
    "{{ loop.length }}{{ loop.depth }}{{ loop.depth0 }};{% endfor %}",
    "{% for x in xs %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }};{% endfor %}",
    "{% for x in xs %}{{ loop.previtem is defined }}{{ loop.nextitem is defined }};{% endfor %}",
    "{% for x in xs %}{{ loop.cycle('a', 'b') }}{% endfor %}",
    "{% for x in [1, 1, 2] %}{{ loop.changed(x) }}{% endfor %}",
    "{% for x in xs|map('string') %}{{ loop.last }}{{ loop.length }}{{ x }};{% endfor %}",
    "{% for x in users|selectattr('ok') %}{{ loop.index }}{{ loop.last }}{{ x.name }};{% endfor %}",
    "{% set g = xs|select('odd') %}{{ g|list }}{{ g|list }}",
    "{% set g = d.items() %}{{ g|list }}{{ g|list }}",
    "{% for x in xs|reverse %}{{ x }}{{ loop.last }}{% endfor %}",
    "{% for x in range(3) %}{{ x }}{{ ', ' if not loop.last }}{% endfor %}",
    "{% for x in xs %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %}",
    "{% for x in xs %}{% if x == 1 %}{% break %}{% endif %}{{ x }}{% endfor %}",
    "{% for x in xs %}{% for y in names %}{{ loop.index }}{% if y == 'A' %}{% break %}{% endif %}{% endfor %}|{% endfor %}",
    "{% for t in [{'v': 1, 'c': [{'v': 2, 'c': []}]}] recursive %}{{ t.v }}{{ loop.depth }}{{ loop(t.c) }}{% endfor %}",
    "{% for x in xs %}{% set y = x %}{% endfor %}{{ y }}",
    "{% for x in none_of_it %}{% else %}{% set y = 1 %}{{ y }}{% endfor %}{{ y }}",
    "{% for x in none_of_it -%}\n a {% else -%}\n b\n {%- endfor -%}\n c",
    "{% for x in none_of_it %}\n a\n {% else %}\n b\n {% endfor %}\n c",
    "{% for x in xs %}{% for y in none_of_it %}{% else %}{{ x }}{% endfor %}{% break %}{% endfor %}",
    "{% for x in xs %}{% if x %}{% continue %}{% endif %}{% else %}none{% endfor %}",
    "{% filter upper %}{% set y = 'b' %}a{{ y }}{% endfilter %}{{ y }}",
    "{% set x %}{% set y = 'b' %}a{{ y }}{% endset %}{{ y }}{{ x }}",
    "{% set y = 0 %}{% for x in xs %}{% set y = x %}{{ y }}{% endfor %}{{ y }}",
    "{% if yes %}{% set y = 1 %}{% endif %}{{ y }}",
    "{% set ns = namespace(total=0, seen=[]) %}{% for x in xs %}{% set ns.total = ns.total + x %}{% set ns.seen = ns.seen + [x] %}"
    "{% endfor %}{{ ns.total }}{{ ns.seen }}",
    "{% set ns = namespace() %}{% set ns.a = 'x' %}{{ ns.a }}{{ ns.b }}{{ ns.b is defined }}",
    "{% set ns = namespace({'a': 1}, b=2) %}{{ ns.a }}{{ ns.b }}",
    "{% set d.a = 5 %}{{ d.a }}",
    "{% set a, b = 1, 2 %}{{ a }}{{ b }}",
    "{% set a, b = (1, 'x') %}{{ a }}{{ b }}",
    "{% set t = 1, 2 %}{{ t }}",
    "{% set x %}a{{ n }}b{% endset %}{{ x|upper }}{{ [x] }}",
    "{% set x | upper %}abc{% endset %}{{ x }}",
    "{% with a = 1, b = a %}{{ a }}{{ b }}{% endwith %}{{ a }}",
    "{% filter upper %}abc{{ s }}{% endfilter %}",
    "{% filter indent(2, true) %}a\nb{% endfilter %}",
    "{% macro f(a, b='x', c=none) %}{{ a }}{{ b }}{{ c }};{% endmacro %}{{ f(1) }}{{ f(1, 2) }}{{ f(1, c=3) }}{{ f() }}",
    "{% macro f(a) %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1, 2, 3) }}{{ f(1, k=2) }}",
    "{% macro f() %}{{ caller() }}!{% endmacro %}{% call f() %}hi{% endcall %}",
    "{% macro f() %}{{ caller('x') }}!{% endmacro %}{% call(y) f() %}hi {{ y }}{% endcall %}",
    "{% macro f(x) %}{% if x > 0 %}{{ x }}{{ f(x - 1) }}{% endif %}{% endmacro %}{{ f(3) }}",
    "{% macro f(x) %}  {{ x }}  {% endmacro %}[{{ f(1)|trim }}]{{ f(1)|length }}",
    "{% macro f(x) %}{{ n }}{{ bos_token }}{{ x }}{% endmacro %}{{ f(7 // -2) }}",
    "{% macro f(x) %}{% set y = x * 2 %}{{ y }}{% endmacro %}{{ f(2) }}{{ y }}",
    "{% set z = 5 %}{% macro f() %}{{ z }}{% endmacro %}{{ f() }}",
    "{% macro f(x) %}{{ x }}{% endmacro %}{{ f(none) }}{{ f(true) }}{{ f([1, 'a']) }}{{ f(1.0) }}",
    "{% macro f(x) %}<{{ x }}>{% endmacro %}{{ xs|map('string')|map('upper')|list }}{{ f(f(1)) }}",
    "{% macro f(x, y) %}{{ x }}{{ y }}{% endmacro %}{{ f(*[1, 2]) }}{{ f(**{'x': 1, 'y': 2}) }}",
    "{% generation %}a{% endgeneration %}b",
    "{% generation %}{% set x = 1 %}{{ x }}{% endgeneration %}{{ x }}",
    "{% for x in xs %}{% generation %}{{ x }}{{ loop.last }}{% endgeneration %}{% endfor %}",
    "  {% generation %}\n  a\n  {%- endgeneration -%}  \nb",
    "{{ '{% generation %}' }}{# {% generation %} #}{% raw %}{% generation %}{% endraw %}",
    "{{ 'generation' }}{% set generation = 3 %}{{ generation }}",
    "a\n  {% if yes %}\n  b\n  {% endif %}\nc\n",
    "a\n  {%- if yes %}\n  b\n  {%- endif %}\nc",
    "a\n  {% if yes -%}\n  b\n  {% endif -%}\nc",
    "a\n  {%+ if yes %}\n  b\n  {%+ endif +%}\nc",
    "a\n  {{ n }}\n  {{- n -}}\n  b\n\n",
    "  {# c #}\na {# d #} b\n{#- e -#}\nc",
    "a {% if yes %} b {% endif %} c",
    "\n{% if yes %}\n{% endif %}\n\n",
    "\n\n{{ n }}\n",
    "a\r\n{% if yes %}\r\nb\r\n{% endif %}\r\nc\r\n",
    "\t{% for x in xs %}\n\t{{ x }}\n\t{% endfor %}\n",
    "{% if yes %}a{% elif no %}b{% else %}c{% endif %}",
    "{% if no %}a{% elif nothing %}b{% else %}c{% endif %}",
    "{% if xs is defined and xs[0] == 3 and not no %}a{% endif %}",
    "{% if 'a' in d and d['a'] is not none %}{{ d['a'] }}{% endif %}",
    "{% if messages[0].role == 'system' %}{{ messages[0].content }}{% set messages = messages[1:] %}{% endif %}{{ messages|length }}",
    "{% if not (messages[0].role == 'user') %}x{% endif %}",
    "{% if (messages[0]['role'] == 'user') != (zero % 2 == 0) %}{{ raise_exception('roles') }}{% endif %}",
    "{% for m in messages %}{% if loop.index0 % 2 == 0 %}{{ m.role }}{% endif %}{% endfor %}",
    "{% for m in messages %}{% set content = m['content'] %}{{ '[' + m['role'] + '] ' + content | trim + '\\n' }}{% endfor %}",
    "{% for m in messages[::-1] %}{% set i = (messages|length - 1) - loop.index0 %}{{ i }}{{ m.role }} {% endfor %}",
    "{% set last = messages|selectattr('role', 'equalto', 'user')|map(attribute='content')|list|last %}{{ last.strip() }}",
    "{% set content = messages[2].content %}{{ content.split('</think>')[-1].lstrip('\\n') }}"
    "{{ content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') }}",
    "{% set t = 'a' ~ n ~ '-' ~ [1, 'x'] ~ {'k': true} %}{{ t }}",
    "{% set parts = [] %}{% set _ = parts.append('x') %}{{ parts }}",
    "{% do xs.append(1) %}",
    "{% include 'x' %}",
    "{% import 'x' as y %}",
    "{% block a %}{{ 7 // -2 }}{% endblock %}",
    "{% autoescape true %}{{ html }}{% endautoescape %}",
    "{{ n }}{{ n",
    "{% if %}",
    "{{ 1 +}}",
    "{% unknown %}",
    "{{ self }}",
    "{% raw %}{{ n }}{% endraw %}",
    "a\n  {% raw %}\n{{ n }}\n  {% endraw %}\nb",
    "a\n  {%- raw -%}\n{{ n }}\n  {%- endraw -%}\nb",
    "{{ '{{' }}{{ '}}' }}",
    "{{ n }}{#- x -#} {{ n }}",
    "{{-n-}}",
    "{{ 'a'if yes else'b' }}",
    "{{ x }}{% set x = 3 %}{{ x }}",
    "{{ loop is defined }}",
    "{{ -xs[0] }}{{ -d.a }}",
    "{{ -f|abs }}{{ -2|abs }}",
    "{{ not xs is defined }}{{ not 'a' in d }}",
    "{{ xs is not none and d is mapping }}",
    "{{ n is none or n is string or n is number }}",
    "{{ (n, m)|max }}{{ [n, m]|min }}",
    "{{ xs.0 }}{{ users.0.name }}{{ users[0]['tags'][1] }}",
    "{{ users[0].tags|join('+') if users[0].tags else 'none' }}",
    "{{ d['a' ~ ''] }}{{ d['a' if yes else 'b'] }}",
    "{{ {'a': {'b': [1, {'c': 2}]}}.a.b[1]['c'] }}",
    "{{ +n }}{{ -n }}{{ - -n }}{{ 3 - -n }}{{ -n ** 2 }}{{ (-n)|abs }}{{ -(n) }}{{ -d['a'] + 2 }}{{ -users[0].age // 7 }}",
    "{{ messages[-loop_index|default(1)].role }}{{ xs[-two] }}{{ [-1, -n, +2] }}{{ {'a': -n} }}",
    "{{ 1, 2 }}{{ (1, 2), 3 }}",
    "{{ {'title': 'T', 'count': 1}.title }}{{ {'count': 1}.count }}",
    "{{ '\\101\\n\\q\\U0001F980' }}",
    "{% for x in 1, 2 %}{{ x }}{% endfor %}",
    "{% with a = 1, b = 2 %}{{ a }}{{ b }}{% endwith %}",
    "{{ loop.cycle() }}",
    "{% for x in xs %}{{ loop.cycle() }}{% endfor %}",
    "{% for x in xs %}{{ loop.cycle(*[]) }}{% endfor %}",
    "{{ n is divisibleby 0 }}",
    "{{ {1: 'a', 1.0: 'b', 2: 'c'} }}",
    "{{ n if n > 3 else m if n > 2 else f }}",
    "{{ messages | map(attribute='role') | unique | list | length }}",
    "{{ 'a\nb' }}",
    "{{ \"a'b\" ~ 'c\"d' }}",
    "{{ 5 // 2 * 2 ~ 'x' }}{{ 2 * 3 % 4 }}{{ -7 // 2 * 2 }}",
    "{{ n|string|length }}{{ (n ~ '')|length }}",
    "{{ items }}{{ d.items is defined }}",
    "{{ {'items': [1], 'x': 2}['items'] }}",
    "{{ {'keys': 5}.keys()|list }}",
    "{{ {'items': 5, 'a': 1}.items()|list }}",
]


def chats():
    """Each template of `chats/` with chats that its kind of model takes."""
    for path in sorted((FOLDER / "chats").glob("*.jinja")):
        template = path.read_text()
        for variables in [
            {},
            {"messages": MESSAGES[1:2]},
            {"messages": MESSAGES[1:], "add_generation_prompt": False},
            {"tools": TOOLS, "messages": MESSAGES},
            {"tools": TOOLS, "messages": CALLS},
            {"tools": TOOLS, "messages": [MESSAGES[0], *CALLS[:3]]},
            {"enable_thinking": False},
            {"messages": [MESSAGES[1], MESSAGES[1]]},
            {"messages": [{"role": "other", "content": "x"}]},
            {"messages": []},
        ]:
            yield f"chats/{path.name}", template, variables


class Generation(Extension):
    """The blocks that transformers knows: what is between them is a scope of its own."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("said"), [], [], body).set_lineno(line)

    def said(self, caller):
        return caller()


def environment():
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    def strftime_now(format):
        return datetime.datetime.now().strftime(format)

    result = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    result.filters["tojson"] = tojson
    result.globals["raise_exception"] = raise_exception
    result.globals["strftime_now"] = strftime_now
    return result


def rendered(template, variables):
    """The text, or None if Jinja2 refuses it."""
    default = {"messages": MESSAGES, "tools": None, "documents": None, "add_generation_prompt": True}
    try:
        return environment().from_string(template).render({**default, **VARIABLES, **variables})
    except Exception:
        return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare the file with what would be written")
    arguments = parser.parse_args()
    cases = []
    for template in NUMBERS + STRINGS + LISTS + STATEMENTS:
        cases.append({"template": template, "text": rendered(template, {})})
    for file, template, variables in chats():
        cases.append({"file": file, "variables": variables, "text": rendered(template, variables)})
    result = {"variables": VARIABLES, "messages": MESSAGES, "cases": cases}
    text = json.dumps(result, ensure_ascii=False, indent=1) + "\n"
    path = FOLDER / "rendered.json"
    if arguments.check:
        if path.read_text() != text:
            raise SystemExit(f"{path} is not what Jinja2 {jinja2.__version__} renders")
    else:
        path.write_text(text)


if __name__ == "__main__":
    main()
