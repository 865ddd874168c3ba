#include "kernels/units/product_decisions.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "base/decision_file.h"

namespace banyan {
namespace {

constexpr const char* kAlgorithm =
    "id 66 tile 18 stages 30 split 1 reduction 0 swizzle 0 custom 0 inner 0 cluster 5";

TEST(ProductDecisions, AnAlgorithmGoesThereAndBack) {
  const auto numbers = AlgorithmNumbersOf(kAlgorithm);
  ASSERT_TRUE(numbers);
  EXPECT_EQ(numbers->value, (std::array<std::int32_t, 9>{66, 18, 30, 1, 0, 0, 0, 0, 5}));
  EXPECT_EQ(TextOf(*numbers), kAlgorithm);
}

TEST(ProductDecisions, OtherTextIsNoAlgorithm) {
  const std::string whole = kAlgorithm;
  for (size_t length = 0; length < whole.size(); ++length) {
    EXPECT_FALSE(AlgorithmNumbersOf(whole.substr(0, length))) << length;
  }
  for (const std::string& text :
       {whole + " ", " " + whole, whole + "x", std::string("id 1"), std::string("tile 1 id 2")}) {
    EXPECT_FALSE(AlgorithmNumbersOf(text)) << text;
  }
  for (const char* number : {"-1", "65536", "99999999999999999999", "x", "", "+1", " 1", "1.5"}) {
    std::string text = whole;
    text.replace(text.find("66"), 2, number);
    EXPECT_FALSE(AlgorithmNumbersOf(text)) << text;
  }
}

TEST(ProductDecisions, AKeyGoesThereAndBack) {
  for (const char* text : {"6144 x 4096 float32, 256 rows", "1 x 2 swiglu, 4 rows, fast"}) {
    const auto key = ProductKeyOf(text);
    ASSERT_TRUE(key) << text;
    EXPECT_EQ(TextOf(*key), text);
  }
  const auto key = ProductKeyOf("6144 x 4096 float32, 256 rows");
  EXPECT_EQ(key->outputs, 6144);
  EXPECT_EQ(key->inner, 4096);
  EXPECT_EQ(key->form, "float32");
  EXPECT_EQ(key->most_rows, 256);
  for (const char* text :
       {"", "6144", "6144 x 4096", "6144 x 4096 float32", "6144 x 4096 float32, rows",
        "06144 x 4096 float32, 256 rows", "-1 x 4096 add, 4 rows", "1 x 1 add, 4 rowsx",
        "99999999999999999999 x 1 add, 4 rows", "1 x 1 add, 4 rows, "}) {
    EXPECT_FALSE(ProductKeyOf(text)) << text;
  }
}

TEST(ProductDecisions, TheBudgetIsAnAllowanceAndAShareOfTime) {
  MeasuringBudget budget(0.5, 0.1, 100.0);
  EXPECT_TRUE(budget.Allows(100.0));
  budget.Spend(0.4);
  EXPECT_TRUE(budget.Allows(100.0));
  budget.Spend(0.4);
  EXPECT_FALSE(budget.Allows(100.0));
  EXPECT_FALSE(budget.Allows(102.9));
  EXPECT_TRUE(budget.Allows(103.1));
  budget.Spend(1.0);
  EXPECT_FALSE(budget.Allows(112.9));
  EXPECT_TRUE(budget.Allows(113.1));
}

// The tables that ship: every line is a decision that could be meant for some product.
TEST(ProductDecisions, ShippedTablesAreWhole) {
  namespace fs = std::filesystem;
  const std::set<std::string_view> forms = {"float32", "add", "bias", "bf16", "swiglu"};
  const std::set<std::string> ours = {"plain", "many rows", "few rows, half", "few rows, most"};
  int tables = 0;
  for (const auto& entry : fs::directory_iterator(fs::path(BANYAN_SOURCE_DIR) /
                                                  "src/kernels/cuda/products/decisions")) {
    std::ifstream file(entry.path());
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const size_t tab = text.find('\t'), end = text.find('\n');
    ASSERT_LT(tab, end) << entry.path();
    const auto decisions = ParseDecisions(text, text.substr(tab + 1, end - tab - 1));
    EXPECT_EQ(DecisionText(decisions, text.substr(tab + 1, end - tab - 1)), text) << entry.path();
    for (const auto& [key, value] : decisions) {
      const auto product = ProductKeyOf(key);
      ASSERT_TRUE(product) << key;
      EXPECT_TRUE(forms.contains(product->form)) << key;
      EXPECT_TRUE(product->qualifier.empty()) << key;
      const bool library = value.starts_with("cublasLt ") && AlgorithmNumbersOf(value.substr(9));
      EXPECT_TRUE(library || ours.contains(value)) << key << ": " << value;
    }
    ++tables;
  }
  EXPECT_GE(tables, 1);
}

}  // namespace
}  // namespace banyan
