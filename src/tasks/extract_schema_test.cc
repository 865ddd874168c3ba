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
  EXPECT_TRUE(laptop.attributes[0].is_text);
  EXPECT_EQ(laptop.attributes[0].examples, (std::vector<std::string>{"\"Sony\"", "\"LG\""}));
  EXPECT_EQ(Json::parse(laptop.attributes[0].json_schema),
            Json::parse(R"({"type":"string","minLength":1})"));
  EXPECT_EQ(laptop.attributes[1].type, "number in kg");
  EXPECT_TRUE(laptop.attributes[1].ends_bare);
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
  EXPECT_TRUE(shoe.attributes[1].ends_bare);
  EXPECT_TRUE(shoe.attributes[2].leave_out_null);
  EXPECT_TRUE(Json::parse(shoe.attributes[1].json_schema).contains("$defs"));
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

}  // namespace
}  // namespace banyan
