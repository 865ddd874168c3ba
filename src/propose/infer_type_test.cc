#include "propose/infer_type.h"

#include <gtest/gtest.h>

#include <vector>

namespace banyan {
namespace {

std::string Type(std::vector<std::string> values, Expected expected = Expected::kAnything) {
  return InferType(values, expected).dump();
}

TEST(InferTypeTest, Numbers) {
  EXPECT_EQ(Type({"3", "12", "7"}), R"({"type":"integer"})");
  EXPECT_EQ(Type({"3.5", "12"}), R"({"type":"number"})");
  EXPECT_EQ(Type({"3 kg", "500 g", "1,5 kg"}), R"({"type":"number","unit":"kg"})");
  EXPECT_EQ(Type({"3 kg", "500 g"}), R"({"type":"number","unit":"kg"})");
  EXPECT_EQ(Type({"€ 60", "12,50 EUR"}), R"({"type":"number","unit":"EUR"})");
  EXPECT_EQ(Type({"$60", "12 EUR"}), R"({"type":"number","units":["USD","EUR"]})");
  EXPECT_EQ(Type({"60", "12"}, Expected::kMoney), R"({"type":"number"})");
  EXPECT_EQ(Type({"1001", "1002"}, Expected::kCode), R"({"type":"text"})");
  EXPECT_EQ(Type({"007", "012"}), R"({"type":"text"})");
  EXPECT_EQ(Type({"Model 200", "Model 300"}), R"({"type":"text"})");
}

TEST(InferTypeTest, DatesBooleansAndTexts) {
  EXPECT_EQ(Type({"31 May 2024", "1.6.2024"}), R"({"type":"date"})");
  EXPECT_EQ(Type({"31 May 2024", "1.6.2024"}, Expected::kDate), R"({"type":"date"})");
  EXPECT_EQ(Type({"yes", "no", "included"}), R"({"type":"boolean"})");
  EXPECT_EQ(Type({"red", "moss green"}), R"({"type":"text"})");
  EXPECT_EQ(Type({}), R"({"type":"text"})");
}

TEST(InferTypeTest, EnumsNeedManyRepeatedValues) {
  EXPECT_EQ(Type({"petrol", "diesel", "petrol", "Diesel", "petrol", "diesel"}),
            R"({"type":"enum","values":["diesel","petrol"]})");
  EXPECT_EQ(Type({"petrol", "diesel", "petrol", "diesel"}), R"({"type":"text"})");
  EXPECT_EQ(Type({"petrol", "petrol", "petrol", "petrol", "petrol", "gas"}), R"({"type":"text"})");
}

TEST(InferTypeTest, Lists) {
  EXPECT_EQ(Type({"salt, pepper, thyme", "salt"}), R"({"type":"list","of":"text"})");
  EXPECT_EQ(Type({"2 eggs; flour; milk", "1 egg; sugar"}), R"({"type":"list","of":"text"})");
  EXPECT_EQ(Type({"12 High St, Leeds, UK", "3 Low St, York, UK"}), R"({"type":"text"})");
  EXPECT_EQ(Type({"Smith, John, Jr"}, Expected::kWords), R"({"type":"text"})");
}

}  // namespace
}  // namespace banyan
