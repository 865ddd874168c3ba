// Schemas: what fits, what is refused and where. tests/constrain/test_schemas.py validates random
// texts of random schemas with the Python package jsonschema.
#include "constrain/json_schema.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "constrain/automaton.h"
#include "support/error_message.h"
#include "support/random_match.h"

namespace banyan {
namespace {

using testing::HasSubstr;
using testing_support::ErrorMessage;
using testing_support::RandomMatches;

Dfa Compile(const char* schema) { return Dfa(Nfa(*ReadJsonSchema(schema))); }

bool Fits(const char* schema, std::string_view text) {
  const Dfa dfa = Compile(schema);
  return dfa.accepting(dfa.Next(dfa.start(), text));
}

TEST(JsonSchema, WritesPropertiesInOrderAndLeavesOutOptionalOnes) {
  const char* schema = R"({"type": "object", "properties": {
      "b": {"type": "integer"}, "a": {"type": "boolean"}, "c": {"type": "null"}},
      "required": ["a"]})";
  EXPECT_TRUE(Fits(schema, R"({"b":-12,"a":true,"c":null})"));
  EXPECT_TRUE(Fits(schema, R"({"b":0,"a":false})"));
  EXPECT_TRUE(Fits(schema, R"({"a":false,"c":null})"));
  EXPECT_TRUE(Fits(schema, R"({"a":false})"));
  EXPECT_FALSE(Fits(schema, R"({"b":1})"));
  EXPECT_FALSE(Fits(schema, R"({"b":1,})"));
  EXPECT_FALSE(Fits(schema, R"({"a":true,"b":1})"));
  EXPECT_FALSE(Fits(schema, R"({ "a":true})"));
  EXPECT_TRUE(Fits(R"({"properties": {"x": {"const": 1}}})", "{}"));
  EXPECT_TRUE(Fits(R"({"properties": {}})", "{}"));
  EXPECT_TRUE(Fits(R"({"properties": {"q\"\\/ü": {"const": "\n\""}}})", R"({"q\"\\/ü":"\n\""})"));
}

TEST(JsonSchema, TakesNamesWithAnyCharacter) {
  EXPECT_TRUE(Fits(R"({"properties": {"a\u0000b": {"const": 1}}, "required": ["a\u0000b"]})",
                   R"({"a\u0000b":1})"));
}

TEST(JsonSchema, BoundsNumbers) {
  const char* integer = R"({"type": "integer", "minimum": -12, "maximum": 1305})";
  const char* open = R"({"type": "integer", "exclusiveMinimum": 7})";
  for (int value = -1500; value <= 1500; ++value) {
    EXPECT_EQ(Fits(integer, std::to_string(value)), value >= -12 && value <= 1305) << value;
  }
  EXPECT_FALSE(Fits(open, "7"));
  EXPECT_TRUE(Fits(open, "8"));
  EXPECT_TRUE(Fits(open, "123456789012345"));
  EXPECT_FALSE(Fits(R"({"type": "integer"})", "-0"));
  EXPECT_FALSE(Fits(R"({"type": "integer"})", "01"));
  EXPECT_TRUE(Fits(R"({"type": "integer", "maximum": -3.5})", "-4"));
  EXPECT_FALSE(Fits(R"({"type": "integer", "maximum": -3.5})", "-3"));

  const char* number = R"({"type": "number", "exclusiveMinimum": -2, "maximum": 10})";
  for (const char* text : {"-1.99", "-1", "-0.5", "0", "0.001", "7", "9.999", "10", "10.0"}) {
    EXPECT_TRUE(Fits(number, text)) << text;
  }
  for (const char* text : {"-2", "-2.0", "-2.01", "-3", "10.01", "11", "1.", ".5", "1e3", "00"}) {
    EXPECT_FALSE(Fits(number, text)) << text;
  }
  EXPECT_FALSE(Fits(R"({"type": "number", "exclusiveMinimum": 0})", "0.000"));
  EXPECT_TRUE(Fits(R"({"type": "number", "exclusiveMinimum": 0})", "0.0001"));
}

