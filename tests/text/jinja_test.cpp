// The language: a row is a template and the text that jinja2 3.1.6 makes of it.
#include "jinja_rows.h"

namespace plimsoll::text {

TEST_CASE("Literals and numbers print as Python prints them") {
  check({
      {"integers", "{{ 1 }} {{ 1_000 }} {{ 0x1F }} {{ 0o17 }} {{ 0b101 }}", "1 1000 31 15 5"},
      {"floats",
       "{{ 1.0 }} {{ 1e16 }} {{ 1e15 }} {{ 0.1 + 0.2 }} {{ 1e-5 }} {{ 0.0001 }} {{ 1.5e300 }}",
       "1.0 1e+16 1000000000000000.0 0.30000000000000004 1e-05 0.0001 1.5e+300"},
      {"unsigned 64 bits", "{{ big }} {{ big + 1 }} {{ 2 ** 100 }}",
       "12345678901234567890 12345678901234567891 1267650600228229401496703205376"},
      {"true division", "{{ 6 / 2 }} {{ 7 / 2 }} {{ 1 / 3 }}", "3.0 3.5 0.3333333333333333"},
      {"floor division", "{{ 7 // 2 }} {{ -7 // 2 }} {{ 7 // -2 }} {{ -5.5 // 2 }}",
       "3 -4 -4 -3.0"},
      {"modulo takes the sign of the right", "{{ -7 % 3 }} {{ 7 % -3 }} {{ -5.5 % 2 }}",
       "2 -2 0.5"},
      {"power groups to the left", "{{ 2 ** 3 ** 2 }} {{ -2 ** 2 }} {{ 2 ** -1 }}", "64 4 0.5"},
      {"containers", R"({{ [1, "a", none, true, 1.5, (1,), (), {}, {"k": [1]}] }})",
       "[1, 'a', None, True, 1.5, (1,), (), {}, {'k': [1]}]"},
      {"quotes in repr", R"({{ ["it's", 'q"', 'both\'"', "\n\x01é"] }})",
       R"(["it's", 'q"', 'both\'"', '\n\x01é'])"},
      {"adjacent strings", R"({{ "a" 'b' "c" }})", "abc"},
      {"escapes", R"({{ "\x41\u00e9\101\q\\" }})", R"(AéA\q\)"},
      {"booleans are integers", "{{ true + true }} {{ -true }} {{ true == 1 }}", "2 -1 True"},
  });
}

TEST_CASE("Operators follow Python") {
  check({
      {"chained comparison", "{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 == 1.0 == true }}",
       "True False True"},
      {"membership", R"({{ "W" in s }} {{ 9 not in l }} {{ "a" in d }} {{ 5.0 in range(10) }})",
       "True True True True"},
      {"and, or give operands", R"({{ 1 and 0 or 5 }} {{ "" or "x" }} {{ not 1 }})", "5 x False"},
      {"tilde", R"({{ "a" ~ 1 ~ none ~ missing ~ [1] }})", "a1None[1]"},
      {"repetition", R"({{ "ab" * 2 }} {{ 2 * [1] }} {{ "a" * -1 }}|)", "abab [1, 1] |"},
      {"inline if", R"({{ "a" if true }}{{ "b" if false }}|{{ "c" if false else "d" }})", "a|d"},
      {"slices",
       R"({{ s[1:4] }} {{ s[::-1] }} {{ s[-3:] }} {{ l[::2] }} {{ s[5:1:-1] }} {{ "日本語"[1:] }})",
       "ell dlroW olleH rld [3, 2]  oll 本語"},
      {"comparison of unlike",
       R"({{ [1, 2] == (1, 2) }} {{ none == missing }} {{ {"a": 1} == {"a": 1.0} }})",
       "False False True"},
      {"filters bind tighter than signs", "{{ -5|abs }} {{ 2 + 3|string|length }}", "5 3"},
      {"percent",
       R"({{ "%s is %05.1f%% %-4d|%x" % ("a", 3.14159, 5, 255) }} {{ "%(k)s" % {"k": 1} }})",
       "a is 003.1% 5   |ff 1"},
  });
}

TEST_CASE("Attributes and items") {
  check({
      {"attribute of a mapping", R"({{ d.a }} {{ d["a"] }} {{ d.b[2].c }} {{ d.b.2.c }})",
       "1 1 None None"},
      {"methods come before keys", R"({{ d["items"] }} {{ d.items() }})",
       "5 dict_items([('a', 1), ('b', [1, 2, {'c': None}]), ('items', 5), ('Z', 1.5)])"},
      {"absent prints nothing", "{{ d.zz }}|{{ l[9] }}|{{ n.x }}|{{ d.zz is defined }}",
       "|||False"},
      {"methods are values", "{% set up = s.upper %}{{ up() }} {{ s.upper is callable }}",
       "HELLO WORLD True"},
      {"what changes things is hidden", "{{ d.update }}|{{ l.append }}|{{ s.__class__ }}", "||"},
      {"get", R"({{ d.get("a") }} {{ d.get("q") }} {{ d.get("q", 7) }})", "1 None 7"},
  });
}

TEST_CASE("Whitespace control") {
  check({
      {"trim_blocks eats one newline", "{% if true %}\na\n{% endif %}\nb", "a\nb"},
      {"lstrip_blocks eats the indent", "a\n  {% if true %}\n  b\n  {% endif %}\nc", "a\n  b\nc"},
      {"no lstrip before variables", "a\n  {{ 1 }}", "a\n  1"},
      {"minus", "a  {%- if true -%}  b  {%- endif -%}  c {{- 1 -}}  d", "abc1d"},
      {"plus keeps", "a\n  {%+ if true +%}\nb{% endif %}", "a\n  \nb"},
      {"comments", "a {# x #}\nb {#- y -#} c", "a bc"},
      {"raw", "{% raw -%}  {{ x }} {% y %} {%- endraw %}z", "{{ x }} {% y %}z"},
      {"last newline goes", "a\n", "a"},
      {"line ends", "a\r\nb\rc", "a\nb\nc"},
  });
}

TEST_CASE("Scopes") {
  check({
      {"a loop does not leak",
       "{% set x = 1 %}{% for i in l %}{% set x = x + i %}{{ x }} {% endfor %}{{ x }}", "4 2 3 1"},
      {"a branch does", "{% if true %}{% set x = 1 %}{% endif %}{{ x }}", "1"},
      {"loop names die", "{% for i in l %}{{ y }}{% set y = i %}{% endfor %}|{{ i }}{{ y }}", "|"},
      {"namespace survives",
       "{% set ns = namespace(x=0) %}{% for i in l %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x "
       "}}",
       "6"},
      {"macros see later values",
       "{% macro m() %}{{ y }}{% endmacro %}{% set y = 5 %}{{ m() }}{% set y = 6 %}{{ m() }}",
       "56"},
      {"with", "{% set a = 5 %}{% with a = 1, b = a %}{{ a }}{{ b }}{% endwith %}{{ a }}", "155"},
      {"set block", "{% set x %}<{{ s }}>{% endset %}{{ x|length }}", "13"},
      {"set block with filters", R"({% set x | upper | replace("A", "B") %}abc{% endset %}{{ x }})",
       "BBC"},
      {"unpacking", "{% set a, (b, c) = 1, [2, 3] %}{{ a }}{{ b }}{{ c }}", "123"},
      {"generation is a scope",
       "{% set x = 1 %}{% generation %}{% set x = 2 %}{{ x }}{% endgeneration %}{{ x }}", "21"},
  });
}

TEST_CASE("Loops") {
  check({
      {"loop variables",
       "{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ "
       "loop.first }}{{ loop.last }}{{ loop.length }} {% endfor %}",
       "1032TrueFalse3 2121FalseFalse3 3210FalseTrue3 "},
      {"neighbours", "{% for x in l %}{{ loop.previtem }}<{{ x }}<{{ loop.nextitem }} {% endfor %}",
       "<3<1 3<1<2 1<2< "},
      {"cycle and changed",
       R"({% for x in [1, 1, 2] %}{{ loop.cycle("a", "b") }}{{ loop.changed(x) }} {% endfor %})",
       "aTrue bFalse aTrue "},
      {"else", "{% for x in [] %}x{% else %}none{% endfor %}", "none"},
      {"filter counts what passes",
       "{% for x in l if x > 1 %}{{ x }}/{{ loop.length }} {% else %}none{% endfor %}", "3/2 2/2 "},
      // A generator's length is known when all of it was drawn, the item that was looked at too.
      {"length of a generator after a look at the next item",
       "{% for p in people|selectattr('age') %}{{ loop.last }}{{ loop.length }}{{ loop.revindex "
       "}}{{ loop.revindex0 }} {% endfor %}",
       "False332 False321 True310 "},
      {"length of a generator after its next item",
       "{% for a in people|map(attribute='age') %}{{ loop.nextitem }}<{{ loop.revindex }}<{{ "
       "loop.length }} {% endfor %}",
       "1<3<3 3<2<3 <1<3 "},
      {"length of a generator from its second item on",
       "{% for a in people|map(attribute='age') %}{{ a }}{% if loop.last or loop.previtem %}/{{ "
       "loop.length }}{{ loop.nextitem }}{% endif %} {% endfor %}",
       "2 1/33 3/3 "},
      {"length of a generator at its last item",
       "{% for p in people|selectattr('age') %}{% if loop.last %}{{ loop.revindex }}/{{ "
       "loop.length }}{% endif %}{% endfor %}",
       "1/3"},
      {"break and continue",
       "{% for x in range(9) %}{% if x == 1 %}{% continue %}{% endif %}{% if x == 4 %}{% break "
       "%}{% endif %}{{ x }}{% endfor %}",
       "023"},
      {"else after a lone continue", "{% for x in [1] %}{% continue %}{% else %}E{% endfor %}",
       "E"},
      {"recursive",
       R"({% for t in [{"n": 1, "c": [{"n": 2, "c": []}]}] recursive %}{{ t.n }}@{{ loop.depth }}[{{ loop(t.c) }}]{% endfor %})",
       "1@1[2@2[]]"},
      {"over a mapping",
       "{% for k in d %}{{ k }}{% endfor %} {% for k, v in d.items() %}{{ k }}={{ v }};{% endfor "
       "%}",
       "abitemsZ a=1;b=[1, 2, {'c': None}];items=5;Z=1.5;"},
      {"over text", R"({% for c in "aé" %}[{{ c }}]{% endfor %})", "[a][é]"},
      {"outer loop",
       "{% for x in [1, 2] %}{% set outer = loop %}{% for y in [1] %}{{ outer.index }}{% endfor "
       "%}{% endfor %}",
       "12"},
  });
}

TEST_CASE("Macros") {
  check({
      {"defaults",
       "{% macro m(a, b=a) %}[{{ a }},{{ b }}]{% endmacro %}{{ m(1) }}{{ m(1, 2) }}{{ m(b=3, a=4) "
       "}}{{ m() }}",
       "[1,1][1,2][4,3][,]"},
      {"varargs and kwargs",
       "{% macro m(a) %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, k=3) }}", "(2,){'k': 3}"},
      {"call block",
       "{% macro m(a) %}<{{ caller(a) }}>{% endmacro %}{% call(x, y=2) m(1) %}{{ x }}{{ y }}{% "
       "endcall %}",
       "<12>"},
      {"recursion",
       "{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}",
       "3210"},
      {"as text", "{% macro m(a) %}{% endmacro %}{{ m }}", "<Macro 'm'>"},
      {"filter block", "{% filter upper|trim %}  ab{{ n }} {% endfilter %}", "ABNONE"},
  });
}

TEST_CASE("Global functions") {
  check({
      {"range", "{{ range(5, 0, -2)|list }} {{ range(3) }} {{ range(3)|length }}",
       "[5, 3, 1] range(0, 3) 3"},
      {"dict", R"({{ dict(a=1) }} {{ dict([("x", 1)], y=2) }})", "{'a': 1} {'x': 1, 'y': 2}"},
      {"cycler and joiner",
       R"({% set c = cycler(1, 2) %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{% set j = joiner("|") %}{{ j() }}a{{ j() }}b)",
       "121a|b"},
      {"strftime_now", R"({{ strftime_now("%Y-%m-%d %H:%M:%S %j %A %B %-d %%") }})",
       "2026-02-03 14:05:06 034 Tuesday February 3 %"},
      {"namespace", "{{ namespace(a=1).a }}{{ namespace() }}", "1<Namespace {}>"},
  });
}

TEST_CASE("Errors say what Python would say and where") {
  const std::vector<Row> rows = {
      {"calling an undefined", "{{ zz() }}", "'zz' is undefined"},
      {"attribute of an undefined", "{{ zz.x }}", "'zz' is undefined"},
      {"item of an undefined", R"({{ zz["x"] }})", "'zz' is undefined"},
      {"arithmetic with an undefined", "{{ zz + 1 }}", "'zz' is undefined"},
      {"str plus int", R"({{ "a" + 1 }})", R"(can only concatenate str (not "int") to str)"},
      {"str plus none", R"({{ "a" + n }})", R"(can only concatenate str (not "NoneType") to str)"},
      {"order of unlike", R"({{ 1 < "a" }})",
       "'<' not supported between instances of 'int' and 'str'"},
      {"membership in none", "{{ 1 in n }}", "argument of type 'NoneType' is not iterable"},
      {"loop over none", "{% for x in n %}{% endfor %}", "'NoneType' object is not iterable"},
      {"length of none", "{{ n|length }}", "object of type 'NoneType' has no len()"},
      {"division by zero", "{{ 1 / 0 }}", "division by zero"},
      {"changing a list", "{{ l.append(4) }}",
       "access to attribute 'append' of 'list' object is unsafe."},
      {"changing a dict", "{{ d.update({}) }}",
       "access to attribute 'update' of 'dict' object is unsafe."},
      {"dunder", "{{ s.__class__() }}",
       "access to attribute '__class__' of 'str' object is unsafe."},
      {"generator to JSON", R"({{ l|map("string")|tojson }})",
       "Object of type generator is not JSON serializable"},
      {"undefined to JSON", "{{ zz|tojson }}", "Object of type Undefined is not JSON serializable"},
      {"items of a list", "{{ l|items|list }}", "Can only get item pairs from a mapping."},
      {"unhashable key", "{{ {[1]: 2} }}", "unhashable type: 'list'"},
      {"unpacking", "{% for a, b in [1] %}{% endfor %}", "cannot unpack non-iterable int object"},
      {"too many arguments", "{% macro m() %}{% endmacro %}{{ m(1) }}",
       "macro 'm' takes not more than 0 argument(s)"},
      {"unknown argument", "{% macro m() %}{% endmacro %}{{ m(k=1) }}",
       "macro 'm' takes no keyword argument 'k'"},
      {"attribute of a plain value", "{% set l.x = 1 %}",
       "cannot assign attribute on non-namespace object"},
      {"range", "{{ range(200000) }}",
       "Range too big. The sandbox blocks ranges larger than MAX_RANGE (100000)."},
      {"loop called", "{% for x in l %}{{ loop(l) }}{% endfor %}",
       "The loop must have the 'recursive' marker to be called recursively."},
      {"unknown filter reached", "{% if true %}{{ s|fromjson }}{% endif %}",
       "No filter named 'fromjson' found."},
  };
  for (const Row& row : rows) {
    INFO(row.label << ": " << row.source);
    CHECK(failure(row.source) == std::string(row.expected) + " (template line 1)");
  }
}

}  // namespace plimsoll::text
