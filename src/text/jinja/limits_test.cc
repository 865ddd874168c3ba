// Hostile and wrong templates: a clear error, never a hang, a crash or unbounded memory.
#include <gtest/gtest.h>

#include <string>

#include "banyan/error.h"
#include "text/jinja/examples.h"

namespace banyan::jinja {
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