TEST(JsonSchema, BoundsStringsAndArrays) {
  const char* text = R"({"type": "string", "minLength": 2, "maxLength": 3})";
  EXPECT_TRUE(Fits(text, R"("aé")"));
  EXPECT_TRUE(Fits(text, R"("\n😀\"")"));
  EXPECT_TRUE(Fits(text, R"("\ud83d\ude00a")"));
  EXPECT_FALSE(Fits(text, R"("\ud83d\ude00")"));  // one character
  EXPECT_FALSE(Fits(text, R"("\ud83daa")"));
  EXPECT_FALSE(Fits(text, R"("\ude00aa")"));
  EXPECT_FALSE(Fits(text, R"("a")"));
  EXPECT_FALSE(Fits(text, "\"a\nb\""));
  EXPECT_FALSE(Fits(text, R"("a"b")"));
  const char* array = R"({"type": "array", "items": {"enum": [1, "x"]}, "minItems": 1,
                          "maxItems": 2})";
  EXPECT_FALSE(Fits(array, "[]"));
  EXPECT_TRUE(Fits(array, "[1]"));
  EXPECT_TRUE(Fits(array, R"(["x",1])"));
  EXPECT_FALSE(Fits(array, "[1,1,1]"));
  EXPECT_TRUE(Fits(R"({"type": "array", "items": {"const": 1}})", "[]"));
  EXPECT_TRUE(Fits(R"({"type": "array", "maxItems": 0})", "[]"));
}

TEST(JsonSchema, LooksForPatternsWithin) {
  EXPECT_TRUE(Fits(R"({"type": "string", "pattern": "b+"})", R"("abbc")"));
  EXPECT_FALSE(Fits(R"({"type": "string", "pattern": "^b+"})", R"("abbc")"));
  EXPECT_TRUE(Fits(R"({"type": "string", "pattern": "^a|c$"})", R"("xc")"));
  EXPECT_TRUE(Fits(R"({"type": "string", "pattern": "^[\"\\\\\\n]+$"})", R"("\"\\\n")"));
  const char* limited = R"({"type": "string", "pattern": "^[A-Z][a-z]*$", "maxLength": 3})";
  EXPECT_TRUE(Fits(limited, R"("Abc")"));
  EXPECT_FALSE(Fits(limited, R"("Abcd")"));
  const char* date = R"({"type": "string", "format": "date"})";
  EXPECT_TRUE(Fits(date, R"("2024-02-29")"));
  EXPECT_TRUE(Fits(date, R"("2000-02-29")"));
  EXPECT_FALSE(Fits(date, R"("1900-02-29")"));
  EXPECT_FALSE(Fits(date, R"("2023-02-29")"));
  EXPECT_FALSE(Fits(date, R"("2023-04-31")"));
  EXPECT_FALSE(Fits(date, R"("0000-01-01")"));
}

TEST(JsonSchema, JoinsAlternativesAndReferences) {
  const char* schema = R"({"$ref": "#/$defs/item", "$defs": {
      "item": {"anyOf": [{"type": ["integer", "null"], "maximum": 1, "minimum": 1},
                         {"$ref": "#/$defs/n~1m"}]},
      "n/m": {"type": "string", "enum": ["x", 3], "nullable": true}}})";
  for (const char* text : {"1", "null", R"("x")"}) EXPECT_TRUE(Fits(schema, text)) << text;
  for (const char* text : {"2", "3", "\"y\""}) EXPECT_FALSE(Fits(schema, text)) << text;
  EXPECT_TRUE(Fits(R"({"oneOf": [
      {"properties": {"kind": {"const": "a"}}, "required": ["kind"]},
      {"properties": {"kind": {"enum": ["b", "c"]}}, "required": ["kind"]},
      {"type": "number"}]})",
                   R"({"kind":"c"})"));
}

