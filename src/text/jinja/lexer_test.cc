#include "text/jinja/lexer.h"

#include <gtest/gtest.h>

#include <string>

#include "banyan/error.h"

namespace banyan::jinja {
namespace {

// Literal text of the template, tags as "|".
std::string Outline(std::string_view source) {
  std::string out;
  for (const Token& token : Tokenize(source, Limits())) {
    if (token.kind == TokenKind::kText) out += token.text;
    if (token.kind == TokenKind::kBlockBegin || token.kind == TokenKind::kVariableBegin) out += '|';
  }
  return out;
}

TEST(JinjaLexer, BlocksTakeTheirLineWithThem) {
  EXPECT_EQ(Outline("a\n  {% x %}\nb"), "a\n|b");
  EXPECT_EQ(Outline("a\n \t {% x %}  \nb"), "a\n|  \nb");
  EXPECT_EQ(Outline("a {% x %}\nb"), "a |b");
  EXPECT_EQ(Outline("  {% x %}b"), "|b");
}

TEST(JinjaLexer, VariablesKeepTheirLine) { EXPECT_EQ(Outline("a\n  {{ x }}\nb"), "a\n  |\nb"); }

TEST(JinjaLexer, SignsControlWhiteSpace) {
  EXPECT_EQ(Outline("a \n {%- x -%} \n b"), "a|b");
  EXPECT_EQ(Outline("a \n {{- x -}} \n b"), "a|b");
  EXPECT_EQ(Outline("a\n  {%+ x +%}\nb"), "a\n  |\nb");
  EXPECT_EQ(Outline("\u00a0{%- x -%}\u3000b"), "|b");
}

TEST(JinjaLexer, Comments) {
  EXPECT_EQ(Outline("a\n  {# {{ x }} #}\nb"), "a\nb");
  EXPECT_EQ(Outline("a {#- x -#} b"), "ab");
}

TEST(JinjaLexer, NewlinesAreNormalizedAndTheLastOneGoes) {
  EXPECT_EQ(Outline("a\r\nb\rc\n"), "a\nb\nc");
  EXPECT_EQ(Outline("a\n\n"), "a\n");
}

TEST(JinjaLexer, StringsAndNumbers) {
  const auto tokens = Tokenize(R"({{ 'a\n\x41\u00e9\'\q' 1000 1.5 x.0.1 }})", Limits());
  ASSERT_GE(tokens.size(), 9u);
  EXPECT_EQ(tokens[1].text, "a\nAé'\\q");
  EXPECT_EQ(tokens[2].text, "1000");
  EXPECT_EQ(tokens[3].text, "1.5");
  EXPECT_EQ(tokens[3].kind, TokenKind::kFloat);
  EXPECT_EQ(tokens[6].text, "0");  // x.0.1 is two indexes
  EXPECT_EQ(tokens[8].text, "1");
}

TEST(JinjaLexer, BracesInsideAnExpressionDoNotCloseIt) {
  const auto tokens = Tokenize("{{ {'a': {}} }}x", Limits());
  EXPECT_EQ(tokens[tokens.size() - 2].text, "x");
}

TEST(JinjaLexer, ErrorsNameTheLine) {
  for (const char* source : {"a\n{{ x", "a\n{# x", "a\n{{ 'x }}", "a\n{{ (1 }}", "a\n{{ 1) }}",
                             "a\n{{ ? }}", "a\n{{ '\\xg0' }}", "a\n{{ '\\ud800' }}"}) {
    try {
      Tokenize(source, Limits());
      FAIL() << source;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kFormat) << source;
      EXPECT_NE(std::string(error.what()).find("line 2"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace banyan::jinja
