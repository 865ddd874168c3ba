#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "banyan/extract.h"
#include "base/json.h"
#include "support/error_message.h"

namespace banyan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

ExtractSchema Parse(std::string_view text) { return ParseExtractSchema(text, "s.json"); }

std::string Refusal(std::string_view text) {
  return testing_support::ErrorMessage(ErrorKind::kUsage, [&] { Parse(text); });
}

TEST(ExtractSchemaTest, ReadsCategoriesAndTypes) {
  const ExtractSchema schema =
      Parse(R"({"categories": {"laptop": {"description": "d", "attributes": [
      {"name": "brand", "description": "the maker", "examples": ["Sony", "LG"], "nullable": false},
      {"name": "weight", "type": "number", "unit": "kg", "max_tokens": 7},
      {"name": "ports", "type": "list", "of": "text", "max_items": 3}]},
      "shoe": {"attributes": {"size": {}}}}})");
  ASSERT_EQ(schema.categories.size(), 2u);
  const ExtractCategory& laptop = *schema.Find("laptop");
  EXPECT_EQ(laptop.description, "d");
  ASSERT_EQ(laptop.attributes.size(), 3u);
  EXPECT_FALSE(laptop.attributes[0].nullable);
  EXPECT_EQ(laptop.attributes[0].kind, ValueKind::kText);
  EXPECT_EQ(laptop.attributes[0].examples, (std::vector<std::string>{"\"Sony\"", "\"LG\""}));
  EXPECT_EQ(Json::parse(laptop.attributes[0].json_schema),
            Json::parse(R"({"type":"string","minLength":1})"));
  EXPECT_EQ(laptop.attributes[1].type, "number in kg");
  EXPECT_EQ(laptop.attributes[1].kind, ValueKind::kNumber);
  EXPECT_EQ(laptop.attributes[1].unit, "kg");
  EXPECT_EQ(laptop.attributes[1].max_tokens, 7);
  EXPECT_EQ(Json::parse(laptop.attributes[1].json_schema),
            Json::parse(R"({"anyOf":[{"type":"number"},{"type":"null"}]})"));
  EXPECT_EQ(Json::parse(laptop.attributes[2].json_schema)["anyOf"][0],
            Json::parse(R"({"type":"array","items":{"type":"string","minLength":1},"minItems":1,
                           "maxItems":3})"));
  EXPECT_EQ(schema.Find("shoe")->attributes[0].name, "size");
  EXPECT_EQ(schema.Find("boat"), nullptr);
}

TEST(ExtractSchemaTest, ReadsAJsonSchema) {
  const ExtractSchema schema = Parse(R"({"title": "shoe", "type": "object", "properties": {
      "brand": {"type": "string", "title": "the maker"}, "size": {"$ref": "#/$defs/size"},
      "price": {"type": "number"}}, "required": ["brand"],
      "$defs": {"size": {"type": ["integer", "null"]}}})");
  const ExtractCategory& shoe = *schema.Find("shoe");
  ASSERT_EQ(shoe.attributes.size(), 3u);
  EXPECT_FALSE(shoe.attributes[0].nullable);
  EXPECT_EQ(shoe.attributes[0].description, "the maker");
  EXPECT_TRUE(shoe.attributes[1].nullable);
  EXPECT_FALSE(shoe.attributes[1].leave_out_null);
  EXPECT_EQ(shoe.attributes[1].kind, ValueKind::kInteger);
  EXPECT_TRUE(shoe.attributes[2].leave_out_null);
  EXPECT_TRUE(Json::parse(shoe.attributes[1].json_schema).contains("$defs"));
}

TEST(ExtractSchemaTest, ReadsObjectsAndListsOfThem) {
  const ExtractSchema schema = Parse(R"({"attributes": [
      {"name": "seller", "type": "object", "attributes": [{"name": "name"},
        {"name": "address", "type": "object", "attributes": {"city": {}}}]},
      {"name": "items", "type": "list", "max_items": 5, "of": {"type": "object", "attributes": [
        {"name": "what"}, {"name": "price", "type": "number", "unit": "EUR"}]}}]})");
  const std::vector<ExtractAttribute>& attributes = schema.categories[0].attributes;
  EXPECT_EQ(attributes[0].kind, ValueKind::kObject);
  EXPECT_EQ(attributes[0].parts[1].parts[0].name, "city");
  EXPECT_EQ(attributes[1].kind, ValueKind::kObjects);
  EXPECT_EQ(attributes[1].max_items, 5);
  EXPECT_EQ(attributes[1].type, "list of objects: what (text), price (number in EUR)");
}

