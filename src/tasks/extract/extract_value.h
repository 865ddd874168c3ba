// What the model wrote in a slot (WrittenValue), and a value of a row with its confidence and its
// place in the text (ExtractedValue).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/answer.h"
#include "banyan/extract.h"
#include "program/json_library.h"
#include "tasks/extract/extract_slot.h"
#include "text/span.h"

namespace banyan {

struct WrittenValue {
  // Null, a text, a boolean or a list; of a truncated value, the part that is complete.
  nlohmann::ordered_json json;
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

// The end of the JSON value that begins at `begin`; the text's end if the value is not complete.
size_t JsonValueEnd(std::string_view text, size_t begin);

struct ExtractedValue {
  std::string name;  // "brand", "address.city", "items[1].price"
  const ExtractAttribute* attribute = nullptr;
  nlohmann::ordered_json value;
  nlohmann::ordered_json raw;  // as the model wrote it
  std::string unit;            // of a number that was written with one
  std::string reason;          // why it is null though something was written
  double confidence = 0.0;     // the probability that it is right
  // Characters of the record's text: of the value, or of every item of a list.
  std::vector<std::optional<TextSpan>> places;
  // Of an entity with several documents: the document of the value, or of every item of a list; the
  // other documents that say the same; and those that say otherwise, as rows have them.
  std::vector<nlohmann::ordered_json> sources, agreeing, conflicts;
  std::vector<std::int32_t> experts;  // of a panel: the document that won each token
  bool truncated = false;             // it needed more tokens than it had
  bool dropped = false;  // it was less sure than --min-confidence: `value` is null, `raw` is not
  int tokens = 0;

  bool grounded() const;  // every place is known
  // Makes the value null where its confidence is lower.
  void DropBelow(double min_confidence);
};

// The values of the parts of one document, by name, as one: of each the most confident that stands
// in the text; of lists all items, in the order of the parts. [parts][values]
std::vector<ExtractedValue> JoinParts(std::vector<std::vector<ExtractedValue>> parts);

// Values as the category nests them. An object without any value is null where it may be.
nlohmann::ordered_json AssembleValues(const ExtractCategory& category,
                                      const std::vector<ExtractedValue>& values);

}  // namespace banyan
