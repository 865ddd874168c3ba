// Tags and white space: expected texts are what Jinja2 3.1.6 renders.
#include <gtest/gtest.h>
#include <string>

#include "banyan/error.h"
#include "text/jinja/render_fixture.h"

namespace banyan::jinja {

namespace {

TEST(Jinja, Statements) {
  const Example examples[] = {
      {"{% for x in [] %}a{% else %}b{% endfor %}", "b"},
      {"{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}"
       "{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.previtem }}{{ loop.nextitem }};"
       "{% endfor %}",
       "1032TrueFalse31;2121FalseFalse332;3210FalseTrue31;"},
      {"{% for k, v in d.items() %}{{ k }}={{ v|tojson }};{% endfor %}",
       "b=1;a=\"x\";items=5;k=[1, {\"y\": null}];"},
      {"{% set a = 1, 2 %}{{ a|tojson }}", "[1, 2]"},
      {"{% for i in l %}{% for j in l %}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}",
       "123112321233"},
      {"{% set ns = namespace(x=[]) %}{% for i in l %}{% set ns.x = ns.x + [i*2] %}{% endfor %}"
       "{{ ns.x|tojson }}",
       "[6, 2, 4]"},
      {"{% for x in l if x > 1 %}{{ x }}{{ loop.length }}{% endfor %}", "3222"},
      {"{% for k in d %}{{k}}{% endfor %}", "baitemsk"},
      {"{% for c in u %}{{ c }}.{% endfor %}", "ß.É.x. .Ü.n.ï."},
      {"{% set x = 1 %}{% for i in l %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}", "4231"},
      {"{% set ns = namespace(a=1) %}{% for i in l %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a "
       "}}",
       "7"},
      {"{% for i in l %}{% if i == 1 %}{% continue %}{% endif %}{{ i }}{% if i == 2 %}{% break "
       "%}{% endif %}{% endfor %}",
       "32"},
      {"{% macro m(a, b=2, c='x') %}[{{ a }}{{ b }}{{ c }}]{% endmacro %}{{ m(1) }}{{ m(1,c=3) "
       "}}{{ m() }}{{ m(1,2,3)|upper }}",
       "[12x][123][2x][123]"},
      {"{% set x %}a{{ n }}b{% endset %}{{ x }}{{ x|length }}", "a7b3"},
      {"{% generation %}x{% set zz = 1 %}{% endgeneration %}{{ zz }}", "x"},
      {"a\n  {% if t %}\n  b\n  {% endif %}\nc\n", "a\n  b\nc"},
      {"a\n  {%- if t -%}\n  b\n  {%- endif -%}\nc\n\n", "abc\n"},
      {"a\n  {%+ if t +%}\n  b\n  {%+ endif +%}\nc", "a\n  \n  b\n  \nc"},
      {"{{ n }}\n{{ n }}\n", "7\n7"},
      {"  {{- n -}}  \n x", "7x"},
      {"a {# c #}\nb", "a b"},
      {"a\n  {# c #}  \nb", "a\n  \nb"},
      {"  {#- c -#}  b", "b"},
      {"a\r\nb\rc\n", "a\nb\nc"},
      {"\n\n", "\n"},
      {"{{ '\\n' }}x{{ \"a\\\"b\" }}", "\nxa\"b"},
      {"{{ {'a':{'b':1}}.a.b }}", "1"},
      {"{% if no %}1{% elif n == 7 %}2{% else %}3{% endif %}", "2"},
      {"{% if n == 8 %}1{% elif n == 9 %}2{% else %}3{% endif %}", "3"},
      {"{% set a, b = 1, 2 %}{{ a }}{{ b }}", "12"},
      {"{% for a, b in [(1,2),(3,4)] %}{{ a+b }}{% endfor %}", "37"},
      {"{% for a in 1, 2 %}{{ a }}{% endfor %}", "12"},
      {"{% for (a, b), c in [((1,2),3)] %}{{ a }}{{ b }}{{ c }}{% endfor %}", "123"},
      {"{% for i in l %}{% macro q() %}{{ i }}{% endmacro %}{{ q() }}{% endfor %}", "312"},
      {"{% set f = 3 %}{% macro q() %}{{ f }}{% endmacro %}{% set f = 4 %}{{ q() }}", "4"},
      {"{{ m is defined }}{% if t %}{% set m = 5 %}{% endif %}{{ m }}", "False5"},
      {"{% for x in l %}{{ x if not loop.last else x ~ '.' }}{{ ', ' if not loop.last }}{% endfor "
       "%}",
       "3, 1, 2."},
      {"  {% set x = 1 %}  \n  {{ x }}  \n", "  \n  1  "},
      {"{% set x = 1 -%}\n\n  y", "y"},
      {"{%if t%}a{%endif%}", "a"},
      {"{{n}}{{-n}}", "77"},
      {"{% if t %}{{ '{%' }}{% endif %}", "{%"},
      {"{ {% if t %}{ {% endif %}}", "{ { }"},
      {"{{ '}}' }}{{ '%}' }}", "}}%}"},
      {"\u00a0{%- if t -%}\u3000x{% endif %}", "x"},
      {"\u00a0 {% if t %}x{% endif %}", "x"},
      {"{{ [1,2,3][1:]|first }}", "2"},
      {"{{ ld|map(attribute='n')|select('defined')|join(',') }}", "x,y"},
      {"{% for m in ld|selectattr('n','defined') %}{{ m.n }}{% endfor %}", "xy"},
      {"{% for x in s.strip().split(' ') %}[{{ x }}]{% endfor %}", "[Hello][World]"},
      {"{{ d['b'] + d.b }}", "2"},
      {"{% macro r(x) %}{{ x }}{% if x > 0 %}{{ r(x-1) }}{% endif %}{% endmacro %}{{ r(5) }}",
       "543210"},
      {"{% for x in l %}{{ x }}{% else %}none{% endfor %}", "312"},
      {"{{ ld[0].n.upper() }}", "X"},
      {"{% set ns = namespace() %}{{ ns.q is defined }}{{ ns.q }}", "False"},
      {"{{ loop is defined }}", "False"},
      {"{% for x in xx %}a{% endfor %}", ""},
      {"{% set x = l | map('string') | join('+') %}{{ x }}", "3+1+2"},
  };
  for (const Example& example : examples) {
    EXPECT_EQ(RenderExample(example.source), example.expected) << example.source;
  }
}

}  // namespace

// Hostile and wrong templates: a clear error, never a hang, a crash or unbounded memory.

namespace {

std::string Repeat(const std::string& part, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += part;
  return out;
}

void ExpectError(const std::string& source, ErrorKind kind, const std::string& part) {
  try {
    RenderExample(source);
    FAIL() << source.substr(0, 100) << " was rendered";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(JinjaLimits, Source) {
  ExpectError(std::string((1 << 20) + 1, 'a'), ErrorKind::kLimit, "bytes");
  ExpectError("{{ " + Repeat("(", 5000) + "1" + Repeat(")", 5000) + " }}", ErrorKind::kLimit,
              "deeper");
  ExpectError("{{ " + Repeat("not ", 5000) + "1 }}", ErrorKind::kLimit, "deeper");
  ExpectError("{{ " + Repeat("-", 5000) + "1 }}", ErrorKind::kLimit, "deeper");
  ExpectError("{{ 1" + Repeat(" + 1", 5000) + " }}", ErrorKind::kLimit, "deeper");
  ExpectError("{{ s" + Repeat("|trim", 5000) + " }}", ErrorKind::kLimit, "deeper");
  ExpectError("{{ 1" + Repeat(" if 1 else 1", 5000) + " }}", ErrorKind::kLimit, "deeper");
  ExpectError(Repeat("{% if t %}", 5000) + Repeat("{% endif %}", 5000), ErrorKind::kLimit,
              "deeper");
}

TEST(JinjaLimits, ManyBranchesAreNoNesting) {
  EXPECT_EQ(RenderExample("{% if no %}" + Repeat("{% elif no %}", 5000) + "{% else %}x{% endif %}"),
            "x");
}

TEST(JinjaLimits, Time) {
  const std::string loop = "{% for i in range(100000) %}";
  ExpectError(Repeat(loop, 3) + Repeat("{% endfor %}", 3), ErrorKind::kLimit, "steps");
  ExpectError("{{ range(100001) }}", ErrorKind::kLimit, "range");
  ExpectError(
      "{{ range(0, 9223372036854775807, 9223372036854775806)|list|length }}"
      "{{ range(-9223372036854775807, 9223372036854775807) }}",
      ErrorKind::kLimit, "range");
  ExpectError("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", ErrorKind::kLimit, "deeper");
  ExpectError("{{ 'a'|map(" + Repeat("'map',", 5000) + "'upper')|list }}", ErrorKind::kLimit,
              "deeper");
}

TEST(JinjaLimits, Memory) {
  ExpectError(
      "{% set ns = namespace(x='aaaaaaaa') %}{% for i in range(100) %}"
      "{% set ns.x = ns.x + ns.x %}{% endfor %}",
      ErrorKind::kLimit, "");
  ExpectError("{{ d|tojson(indent=1000000000) }}", ErrorKind::kLimit, "indent");
  ExpectError("{{ strftime_now('%1000000000d') }}", ErrorKind::kLimit, "strftime_now");
  ExpectError(
      "{% set ns = namespace(x=1) %}{% for i in range(1000) %}"
      "{% set ns.x = [ns.x] %}{% endfor %}",
      ErrorKind::kLimit, "nest");
  ExpectError(
      "{% set ns = namespace(x=[1]) %}{% for i in range(100) %}"
      "{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x|tojson }}",
      ErrorKind::kLimit, "");
}

TEST(JinjaLimits, CirclesAreFreed) {
  EXPECT_EQ(RenderExample("{% set ns = namespace() %}{% set ns.me = ns %}{% set ns.l = [ns] %}"
                          "{% macro m() %}{{ n }}{% endmacro %}{% set ns.m = m %}{{ ns.m() }}"),
            "7");
  EXPECT_EQ(RenderExample("{% set ns = namespace() %}{% for i in range(50000) %}"
                          "{% set ns.x = namespace(x=ns.x) %}{% endfor %}x"),
            "x");
}

TEST(JinjaErrors, UnknownThingsAreNamed) {
  ExpectError("\n{{ s|frobnicate }}", ErrorKind::kUnsupported, "line 2: the filter 'frobnicate'");
  ExpectError("\n{{ s is frobnic }}", ErrorKind::kUnsupported, "line 2: the test 'frobnic'");
  ExpectError("{{ s.zfill(3) }}", ErrorKind::kUnsupported, "the method 'zfill' of str");
  ExpectError("\n\n{% include 'x' %}", ErrorKind::kUnsupported, "line 3: the tag 'include'");
}

// What Jinja has and the templates of our families do not use.
TEST(JinjaErrors, WhatIsNotHereIsRefused) {
  ExpectError("{{ l.append(1) }}", ErrorKind::kUnsupported, "the method 'append' of list");
  ExpectError("{{ '%s' % s }}", ErrorKind::kInput, "unsupported operand types for %");
  ExpectError("{{ 'ab' * 2 }}", ErrorKind::kInput, "unsupported operand types for *");
  ExpectError("{{ l }}", ErrorKind::kUnsupported, "a list printed as it is: use tojson");
  ExpectError("{{ d ~ 'x' }}", ErrorKind::kUnsupported, "a dict printed as it is: use tojson");
  ExpectError("{{ d|tojson(ensure_ascii=true) }}", ErrorKind::kUnsupported, "ensure_ascii");
  ExpectError("{% for x in l %}{{ loop.cycle(1, 2) }}{% endfor %}", ErrorKind::kUnsupported,
              "loop.cycle");
  ExpectError("{{ '\\101' }}", ErrorKind::kUnsupported, "the escape \\1 in a string");
  ExpectError("{% raw %}{{ x }}{% endraw %}", ErrorKind::kUnsupported, "the tag 'raw'");
  ExpectError("{% call m() %}{% endcall %}", ErrorKind::kUnsupported, "the tag 'call'");
  ExpectError("{{ 2 ** 3 }}", ErrorKind::kFormat, "expected an expression, found '*'");
}

TEST(JinjaErrors, SyntaxErrorsNameExpectedAndFound) {
  ExpectError("{% if n %}", ErrorKind::kFormat, "expected endif, found the end");
  ExpectError("{{ n n }}", ErrorKind::kFormat, "expected '}}', found 'n'");
  ExpectError("{% endif %}", ErrorKind::kFormat, "'endif' closes nothing");
  ExpectError("{% break %}", ErrorKind::kFormat, "'break' outside a loop");
  ExpectError("{{ }}", ErrorKind::kFormat, "expected an expression");
}

TEST(JinjaErrors, WrongUsesOfValues) {
  ExpectError("{{ xx.y }}", ErrorKind::kInput, "'xx' is undefined");
  ExpectError("{{ xx + 'a' }}", ErrorKind::kInput, "'xx' is undefined");
  ExpectError("{{ 'a' + 1 }}", ErrorKind::kInput, "str and int");
  ExpectError("{{ 9 // 0 }}", ErrorKind::kInput, "division by zero");
  ExpectError("{{ raise_exception('roles must alternate') }}", ErrorKind::kInput,
              "roles must alternate");
  ExpectError("{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}", ErrorKind::kInput, "takes at most 1");
  ExpectError("{{ 9223372036854775807 + 1 }}", ErrorKind::kUnsupported, "64 bits");
}

}  // namespace

}  // namespace banyan::jinja
