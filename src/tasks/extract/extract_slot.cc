// Pieces of the template with their tokens, and the constraints of values.
#include "tasks/extract/extract_slot.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/characters.h"
#include "base/error.h"
#include "base/json.h"
#include "values/convert.h"

namespace banyan {
namespace {

using OrderedJson = nlohmann::ordered_json;

// What the model may write after a value: the beginning of the template's next piece. A token may
// hold the end of a value and some of this; only the value is kept.
const std::vector<std::string> kAfterValue = {",", ",\n", "\n", "\n}", "}"};
// The same in a stack, where an object of values stands in the documents' object.
const std::vector<std::string> kAfterStackedValue = {",", ",\n", "\n",   "\n}",
                                                     "}", "},",  "},\n", "}}"};

// Beginnings that a value may have after a piece.
const std::vector<std::string> kValueBeginnings = {" \"A",  " \"the", " null", " 1",   " -2",
                                                   " true", " false", " [\"",  " {\"", " \"1"};

std::string Quoted(const std::string& name) { return DumpJson(OrderedJson(name)); }

OrderedJson SpanForm(bool copy) {
  if (copy) return {{"x-copied", true}};
  return {{"type", "string"}, {"minLength", 1}};
}

// What is written for a value that is not null.
OrderedJson FormOf(const ExtractAttribute& attribute, bool copy) {
  switch (attribute.kind) {
    case ValueKind::kBoolean:
      if (!attribute.nullable) return {{"type", "boolean"}};
      // A model that was not trained to write true or false copies the document's yes or no.
      return {{"anyOf", {{{"type", "boolean"}}, SpanForm(copy)}}};
    case ValueKind::kEnum:
      return {{"enum", attribute.allowed}};
    case ValueKind::kList:
    case ValueKind::kObjects:
      return {{"type", "array"}, {"items", FormOf(attribute.parts.front(), copy)}, {"minItems", 1}};
    case ValueKind::kSchema:
    case ValueKind::kObject:
      return OrderedJson::parse(attribute.json_schema);
    case ValueKind::kText:
    case ValueKind::kNumber:
    case ValueKind::kInteger:
    case ValueKind::kDate:
      break;
  }
  return SpanForm(copy);
}

int Budget(const ExtractAttribute& attribute, const ExtractOptions& options) {
  if (attribute.max_tokens > 0) return attribute.max_tokens;
  return options.max_tokens > 0 ? options.max_tokens : attribute.typical_tokens;
}

// A number may end only where something follows it; every other form ends by itself.
bool EndsBare(const ValueSlot& slot) { return slot.attribute->kind == ValueKind::kSchema; }

std::vector<std::string> AfterSlot(const ValueSlot& slot, const SlotRequest& request) {
  std::vector<std::string> after = request.options->stack > 1 ? kAfterStackedValue : kAfterValue;
  if (!EndsBare(slot)) after.insert(after.begin(), "");
  return after;
}

ConstraintOptions AnswerOptions(const SlotRequest& request, size_t mask_bytes) {
  ConstraintOptions options;
  options.end_tokens = request.end_tokens;
  options.end_when_complete = true;
  options.mask_bytes = mask_bytes;
  return options;
}

void AddLeaves(const std::vector<ExtractAttribute>& attributes, std::vector<std::string> path,
               std::vector<Leaf>& leaves) {
  for (const ExtractAttribute& attribute : attributes) {
    path.push_back(attribute.name);
    if (attribute.kind == ValueKind::kObject) {
      AddLeaves(attribute.parts, path, leaves);
    } else {
      leaves.push_back({&attribute, path, fmt::format("{}", fmt::join(path, "."))});
    }
    path.pop_back();
  }
}

// Objects that both leaves stand in.
size_t CommonObjects(const Leaf& a, const Leaf& b) {
  size_t n = 0;
  while (n + 1 < a.path.size() && n + 1 < b.path.size() && a.path[n] == b.path[n]) ++n;
  return n;
}

std::vector<TokenId> TokensOfPiece(const Text& text, std::string_view piece) {
  const TextPiece plain{piece, /*from_user=*/true};
  return text.EncodeRest({&plain, 1});
}

bool BeginsWith(const std::vector<TokenId>& tokens, const std::vector<TokenId>& beginning) {
  return tokens.size() >= beginning.size() &&
         std::equal(beginning.begin(), beginning.end(), tokens.begin());
}

// Where a template's piece ends and its value begins, in tokens. A model that writes the text
// itself cuts it where its tokenizer does: `"brand": "Sony"` is often `"brand":` and ` "` …, never
// a space alone. So the piece ends at the last place that is a boundary between tokens whatever
// value comes, and what is left of its text is the beginning of the value.
struct Joint {
  std::vector<TokenId> tokens;  // of the piece; empty: no boundary was found
  std::string rest;             // the end of its text, which is written with the value
};

// `values`: beginnings that values may have, each of them some characters long.
Joint FindJoint(const Text& text, std::string_view piece, std::span<const std::string> values) {
  std::vector<std::vector<TokenId>> whole;
  for (const std::string& value : values)
    whole.push_back(TokensOfPiece(text, std::string(piece) + value));
  for (size_t kept = piece.size(); kept > 0; --kept) {
    if (kept < piece.size() && !BeginsCharacter(piece[kept])) continue;
    Joint joint{TokensOfPiece(text, piece.substr(0, kept)), std::string(piece.substr(kept))};
    const bool boundary = std::ranges::all_of(
        whole, [&](const auto& tokens) { return BeginsWith(tokens, joint.tokens); });
    if (boundary && !joint.tokens.empty()) return joint;
  }
  return {{}, std::string(piece)};
}

}  // namespace

std::vector<Leaf> LeavesOf(const ExtractCategory& category) {
  std::vector<Leaf> leaves;
  AddLeaves(category.attributes, {}, leaves);
  return leaves;
}

ValueSlot MakeSlot(const ExtractAttribute& attribute, std::string piece, SlotRequest& request) {
  const auto refuse = [&](const std::string& why) {
    Throw(ErrorKind::kUsage, "{}: attribute '{}': {}", request.options->schema_name, attribute.name,
          why);
  };
  ValueSlot slot;
  slot.attribute = &attribute;
  slot.piece = std::move(piece);
  Joint joint = FindJoint(*request.text, slot.piece, kValueBeginnings);
  if (joint.tokens.empty()) refuse("the tokenizer has no boundary between its name and its value");
  slot.tokens = std::move(joint.tokens);
  slot.rest = std::move(joint.rest);
  slot.max_tokens = Budget(attribute, *request.options);
  OrderedJson form = FormOf(attribute, request.options->copy);
  if (attribute.nullable && attribute.kind != ValueKind::kSchema) {
    form = {{"anyOf", {std::move(form), {{"type", "null"}}}}};
  }
  slot.form = form.dump();
  ExtractAttribute wanted = attribute;
  wanted.nullable = false;
  slot.value_form = FormOf(wanted, request.options->copy).dump();
  slot.copies = request.options->copy && slot.form.find("\"x-copied\"") != std::string::npos &&
                attribute.kind != ValueKind::kSchema && attribute.kind != ValueKind::kEnum;
  if (slot.copies) return slot;
  const std::vector<std::string> after = AfterSlot(slot, request);
  const JsonSlot value{slot.rest + " ", slot.form};
  std::shared_ptr<const Constraint>& made =
      request.made[fmt::format("{}\n{}\n{}", slot.rest, after.size(), slot.form)];
  try {
    if (!made) {
      made = Constraint::FromJsonTemplate({&value, 1}, after, request.trie,
                                          AnswerOptions(request, size_t{8} << 20));
    }
  } catch (const Error& e) {
    refuse(e.what());
  }
  slot.constraint = made;
  return slot;
}

ValueSlot WithoutNull(const ValueSlot& slot) {
  ValueSlot wanted = slot;
  wanted.form = slot.value_form;
  wanted.copies = true;
  wanted.constraint = nullptr;
  return wanted;
}

ValueSlot WithOnly(const ValueSlot& slot, const std::vector<std::string>& texts, bool or_null) {
  ValueSlot wanted = WithoutNull(slot);
  wanted.value_form = OrderedJson{{"enum", texts}}.dump();
  wanted.form = or_null ? OrderedJson{{"anyOf", {{{"enum", texts}}, {{"type", "null"}}}}}.dump()
                        : wanted.value_form;
  return wanted;
}

std::vector<std::string> AllowedBy(std::string_view document, const ExtractAttribute& attribute) {
  const std::vector<std::string> denied = DeniedValues(document, attribute.allowed);
  std::vector<std::string> rest;
  std::ranges::copy_if(attribute.allowed, std::back_inserter(rest), [&](const std::string& value) {
    return std::ranges::find(denied, value) == denied.end();
  });
  return rest;
}

ValueSlot WithoutDenied(const ValueSlot& slot, std::string_view document) {
  const ExtractAttribute& attribute = *slot.attribute;
  if (attribute.kind != ValueKind::kEnum) return slot;
  const std::vector<std::string> rest = AllowedBy(document, attribute);
  if (rest.empty() || rest.size() == attribute.allowed.size()) return slot;
  return WithOnly(slot, rest, attribute.nullable);
}

std::shared_ptr<const Constraint> CopyConstraint(const ValueSlot& slot, std::string_view document,
                                                 const SlotRequest& request) {
  const JsonSlot value{slot.rest + " ", slot.form};
  return Constraint::FromCopyTemplate({&value, 1}, AfterSlot(slot, request), document, request.trie,
                                      AnswerOptions(request, size_t{4} << 20));
}

std::shared_ptr<const Constraint> SequenceConstraint(std::span<const ValueSlot> slots,
                                                     std::string_view document,
                                                     const SlotRequest& request) {
  std::vector<JsonSlot> values;
  for (size_t i = 0; i < slots.size(); ++i) {
    values.push_back({(i == 0 ? slots[i].rest : slots[i].piece) + " ", slots[i].form});
  }
  const std::vector<std::string> after = {"", "}", "\n}"};
  return Constraint::FromCopyTemplate(values, after, document, request.trie,
                                      AnswerOptions(request, size_t{16} << 20));
}

std::string PieceBefore(std::span<const Leaf> leaves, size_t n, bool first) {
  const Leaf& leaf = leaves[n];
  size_t open = 0;
  std::string piece = "{";
  if (!first) {
    const Leaf& before = leaves[n - 1];
    open = CommonObjects(before, leaf);
    piece = std::string(before.path.size() - 1 - open, '}') + ",\n";
  }
  for (; open + 1 < leaf.path.size(); ++open) piece += Quoted(leaf.path[open]) + ": {";
  return piece + Quoted(leaf.path.back()) + ":";
}

std::string ClosingAfter(std::span<const Leaf> leaves, size_t n) {
  return std::string(leaves[n].path.size() - 1, '}');
}

std::string PieceOfItem(const Leaf& list, const std::string& first_value) {
  std::string piece = "{";
  for (size_t i = 0; i + 1 < list.path.size(); ++i) piece += Quoted(list.path[i]) + ": {";
  const std::vector<ExtractAttribute>& parts = list.attribute->parts;
  return piece + fmt::format("{}: [{{{}: {},\n{}:", Quoted(list.path.back()), Quoted(parts[0].name),
                             first_value, Quoted(parts[1].name));
}

std::string NextPieceOfItem(const ExtractAttribute& attribute) {
  return ",\n" + Quoted(attribute.name) + ":";
}

}  // namespace banyan
