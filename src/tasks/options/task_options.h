// What a task does with the table of its options: values are checked, wherever they come from, and
// the journal's header gets the values that make a job what it is.
#pragma once

#include "base/json.h"
#include "program/options.h"

namespace banyan {

// Throws kUsage: "--max-new: expected a whole number from 1, found 0"; texts must be valid UTF-8,
// those of a list not empty.
void CheckValue(const OptionFacts& facts, const OptionData& data);
// "--max-new": what the journal calls a row.
std::string IdentityName(const OptionFacts& facts);
// A text as the journal and the receipt have it: itself when it is short, else its hash.
Json TextParameter(const std::string& text);
// A row's value as the journal has it.
Json IdentityValue(const OptionFacts& facts, const OptionData& data);

template <typename Options>
void CheckValues(const Options& options) {
  for (const OptionRow<Options>& row : TableOf<Options>()) {
    const std::optional<OptionData> value = row.get(options);
    if (value) CheckValue(row, *value);
  }
}

// Every row that is part of the identity, by its name on the command line. Values that the task
// works out itself (whether a chat template is used) are for the caller to replace.
template <typename Options>
Json IdentityOf(const Options& options) {
  Json parameters = Json::object();
  for (const OptionRow<Options>& row : TableOf<Options>()) {
    if (row.identity == InIdentity::kNo || (row.counts && !row.counts(options))) continue;
    const std::optional<OptionData> value = row.get(options);
    if (!value || (row.identity == InIdentity::kUnlessDefault && value == row.default_value))
      continue;
    parameters[IdentityName(row)] = IdentityValue(row, *value);
  }
  return parameters;
}

}  // namespace banyan
