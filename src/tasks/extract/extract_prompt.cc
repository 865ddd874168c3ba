// Text that fits comes first; templates with their positions and constraints follow.
#include "tasks/extract/extract_prompt.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "tasks/prompt/document_fitter.h"

namespace banyan {
namespace {

// An expert proposes tokens that have at least this share of its likeliest one's probability.
constexpr double kPlausibleShare = 0.1;

// The token that a null begins with; nothing where it is no token of null alone.
std::vector<TokenId> NullBeginning(const ValueSlot& slot, const Constraint& constraint,
                                   const Text& text) {
  const std::string before = slot.rest + " ", whole = before + "null";
  const std::vector<TextPiece> pieces = {{whole, /*from_user=*/true}};
  const std::vector<TokenId> tokens = text.EncodeRest(pieces);
  if (tokens.empty() || constraint.BytesOf({&tokens[0], 1}).size() <= before.size()) return {};
  return {tokens[0]};
}

// How the documents of an entity write the value of a slot together. The card's null_bias says from
// which probability on a null is believed: there a document abstains.
PanelOptions PanelOfSlot(const ValueSlot& slot, const Constraint& constraint, const Text& text,
                         const ModelCard& card) {
  PanelOptions panel;
  panel.prior = false;
  panel.rule = FusionRule::kMax;
  panel.scores = PanelScores::kNormalised;
  panel.beta_rule = BetaRule::kFixed;
  panel.beta = 0.0;
  panel.gamma = 0.0;
  panel.plausibility = kPlausibleShare;
  if (!slot.attribute->nullable || slot.attribute->kind == ValueKind::kSchema) return panel;
  panel.null_tokens = NullBeginning(slot, constraint, text);
  if (panel.null_tokens.empty()) return panel;
  panel.abstention = 1.0 / (1.0 + std::exp(std::min(card.null_bias.value_or(0.0), 0.0)));
  return panel;
}

// The pieces of slots, each below the one before; `ask` adds the requests after one of them. With a
// first position every value has the positions of its most tokens, however many it takes.
PromptSegment PieceChain(std::span<const ValueSlot> slots,
                         std::optional<std::int64_t> first_position,
                         const std::function<void(size_t slot, PromptSegment& piece)>& ask) {
  std::int64_t position = first_position.value_or(0);
  PromptSegment first;
  PromptSegment* piece = &first;
  for (size_t i = 0; i < slots.size(); ++i) {
    if (i > 0) piece = &piece->below.emplace_back();
    piece->tokens = slots[i].tokens;
    ask(i, *piece);
    if (!first_position) continue;
    piece->first_position = static_cast<std::int32_t>(position);
    position += static_cast<std::int64_t>(piece->tokens.size()) + slots[i].max_tokens;
  }
  return first;
}

PromptSegment WithTemplates(const ExtractPrompt& prompt, std::vector<PromptSegment> templates) {
  const auto begin = prompt.encoded.tokens.begin();
  const auto shared = begin + static_cast<std::ptrdiff_t>(prompt.encoded.shared_end);
  PromptSegment root;
  root.tokens.assign(begin, shared);
  PromptSegment& document = root.below.emplace_back();
  document.tokens.assign(shared, prompt.encoded.tokens.end());
  document.below = std::move(templates);
  return root;
}

// Where the first piece of a template stands; nothing where values take what they need.
std::optional<std::int64_t> GapsAfter(const ExtractPrompt& prompt, bool gaps) {
  if (!gaps) return std::nullopt;
  return static_cast<std::int64_t>(prompt.encoded.tokens.size());
}

}  // namespace

// The last stack of a category may be smaller than its plan.
std::vector<SlotGroup> ExtractStack::groups() const {
  if (stacked()) return {{0, slots()}};
  return plan().groups;
}

// --- The text that fits

std::vector<PromptPart> ExtractPromptBuilder::Write(std::string_view text) {
  const CategoryPlan& plan = stack_.plan();
  const auto shared = [](std::string_view value) {
    return PromptVariable{value, PromptLevel::kShared};
  };
  return stack_.settings.writer->Write(
      [&](const std::string& name) -> std::optional<PromptVariable> {
        if (name == "document" || name == "text") return PromptVariable{text, PromptLevel::kRecord};
        if (name == "question") return PromptVariable{"", PromptLevel::kQuestion};
        if (name == "instruction") return shared(plan.instruction);
        if (name == "attributes") return shared(plan.attributes);
        if (name == "examples") return shared(plan.examples);
        if (name == "category") return shared(plan.category->name);
        if (name == "names") return shared(plan.names);
        if (name == "details") return shared(plan.details);
        // The only record, where a template names its fields.
        const ExtractRecord& record = stack_.records.front();
        const auto carried = record.carried.find(name);
        if (name != "id" && carried == record.carried.end()) return std::nullopt;
        texts_.push_back(TextOrJson(name == "id" ? record.id : carried->second));
        return PromptVariable{texts_.back(), PromptLevel::kRecord};
      });
}

std::string ExtractPromptBuilder::TextOf(std::span<const std::string_view> documents) const {
  return stack_.stacked() ? WriteDocuments(documents) : std::string(documents.front());
}

EncodedPrompt ExtractPromptBuilder::Encode(std::span<const std::string_view> documents) {
  const EncoderPool::Lease encoder = stack_.settings.encoders->Take();
  const std::string text = TextOf(documents);
  return encoder.get()->Encode(Write(text));
}

// Positions that the longest template takes with its values.
std::int64_t ExtractPromptBuilder::TemplateTokens() const {
  const CategoryPlan& plan = stack_.plan();
  if (stack_.sequential()) {
    return static_cast<std::int64_t>(plan.slots.front().tokens.size()) + plan.sequence_tokens;
  }
  const bool gaps = stack_.skeleton() || stack_.settings.options.gaps;
  std::int64_t most = 0;
  for (const SlotGroup& group : stack_.groups()) {
    std::int64_t tokens = 0, largest = 0;
    for (size_t i = group.begin; i < group.end; ++i) {
      tokens += static_cast<std::int64_t>(plan.slots[i].tokens.size());
      if (gaps) tokens += plan.slots[i].max_tokens;
      largest = std::max<std::int64_t>(largest, plan.slots[i].max_tokens);
    }
    most = std::max(most, tokens + (gaps ? 0 : largest));
  }
  return most;
}

void ExtractPromptBuilder::RefuseLength(std::int64_t tokens) const {
  Throw(ErrorKind::kLimit,
        "too long: the prompt has {} tokens, its template and values need {}; the model's context "
        "holds {} (see --too-long{})",
        tokens, TemplateTokens(), stack_.settings.model->context_length(),
        stack_.stacked() ? " and --stack" : "");
}

std::vector<ExtractPrompt> ExtractPromptBuilder::Build() {
  const bool split = stack_.settings.options.too_long == TooLong::kSplit &&
                     stack_.records.size() == 1 && !stack_.stacked();
  if (split) return BuildParts();
  std::vector<ExtractPrompt> prompts;
  prompts.push_back(BuildWhole());
  return prompts;
}

ExtractPrompt ExtractPromptBuilder::BuildWhole() {
  const std::int64_t window = stack_.settings.model->context_length();
  const bool truncate = stack_.settings.options.too_long == TooLong::kTruncate;
  const size_t most = static_cast<size_t>(window) * kMostBytesOfToken;
  ExtractPrompt prompt;
  for (const ExtractRecord& record : stack_.records) {
    if (record.text.size() > most && !truncate) {
      RefuseLength(static_cast<std::int64_t>(record.text.size() / kMostBytesOfToken));
    }
    prompt.documents.push_back(PrefixOf(record.text, most));
  }
  const std::int64_t room = window - TemplateTokens();
  const auto tokens = [&] {
    prompt.encoded = Encode(prompt.documents);
    return static_cast<std::int64_t>(prompt.encoded.tokens.size());
  };
  const bool fits = truncate ? CutLongest(prompt.documents, room, tokens) : tokens() <= room;
  if (!fits) RefuseLength(static_cast<std::int64_t>(prompt.encoded.tokens.size()));
  return prompt;
}

std::vector<ExtractPrompt> ExtractPromptBuilder::BuildParts() {
  const std::string_view text = stack_.records.front().text;
  const std::string_view nothing;
  const auto around = static_cast<std::int64_t>(Encode({&nothing, 1}).tokens.size());
  const std::int64_t room = stack_.settings.model->context_length() - TemplateTokens();
  if (around >= room) RefuseLength(around);
  ExtractPrompt prompt;
  DocumentFitter fitter(text, room, around, [&](std::string_view part) {
    prompt.encoded = Encode({&part, 1});
    return static_cast<std::int64_t>(prompt.encoded.tokens.size());
  });
  std::vector<ExtractPrompt> prompts;
  size_t begin = 0;
  while (!fitter.done()) {
    if (prompts.size() == DocumentFitter::kMostParts) {
      Throw(ErrorKind::kLimit, "too long: the document has more than {} parts",
            DocumentFitter::kMostParts);
    }
    const std::optional<std::string_view> part = fitter.NextAdjacent();
    if (!part) RefuseLength(static_cast<std::int64_t>(prompt.encoded.tokens.size()));
    prompt.documents = {*part};
    prompt.begin = begin;
    begin += part->size();
    prompts.push_back(std::exchange(prompt, {}));
  }
  return prompts;
}

std::string ExtractPromptBuilder::Show() {
  const CategoryPlan& plan = stack_.plan();
  std::vector<std::string_view> documents;
  for (const ExtractRecord& record : stack_.records) documents.push_back(record.text);
  const std::string text = TextOf(documents);
  std::string shown;
  for (const PromptPart& part : Write(text)) shown += part.text;
  for (const SlotGroup& group : stack_.groups()) {
    if (group.begin > 0) shown += "}\n";
    for (size_t i = group.begin; i < group.end; ++i) shown += plan.slots[i].piece + " …";
  }
  const std::string close = ClosingAfter(plan.leaves, plan.leaves.size() - 1);
  return shown + close + (stack_.stacked() ? "}}" : "}");
}

// --- The templates

std::shared_ptr<const Constraint> SlotConstraints::Of(const ValueSlot& slot,
                                                      std::string_view document) {
  if (!slot.copies) return slot.constraint;
  const std::shared_ptr<CopySource>& together = stack_.reading.together;
  const auto place = static_cast<const void*>(document.data());
  std::shared_ptr<const Constraint>& made =
      together ? together->made[fmt::format("{}\n{}", slot.rest, slot.form)]
               : copies_[fmt::format("{}\n{}\n{}", place, slot.rest, slot.form)];
  if (!made)
    made = CopyConstraint(slot, together ? together->text : document, stack_.settings.slots);
  return made;
}

std::vector<std::shared_ptr<const Constraint>> SlotConstraints::OfAll(const ExtractPrompt& prompt) {
  const auto document_of = [&](size_t slot) { return prompt.documents[slot / stack_.leaves()]; };
  std::vector<ValueSlot> allowed;
  for (size_t i = 0; i < stack_.slots(); ++i) {
    allowed.push_back(WithoutDenied(stack_.plan().slots[i], document_of(i)));
  }
  if (stack_.sequential()) {
    return {SequenceConstraint(allowed, prompt.documents.front(), stack_.settings.slots)};
  }
  std::vector<std::shared_ptr<const Constraint>> constraints;
  for (size_t i = 0; i < stack_.slots(); ++i) {
    constraints.push_back(Of(allowed[i], document_of(i)));
  }
  return constraints;
}

AnswerRequest TemplateWriter::RequestFor(const ValueSlot& slot, const SlotPlace& place,
                                         std::shared_ptr<const Constraint> constraint) {
  AnswerRequest request;
  request.tag = places_.size();
  request.question_key = places_.size();
  places_.push_back(place);
  request.max_new = slot.max_tokens;
  request.stop_tokens = stack_.settings.model->end_tokens();
  if (stack_.reading.together) {
    request.panel =
        PanelOfSlot(slot, *constraint, *stack_.settings.text, *stack_.records.front().card);
  }
  request.constraint = std::move(constraint);
  return request;
}

PromptSegment TemplateWriter::FirstStage(size_t number, const ExtractPart& part) {
  std::vector<PromptSegment> templates;
  if (stack_.sequential()) {
    templates.push_back(Sequence(number, part));
  } else {
    for (const SlotGroup& group : stack_.groups()) {
      templates.push_back(Values(number, part, group));
    }
  }
  return WithTemplates(part.prompt, std::move(templates));
}

// All values in one answer.
PromptSegment TemplateWriter::Sequence(size_t number, const ExtractPart& part) {
  const ValueSlot& slot = stack_.plan().slots.front();
  PromptSegment first;
  first.tokens = slot.tokens;
  first.answers.push_back(RequestFor(slot, {number, {}, 0}, part.constraints.front()));
  first.answers.back().max_new = stack_.plan().sequence_tokens;
  return first;
}

PromptSegment TemplateWriter::Values(size_t number, const ExtractPart& part, SlotGroup group) {
  const std::span slots =
      std::span(stack_.plan().slots).subspan(group.begin, group.end - group.begin);
  const bool gaps = stack_.skeleton() || stack_.settings.options.gaps;
  PromptSegment first =
      PieceChain(slots, GapsAfter(part.prompt, gaps), [&](size_t i, PromptSegment& piece) {
        const size_t slot = group.begin + i;
        piece.answers.push_back(RequestFor(slots[i], {number, {}, slot}, part.constraints[slot]));
      });
  first.skeleton = stack_.skeleton();
  return first;
}

PromptSegment TemplateWriter::Item(size_t number, const ExtractPart& part, size_t item) {
  const ListedObject& asked = part.items[item];
  PromptSegment first = PieceChain(
      asked.slots, GapsAfter(part.prompt, /*gaps=*/true), [&](size_t i, PromptSegment& piece) {
        piece.answers.push_back(
            RequestFor(asked.slots[i], {number, item, i}, asked.constraints[i]));
      });
  first.skeleton = stack_.skeleton();
  return first;
}

// Answers only where a value is looked for again: values do not see one another here.
PromptSegment TemplateWriter::Looks(size_t number, const ExtractPart& part, SlotGroup group) {
  const std::span slots =
      std::span(stack_.plan().slots).subspan(group.begin, group.end - group.begin);
  const bool gaps = stack_.skeleton() || stack_.settings.options.gaps;
  return PieceChain(slots, GapsAfter(part.prompt, gaps), [&](size_t i, PromptSegment& piece) {
    const auto look = part.looks.find(group.begin + i);
    if (look == part.looks.end()) return;
    for (size_t c = 0; c < look->second.size(); ++c) {
      const SlotCandidate& candidate = look->second[c];
      piece.answers.push_back(
          RequestFor(candidate.slot, {number, {}, look->first, c}, candidate.constraint));
    }
  });
}

std::optional<PromptSegment> TemplateWriter::SecondStage(size_t number, const ExtractPart& part) {
  std::vector<PromptSegment> templates;
  for (size_t item = 0; item < part.items.size(); ++item) {
    templates.push_back(Item(number, part, item));
  }
  for (const SlotGroup& group : stack_.groups()) {
    const auto look = part.looks.lower_bound(group.begin);
    if (look == part.looks.end() || look->first >= group.end) continue;
    const size_t last = std::prev(part.looks.lower_bound(group.end))->first;
    templates.push_back(Looks(number, part, {group.begin, last + 1}));
  }
  if (templates.empty()) return std::nullopt;
  return WithTemplates(part.prompt, std::move(templates));
}

}  // namespace banyan
