// Answers → what the model wrote in every slot: JSON, cut where a value ended or was cut off.
#pragma once

#include <nlohmann/json.hpp>

#include <span>
#include <string_view>
#include <vector>

#include "banyan/answer.h"
#include "tasks/extract/extract_slot.h"

namespace banyan {

struct WrittenValue {
  nlohmann::ordered_json
      json;                // null, a text, true or false, or a list; of a cut one what is whole
  bool truncated = false;  // it needed more tokens than it had
  int tokens = 0;
  double logprob = 0.0;                    // the sum over its tokens, of the logits without a mask
  std::vector<std::int32_t> experts = {};  // of a panel: Answer::experts
};

// The value of one slot. `constraint`: what its answer was held to.
WrittenValue ReadSlot(const ValueSlot& slot, const Constraint& constraint, const Answer& answer);
// All values of a template that were written one after another.
std::vector<WrittenValue> ReadSequence(std::span<const ValueSlot> slots,
                                       const Constraint& constraint, const Answer& answer);

// Where the JSON value that begins at `begin` ends; the text's end when it does not.
size_t JsonValueEnd(std::string_view text, size_t begin);

}  // namespace banyan
