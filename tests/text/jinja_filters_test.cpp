// Tests, filters and methods: a row is a template and the text that jinja2 3.1.6 makes of it.
#include "jinja_rows.h"

namespace plimsoll::text {

TEST_CASE("Tests") {
  check({
      {"kinds",
       "{{ s is string }}{{ d is mapping }}{{ l is sequence }}{{ d.items() is sequence }}{{ "
       "d.items() is iterable }}{{ 1 is number }}{{ true is integer }}{{ 1.0 is float }}{{ true is "
       "boolean }}{{ n is none }}",
       "TrueTrueTrueFalseTrueTrueFalseTrueTrueTrue"},
      {"definedness", "{{ s is defined }}{{ zz is undefined }}{{ zz is not defined }}",
       "TrueTrueTrue"},
      {"arguments",
       R"({{ 4 is divisibleby 2 }}{{ 5 is gt(3) }}{{ "a" is in "abc" }}{{ 3 is odd }}{{ 3 is even }})",
       "TrueTrueTrueTrueFalse"},
      {"names", R"({{ 1 is sameas 1 }}{{ "a" is lower }}{{ "A" is upper }}{{ range is callable }})",
       "TrueTrueTrueTrue"},
  });
}

TEST_CASE("Filters on texts") {
  check({
      {"case",
       R"({{ s|upper }} {{ "ß ǆ"|upper }} {{ "ΑΣ"|lower }} {{ "hello big-world (x"|title }} {{ "aBC"|capitalize }})",
       "HELLO WORLD SS Ǆ ας Hello Big-World (X Abc"},
      {"cutting",
       R"({{ s|truncate(8) }} {{ "a b c d"|truncate(5, true, "~", 0) }} {{ "  x "|trim }}| {{ s|center(15) }}|)",
       "Hello World a b ~ x|   Hello World  |"},
      {"lines",
       R"({{ lines|indent }}|{{ lines|indent(2, true) }}|{{ lines|indent(">", blank=true) }})",
       "l1\n      l2\n\n    l4\n|  l1\n    l2\n\n  l4\n|l1\n>  l2\n>\n>l4\n>"},
      {"words", "{{ lines|wordcount }}", "3"},
      {"escaping", "{{ html|e }} {{ html|e|e }}",
       R"(&lt;b&gt;&#34;&amp;&#39;&lt;/b&gt; &lt;b&gt;&#34;&amp;&#39;&lt;/b&gt;)"},
      {"what is safe escapes what is added to it, not what is joined",
       R"({{ (html|safe) + "<x>" }} {{ "<"|string + "<b>"|safe }} {{ (html|safe) ~ "<x>" }})",
       R"(<b>"&'</b>&lt;x&gt; &lt;<b> <b>"&'</b><x>)"},
      {"replace, format", R"({{ s|replace("l", "L", 2) }} {{ "%s-%s"|format(1, "b") }})",
       "HeLLo World 1-b"},
  });
}

TEST_CASE("Filters on numbers") {
  check({
      {"round",
       R"({{ 42.55|round(1) }} {{ 2.5|round }} {{ 3.5|round }} {{ 5|round }} {{ 65|round(-1) }} {{ 42.1|round(0, "ceil") }})",
       "42.5 2.0 4.0 5 60 43.0"},
      {"int and float",
       R"({{ "42"|int }} {{ "42.7"|int }} {{ "x"|int(5) }} {{ "1f"|int(base=16) }} {{ "3.5"|float }} {{ n|float(1.0) }})",
       "42 42 5 31 3.5 1.0"},
      {"default",
       R"({{ zz|default("D") }} {{ ""|default("D") }} {{ ""|d("D", true) }} {{ -5|abs }})",
       "D  D 5"},
  });
}

TEST_CASE("Filters on sequences") {
  check({
      {"ends", "{{ l|first }}{{ l|last }}{{ s|last }}{{ []|first }}|{{ l|length }}", "32d|3"},
      {"join", R"({{ l|join(", ") }} {{ people|join("-", attribute="name") }})", "3, 1, 2 b-A-c"},
      {"sort",
       R"({{ l|sort }} {{ ["b", "A", "c"]|sort }} {{ ["b", "A"]|sort(case_sensitive=true) }} {{ people|sort(attribute="team,age")|map(attribute="age")|list }})",
       "[1, 2, 3] ['A', 'b', 'c'] ['A', 'b'] [2, 3, 1]"},
      {"dictsort",
       R"({{ {"b": 1, "A": 2}|dictsort }} {{ {"b": 1, "A": 2}|dictsort(by="value", reverse=true) }})",
       "[('A', 2), ('b', 1)] [('A', 2), ('b', 1)]"},
      {"groupby",
       R"({% for team, members in people|groupby("team") %}{{ team }}{{ members|length }} {% endfor %})",
       "X2 y1 "},
      {"map",
       R"({{ people|map(attribute="name")|join }} {{ people|map(attribute="q", default="-")|join }} {{ ["a"]|map("upper")|list }})",
       "bAc --- ['A']"},
      {"select",
       R"({{ l|select("odd")|list }} {{ l|reject("gt", 2)|list }} {{ people|selectattr("age", "gt", 1)|map(attribute="name")|list }} {{ people|rejectattr("age", "eq", 2)|list|length }})",
       "[3, 1] [1, 2] ['b', 'c'] 2"},
      {"extremes",
       R"({{ l|min }}{{ l|max }}{{ l|sum }}{{ people|sum(attribute="age") }}{{ people|max(attribute="age") }})",
       "1366{'name': 'c', 'age': 3, 'team': 'x'}"},
      {"batch and slice", R"({{ range(5)|batch(2, "x")|list }} {{ range(5)|slice(2)|list }})",
       "[[0, 1], [2, 3], [4, 'x']] [[0, 1, 2], [3, 4]]"},
      {"slices that are filled",
       R"({{ range(5)|slice(2, "x")|list }} {{ range(4)|slice(2, "x")|list }} {{ range(5)|slice(3, "x")|list }})",
       "[[0, 1, 2], [3, 4, 'x']] [[0, 1, 'x'], [2, 3, 'x']] [[0, 1], [2, 3], [4, 'x']]"},
      {"unique, reverse",
       R"({{ ["a", "A", "b"]|unique|list }} {{ l|reverse|list }} {{ s|reverse }})",
       "['a', 'b'] [2, 1, 3] dlroW olleH"},
      {"generators pass once",
       R"({% set g = l|map("string") %}{{ g|list }}{{ g|list }}{{ "T" if g }})",
       "['3', '1', '2'][]T"},
      {"items", R"({{ d|items|list }} {{ {"a": 1}|list }})",
       "[('a', 1), ('b', [1, 2, {'c': None}]), ('items', 5), ('Z', 1.5)] ['a']"},
  });
}

TEST_CASE("tojson") {
  check({
      {"plain", R"({{ d|tojson }} {{ "é<&'\""|tojson }} {{ [1.0, 1e100, big]|tojson }})",
       R"({"a": 1, "b": [1, 2, {"c": null}], "items": 5, "Z": 1.5} "é<&'\"" [1.0, 1e+100, 12345678901234567890])"},
      {"indent", R"({{ {"a": [1, {}], "b": []}|tojson(indent=2) }})",
       "{\n  \"a\": [\n    1,\n    {}\n  ],\n  \"b\": []\n}"},
      {"options",
       R"({{ {"b": 1, "a": "é🙂"}|tojson(ensure_ascii=true, sort_keys=true, separators=(",", ":")) }})",
       R"({"a":"\u00e9\ud83d\ude42","b":1})"},
      {"keys", "{{ {1: 2, none: 3, true: 4, 1.5: 5}|tojson }}", R"({"1": 4, "null": 3, "1.5": 5})"},
  });
}

TEST_CASE("Methods of str") {
  check({
      {"split",
       R"({{ " a  b ".split() }} {{ "a,b,c".split(",", 1) }} {{ "a,b,c".rsplit(",", 1) }} {{ lines.splitlines() }} {{ s.partition(" ") }})",
       "['a', 'b'] ['a', 'b,c'] ['a,b', 'c'] ['l1', '  l2', '', 'l4'] ('Hello', ' ', 'World')"},
      {"strip", R"({{ "xxaxx".strip("x") }} {{ "  a ".lstrip() }}| {{ "ab".removeprefix("a") }})",
       "a a | b"},
      {"find",
       R"({{ s.find("o") }} {{ s.rfind("o") }} {{ s.find("o", 5) }} {{ "日本".find("本") }} {{ s.count("l") }} {{ s.index("W") }})",
       "4 7 7 1 3 6"},
      {"affixes", R"({{ s.startswith(("x", "He")) }} {{ s.endswith("o", 0, 5) }})", "True True"},
      {"format",
       R"({{ "{} {1}".format(1, 2) if false else "{0:>5}|{1:,}|{2:.2f}|{k!r}|{0[0]}".format("ab", 1234567, 2.5, k="v") }})",
       "   ab|1,234,567|2.50|'v'|a"},
      {"padding",
       R"({{ "42".zfill(5) }} {{ "a".center(4, "*") }} {{ "a".ljust(3) }}| {{ "a".rjust(3) }})",
       "00042 *a** a  |   a"},
      {"classes",
       R"({{ "a1".isalnum() }}{{ "é".isalpha() }}{{ "²".isdigit() }}{{ "½".isnumeric() }}{{ " ".isspace() }})",
       "TrueTrueTrueTrueTrue"},
      {"replace",
       R"({{ "aaa".replace("aa", "b") }} {{ "ab".replace("", "-") }} {{ ",".join(["a", "b"]) }})",
       "ba -a-b- a,b"},
  });
}

}  // namespace plimsoll::text
