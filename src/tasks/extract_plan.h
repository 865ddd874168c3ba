// What all documents of a category have in common, made once: the list of attributes as the prompt
// has it, the pieces of the template as tokens, and what every value must match.
#pragma once

#include <nlohmann/json.hpp>

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "banyan/constrain.h"
#include "banyan/extract.h"
#include "banyan/text.h"

namespace banyan {

// A value's place in the template.
struct ValueSlot {
  std::string piece;            // the template's text before it
  std::vector<TokenId> tokens;  // of the piece, as far as it is not written with the value
  std::string rest;             // what of the piece's text the value's answer begins with
  std::shared_ptr<const Constraint> constraint;
  int max_tokens = 0;
};

struct CategoryPlan {
  const ExtractCategory* category = nullptr;
  std::string instruction;  // with the names of the attributes in it
  std::string names;        // of the attributes, separated by commas
  std::string attributes;   // a line each
  // Before the document: what there is to say beside the names, with "Text:" at its end.
  std::string details;
  std::string examples;          // few-shot, with an empty line at the end; empty: none
  std::vector<ValueSlot> slots;  // [documents of a stack * attributes]
  // All values in one answer, after the first piece's tokens; null unless they are sequential.
  std::shared_ptr<const Constraint> whole;
  int whole_tokens = 0;
};

// What plans are made from; constraints that are equal are made once.
struct PlanRequest {
  std::shared_ptr<const Text> text;
  std::shared_ptr<const TokenTrie> trie;
  std::vector<TokenId> end_tokens;
  const ExtractOptions* options = nullptr;
  std::map<std::string, std::shared_ptr<const Constraint>> made = {};
};

// Throws kUsage with the attribute's name for a schema or pattern that cannot be made a constraint.
CategoryPlan PlanCategory(const ExtractCategory& category, PlanRequest& request);

// The documents of one prompt, as the template has them.
std::string WriteDocuments(std::span<const std::string_view> documents);

// The examples of a few-shot file: {"text","values","category"?} a line. Throws kUsage.
struct ExtractExample {
  std::string category, text;
  nlohmann::ordered_json values;
};
std::vector<ExtractExample> ReadFewShot(std::string_view text);

}  // namespace banyan
