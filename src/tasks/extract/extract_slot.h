// The places of a category's values in the output template: the text before each, as tokens, and
// the form in which the model writes it. The form is not the type: a number is written as the text
// that stands in the document ("60 EUR") and becomes a number afterwards (extract_convert.h).
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/constrain.h"
#include "banyan/extract.h"
#include "banyan/text.h"

namespace banyan {

// An attribute that has a slot of its own: not an object, but the attributes inside it.
struct Leaf {
  const ExtractAttribute* attribute = nullptr;
  std::vector<std::string> path;  // names from the category down
  std::string name;               // the path with dots: what rows and messages call it
};
std::vector<Leaf> LeavesOf(const ExtractCategory& category);

// A value's place in the template.
struct ValueSlot {
  const ExtractAttribute* attribute = nullptr;
  std::string piece;            // the template's text before it
  std::vector<TokenId> tokens;  // of the piece, without `rest`
  std::string rest;             // the end of the piece's text, with which the answer begins
  std::string form;             // JSON Schema of what the model writes, with {"x-copied": true}
  std::string value_form;       // the same without null
  bool copies = false;          // the form has copies: its constraint is a document's
  std::shared_ptr<const Constraint> constraint;  // null when it copies
  int max_tokens = 0;
};

// What slots are made from; constraints that are equal are made once.
struct SlotRequest {
  std::shared_ptr<const Text> text;
  std::shared_ptr<const TokenTrie> trie;
  std::vector<TokenId> end_tokens;
  const ExtractOptions* options = nullptr;
  std::map<std::string, std::shared_ptr<const Constraint>> made = {};
};

// `piece`: the text before the value, up to its colon. Throws kUsage with the attribute's name for
// what cannot be made a constraint.
ValueSlot MakeSlot(const ExtractAttribute& attribute, std::string piece, SlotRequest& request);

// The same slot where null may not be written. Its constraint is a document's, copies or not.
ValueSlot WithoutNull(const ValueSlot& slot);

// The values of an enum that the document does not deny ("not green").
std::vector<std::string> AllowedBy(std::string_view document, const ExtractAttribute& attribute);

// The same slot with only those values; as it is when all are left, or none.
ValueSlot WithoutDenied(const ValueSlot& slot, std::string_view document);

// The same slot where only these texts may be written, and null if `or_null`. Their constraint is a
// document's. REQUIRES: one text at least.
ValueSlot WithOnly(const ValueSlot& slot, const std::vector<std::string>& texts, bool or_null);

// What an answer to the slot must match, when texts are copied from `document`.
std::shared_ptr<const Constraint> CopyConstraint(const ValueSlot& slot, std::string_view document,
                                                 const SlotRequest& request);
// The same for all values in one answer.
std::shared_ptr<const Constraint> SequenceConstraint(std::span<const ValueSlot> slots,
                                                     std::string_view document,
                                                     const SlotRequest& request);

// The text before leaf `n`'s value, closing the objects that end and opening those that begin.
// `first`: nothing is written before it.
std::string PieceBefore(std::span<const Leaf> leaves, size_t n, bool first);
// What closes the objects that are open after leaf `n`, without the category's own.
std::string ClosingAfter(std::span<const Leaf> leaves, size_t n);

// The template's text before the second attribute of one object of a list: the object's first
// attribute has the value `first_value` (JSON).
std::string PieceOfItem(const Leaf& list, const std::string& first_value);
// The same before a later attribute.
std::string NextPieceOfItem(const ExtractAttribute& attribute);

}  // namespace banyan