TEST(ExtractSchemaTest, AJsonSchemaHasKinds) {
  const ExtractSchema schema = Parse(R"({"type": "object", "properties": {
      "day": {"type": "string", "format": "date"}, "on": {"type": ["boolean", "null"]},
      "colour": {"enum": ["red", "blue", null]}, "code": {"enum": [1, 2]},
      "tags": {"type": "array", "items": {"type": "string"}},
      "mixed": {"type": ["string", "number"]},
      "place": {"anyOf": [{"$ref": "#/$defs/place"}, {"type": "null"}]},
      "stops": {"type": "array", "items": {"$ref": "#/$defs/place"}}},
      "$defs": {"place": {"type": "object", "properties": {"city": {"type": "string"}}}}})");
  std::vector<ValueKind> kinds;
  for (const ExtractAttribute& attribute : schema.categories[0].attributes) {
    kinds.push_back(attribute.kind);
  }
  EXPECT_EQ(kinds, (std::vector<ValueKind>{ValueKind::kDate, ValueKind::kBoolean, ValueKind::kEnum,
                                           ValueKind::kSchema, ValueKind::kList, ValueKind::kSchema,
                                           ValueKind::kObject, ValueKind::kObjects}));
}

TEST(ExtractSchemaTest, RefusesWhatNothingFits) {
  EXPECT_THAT(Refusal(R"({"attributes": [{"name": "a", "type": "number", "minimum": 5,
                          "maximum": 1}]})"),
              HasSubstr("at /attributes/0/minimum: no number fits"));
  EXPECT_THAT(Refusal(R"({"attributes": [{"name": "a", "type": "object"}]})"),
              HasSubstr("at /attributes/0: an object needs 'attributes'"));
  EXPECT_THAT(Refusal(R"({"attributes": [{"name": "a", "type": "list", "of": {"type": "object",
                          "attributes": [{"name": "b", "type": "boolean"}]}}]})"),
              HasSubstr("told apart by their first attribute"));
}

TEST(ExtractSchemaTest, RefusesWithPlaceAndReason) {
  EXPECT_THAT(Refusal("{"), HasSubstr("s.json: line 1 (byte 2): not valid JSON"));
  EXPECT_THAT(Refusal("[]"), HasSubstr("s.json: expected an object, found array"));
  EXPECT_THAT(Refusal("{}"), HasSubstr("expected 'categories', 'attributes', or a JSON Schema"));
  EXPECT_THAT(Refusal(R"({"attributes": []})"), HasSubstr("s.json: at /attributes: expected"));
  EXPECT_THAT(Refusal(R"({"attributes": [{"name": "a", "type": "colour"}]})"),
              AllOf(HasSubstr("s.json: at /attributes/0/type: expected one of text, number"),
                    HasSubstr("found 'colour'")));
  EXPECT_THAT(Refusal(R"({"attributes": [{"name": "a", "typ": "text"}]})"),
              HasSubstr("at /attributes/0: 'typ' is not known here"));
  EXPECT_THAT(Refusal(R"({"attributes": [{"name": "a"}, {"name": "a"}]})"),
              HasSubstr("at /attributes: the attribute 'a' comes twice"));
  EXPECT_THAT(Refusal(R"({"attributes": {"a/b": {"type": "enum"}}})"),
              HasSubstr("at /attributes/a~1b: expected 'values'"));
  EXPECT_THAT(Refusal(R"({"attributes": [{"name": "a", "type": "list", "of": {"type": "x"}}]})"),
              HasSubstr("at /attributes/0/of/type: expected one of"));
  EXPECT_THAT(Refusal(R"({"attributes": [{"name": "a", "max_tokens": 0}]})"),
              HasSubstr("at /attributes/0/max_tokens: expected a whole number from 1"));
  EXPECT_THAT(Refusal(R"({"properties": {"a": {"type": "string"}}, "required": ["b"]})"),
              HasSubstr("at /required/0: expected the name of a property, found \"b\""));
}

TEST(ExtractSchema, ShortFormsMeanTheLongOnes) {
  const auto json = [](const char* text) {
    const ExtractSchema schema = ParseExtractSchema(text, "s.json");
    return ExtractSchema::ToJsonSchema(schema.categories.front());
  };
  const std::string expected = json(
      R"({"attributes": [{"name": "brand"}, {"name": "weight", "type": "number", "unit": "kg"},
          {"name": "colour", "type": "enum", "values": ["black", "white"]},
          {"name": "ports", "type": "list", "of": "text"},
          {"name": "sold", "type": "boolean", "nullable": false}]})");
  EXPECT_EQ(json(R"({"brand": "text", "weight": "number in kg", "colour": ["black", "white"],
                     "ports": "list of text", "sold": {"type": "boolean", "nullable": false}})"),
            expected);
  EXPECT_EQ(json(R"({"attributes": {"brand": "text", "weight": "number in kg",
                     "colour": ["black", "white"], "ports": "list of text",
                     "sold": {"type": "boolean", "nullable": false}}})"),
            expected);
  EXPECT_EQ(json(R"({"attributes": ["brand", {"name": "n", "type": "number"}]})"),
            json(R"({"brand": "text", "n": "number"})"));
  EXPECT_EQ(json(R"({"type": "text", "price": "number"})"),
            json(R"({"attributes": [{"name": "type"}, {"name": "price", "type": "number"}]})"));
  EXPECT_THAT(Refusal(R"({"brand": "txt"})"), HasSubstr("expected one of text, number"));
  EXPECT_THAT(Refusal(R"({"brand": "list of lists"})"), HasSubstr("expected one of text, number"));
}

}  // namespace
}  // namespace banyan