TEST(JsonSchema, RefusesWithThePlace) {
  const auto refused = [](ErrorKind kind, const char* schema) {
    return ErrorMessage(kind, [&] { ReadJsonSchema(schema); });
  };
  constexpr auto kUnsupported = ErrorKind::kUnsupported;
  EXPECT_THAT(refused(ErrorKind::kFormat, "{"), HasSubstr("not valid JSON"));
  EXPECT_THAT(refused(ErrorKind::kInput, "3"), HasSubstr("schema at #: expected an object"));
  EXPECT_THAT(refused(kUnsupported, "true"), HasSubstr("not supported"));
  EXPECT_THAT(refused(kUnsupported, "{}"), HasSubstr("expected 'type'"));
  EXPECT_THAT(refused(kUnsupported, R"({"properties": {"a/b": {"type": "string", "minimum": 1}}})"),
              HasSubstr("#/properties/a~1b/minimum"));
  EXPECT_THAT(refused(kUnsupported, R"({"type": "number", "multipleOf": 2})"),
              HasSubstr("#/multipleOf"));
  EXPECT_THAT(refused(kUnsupported, R"({"type": "number", "minimum": 0.5})"),
              HasSubstr("#/minimum"));
  EXPECT_THAT(refused(kUnsupported, R"({"type": "string", "format": "email"})"),
              HasSubstr("#/format"));
  EXPECT_THAT(refused(ErrorKind::kInput, R"({"type": "string", "pattern": "a("})"),
              HasSubstr("#/pattern: pattern, character 2"));
  EXPECT_THAT(refused(kUnsupported, R"({"type": "string", "pattern": "a", "maxLength": 3})"),
              HasSubstr("cannot be combined"));
  EXPECT_THAT(refused(kUnsupported, R"({"$ref": "http://x/y"})"), HasSubstr("#/$ref"));
  EXPECT_THAT(refused(ErrorKind::kInput, R"({"$ref": "#/$defs/x"})"), HasSubstr("no such place"));
  EXPECT_THAT(refused(kUnsupported, R"({"properties": {"x": {"$ref": "#"}}})"),
              HasSubstr("contains itself"));
  EXPECT_THAT(refused(ErrorKind::kInput, R"({"type": "integer", "minimum": 2, "maximum": 1})"),
              HasSubstr("nothing fits"));
  EXPECT_THAT(refused(ErrorKind::kInput, R"({"type": "text"})"), HasSubstr("#/type"));
  EXPECT_THAT(refused(kUnsupported, R"({"properties": {}, "required": ["y"]})"), HasSubstr("'y'"));
  EXPECT_THAT(refused(kUnsupported, R"({"oneOf": [{"type": "integer"}, {"type": "number"}]})"),
              HasSubstr("#/oneOf/1"));
  // The same value, though its keys stand in another order, or a number is written otherwise.
  EXPECT_THAT(refused(kUnsupported, R"({"oneOf": [{"const": {"a": 1, "b": 2}},
                                                  {"enum": [3, {"b": 2.0, "a": 1}]}]})"),
              HasSubstr("#/oneOf/1"));
  EXPECT_THAT(refused(ErrorKind::kInput, R"({"enum": [1], "type": "string"})"),
              HasSubstr("nothing fits"));
  EXPECT_THAT(refused(kUnsupported, R"({"const": 1e20})"), HasSubstr("large"));
  std::string deep = "{\"type\":\"null\"}";
  for (int i = 0; i < 70; ++i) deep = R"({"type":"array","items":)" + deep + "}";
  EXPECT_THAT(refused(ErrorKind::kLimit, deep.c_str()), HasSubstr("deeper"));
}

// Laughs a billion times, and chains of references.
TEST(JsonSchema, EndsSoonOnHostileSchemas) {
  std::string laughs = R"({"$ref": "#/$defs/d0", "$defs": {)";
  for (int i = 0; i < 25; ++i) {
    laughs += fmt::format(
        R"("d{0}": {{"properties": {{"a": {{"$ref": "#/$defs/d{1}"}}, "b": {{"$ref": "#/$defs/d{1}"}}}}}},)",
        i, i + 1);
  }
  laughs += R"("d25": {"type": "string"}}})";
  EXPECT_THAT(ErrorMessage(ErrorKind::kLimit, [&] { Compile(laughs.c_str()); }),
              HasSubstr("more than"));
}

TEST(JsonSchema, EveryTextIsJsonThatFits) {
  const char* schema = R"({"type": "object", "properties": {
      "name": {"type": "string", "minLength": 1, "maxLength": 8},
      "code": {"type": "string", "pattern": "^[A-Z\"\\\\]{2}-\\d+$"},
      "price": {"type": ["number", "null"], "minimum": 0, "exclusiveMaximum": 500},
      "when": {"type": "string", "format": "date"},
      "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 3},
      "size": {"type": "object", "properties": {"w": {"type": "integer"}}, "required": ["w"]}},
      "required": ["name", "price"]})";
  const Dfa dfa = Compile(schema);
  RandomMatches texts(dfa);
  std::mt19937 random(11);
  for (int i = 0; i < 3000; ++i) {
    const std::string text = texts.Next(random);
    ASSERT_TRUE(dfa.accepting(dfa.Next(dfa.start(), text))) << text;
    const Json value = ParseJson(text, "text");
    ASSERT_TRUE(value.is_object() && value.at("name").is_string()) << text;
    ASSERT_FALSE(value.at("name").get<std::string>().empty());
    const Json& price = value.at("price");
    ASSERT_TRUE(price.is_null() || (price >= 0 && price < 500)) << text;
    if (value.contains("tags")) {
      ASSERT_LE(value.at("tags").size(), 3u);
    }
    if (value.contains("size")) {
      ASSERT_TRUE(value.at("size").at("w").is_number_integer());
    }
  }
}

}  // namespace
}  // namespace banyan
