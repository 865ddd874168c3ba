// Whether a value of a slot is right, by the type of its attribute.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "banyan/extract.h"
#include "base/json.h"
#include "program/score.h"

namespace banyan {

// "text", "number", "integer", "boolean", "date", "enum", "list" or "object".
using SlotType = std::string;

// The type that the attribute's values have, from its JSON Schema.
SlotType SlotTypeOf(const ExtractAttribute& attribute);

// From right values alone: "number", "boolean", "date" (a text like 2024-05-31), else "text". A
// list may be one of spellings: that is not told here, but by the value that is judged.
SlotType GuessSlotType(const Json& gold);

struct SlotJudgement {
  SlotOutcome outcome = SlotOutcome::kMissing;
  double share = 0.0;  // of an incorrect value: how much of the right one it has
};

// `value`: of the row, null where it has none; `gold`: null or [] where nothing is right. A list
// as gold is what a list is to have, or else the spellings that are right.
SlotJudgement JudgeSlot(const Json& value, const Json& gold, const SlotType& type);

inline bool IsNothing(const Json& gold) {
  return gold.is_null() || (gold.is_array() && gold.empty());
}

}  // namespace banyan
