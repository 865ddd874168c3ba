// What all documents of a category have in common, made once: the prompt's texts, the slots of the
// template and how they are divided into skeletons.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "program/json_library.h"
#include "tasks/extract/extract_slot.h"

namespace banyan {

// Slots [begin, end) that are one template. A schema with more attributes than one template holds
// is divided; all its templates continue the same prompt.
struct SlotGroup {
  size_t begin = 0, end = 0;
};

// Leaves are the attributes that have a value of their own, in the order of the template.
struct CategoryPlan {
  const ExtractCategory* category = nullptr;
  std::vector<Leaf> leaves;
  std::string instruction;  // with the names of the leaves in it
  std::string names;        // of the leaves, separated by commas
  std::string attributes;   // of the leaves, a line for each: name, type, description
  // What the prompt says before the document beside the names; ends with "Text:".
  std::string details;
  std::string examples;           // few-shot, with an empty line at the end; empty: none
  std::vector<ValueSlot> slots;   // [documents of a stack * leaves]
  std::vector<SlotGroup> groups;  // of the slots, in order
  int sequence_tokens = 0;        // most tokens of one answer with all values
  // [leaves] The JSON Schema that a converted value must match.
  std::vector<std::shared_ptr<const Constraint>> fits;
  // [leaves] Of a list of objects: the same for the objects' attributes. Empty for others.
  std::vector<std::vector<std::shared_ptr<const Constraint>>> item_fits;
};

// `window`: tokens of the model's context. Throws kUsage with the attribute's name for a schema or
// pattern that cannot be made a constraint.
CategoryPlan PlanCategory(const ExtractCategory& category, SlotRequest& request,
                          std::int64_t window);

// The documents of one prompt, as the template has them.
std::string WriteDocuments(std::span<const std::string_view> documents);

}  // namespace banyan
