// Tables of mentions and what becomes of them.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "values/convert.h"

namespace banyan {

// `json` is the value as it is printed; "null" with a part of the reason in `unit`.
struct ConversionCase {
  std::string_view raw;
  std::string_view json;
  std::string_view unit = "";
};

inline void ExpectConversions(const ValueWish& wish, const std::vector<ConversionCase>& cases) {
  for (const ConversionCase& c : cases) {
    const ConvertedValue converted = ConvertValue(c.raw, wish);
    EXPECT_EQ(converted.value.dump(), c.json) << "of '" << c.raw << "': " << converted.reason;
    if (c.json == "null") {
      EXPECT_FALSE(converted.reason.empty()) << c.raw;
      EXPECT_NE(converted.reason.find(c.unit), std::string::npos)
          << "of '" << c.raw << "': " << converted.reason;
      EXPECT_EQ(converted.unit, "") << c.raw;
    } else {
      EXPECT_EQ(converted.unit, c.unit) << "of '" << c.raw << "'";
      EXPECT_EQ(converted.reason, "") << c.raw;
    }
  }
}

inline ValueWish NumberIn(std::string unit) { return {ValueType::kNumber, std::move(unit), {}}; }

}  // namespace banyan
