// The templates after a prompt: a chain of pieces with an answer at the end of each.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/json_row.h"
#include "tasks/extract/extract_panel.h"
#include "tasks/extract/extract_work.h"

namespace banyan {

PromptSegment& AppendPiece(PromptSegment& first, size_t length) {
  PromptSegment* last = &first;
  for (size_t i = 1; i < length; ++i) last = &last->below.front();
  return length == 0 ? first : last->below.emplace_back();
}

// Slots of one form copy from the same automaton.
std::shared_ptr<const Constraint> ExtractWork::ConstraintOf(const ValueSlot& slot,
                                                            std::string_view document,
                                                            Part& part) const {
  if (!slot.copies) return slot.constraint;
  if (reading_.together) {
    std::shared_ptr<const Constraint>& shared =
        reading_.together->made[fmt::format("{}\n{}", slot.rest, slot.form)];
    if (!shared) shared = CopyConstraint(slot, reading_.together->text, settings_.slots);
    return shared;
  }
  const auto place = static_cast<const void*>(document.data());
  std::shared_ptr<const Constraint>& made =
      part.copies[fmt::format("{}\n{}\n{}", place, slot.rest, slot.form)];
  if (!made) made = CopyConstraint(slot, document, settings_.slots);
  return made;
}

void ExtractWork::MakeConstraints(Part& part) const {
  std::vector<ValueSlot> allowed;
  for (size_t i = 0; i < slots(); ++i) {
    allowed.push_back(WithoutDenied(plan_.slots[i], part.documents[i / leaves()]));
  }
  if (sequential()) {
    part.constraints = {SequenceConstraint(allowed, part.documents.front(), settings_.slots)};
    return;
  }
  for (size_t i = 0; i < slots(); ++i) {
    part.constraints.push_back(ConstraintOf(allowed[i], part.documents[i / leaves()], part));
  }
}

AnswerRequest ExtractWork::RequestFor(const ValueSlot& slot, const AnswerPlace& place,
                                      std::shared_ptr<const Constraint> constraint) {
  AnswerRequest request;
  request.tag = places_.size();
  request.question_key = places_.size();
  places_.push_back(place);
  request.max_new = slot.max_tokens;
  request.stop_tokens = settings_.model->end_tokens();
  if (reading_.together) {
    request.panel = PanelOfSlot(slot, *constraint, *settings_.text, *records_.front().card);
  }
  request.constraint = std::move(constraint);
  return request;
}

// All values in one answer.
PromptSegment ExtractWork::Sequence(size_t part) {
  PromptSegment first;
  first.tokens = plan_.slots.front().tokens;
  first.answers.push_back(
      RequestFor(plan_.slots.front(), {part, {}, 0}, parts_[part].constraints.front()));
  first.answers.back().max_new = plan_.sequence_tokens;
  return first;
}

PromptSegment ExtractWork::Template(size_t part, SlotGroup group) {
  auto position = static_cast<std::int64_t>(parts_[part].prompt.tokens.size());
  PromptSegment first;
  for (size_t i = group.begin; i < group.end; ++i) {
    PromptSegment& piece = AppendPiece(first, i - group.begin);
    piece.tokens = plan_.slots[i].tokens;
    piece.answers.push_back(RequestFor(plan_.slots[i], {part, {}, i}, parts_[part].constraints[i]));
    if (!together() && !settings_.options.gaps) continue;
    piece.first_position = static_cast<std::int32_t>(position);
    position += static_cast<std::int64_t>(piece.tokens.size()) + plan_.slots[i].max_tokens;
  }
  first.skeleton = together();
  return first;
}

PromptSegment ExtractWork::ItemTemplate(size_t part, size_t item) {
  const ItemWork& work = parts_[part].items[item];
  auto position = static_cast<std::int64_t>(parts_[part].prompt.tokens.size());
  PromptSegment first;
  for (size_t i = 0; i < work.slots.size(); ++i) {
    PromptSegment& piece = AppendPiece(first, i);
    piece.tokens = work.slots[i].tokens;
    piece.answers.push_back(RequestFor(work.slots[i], {part, item, i}, work.constraints[i]));
    piece.first_position = static_cast<std::int32_t>(position);
    position += static_cast<std::int64_t>(piece.tokens.size()) + work.slots[i].max_tokens;
  }
  first.skeleton = together();
  return first;
}

PromptSegment ExtractWork::PromptOf(const Part& part, std::vector<PromptSegment> templates) {
  const auto begin = part.prompt.tokens.begin();
  const auto shared = begin + static_cast<std::ptrdiff_t>(part.prompt.shared_end);
  PromptSegment root;
  root.tokens.assign(begin, shared);
  PromptSegment& document = root.below.emplace_back();
  document.tokens.assign(shared, part.prompt.tokens.end());
  document.below = std::move(templates);
  return root;
}

std::vector<PromptSegment> ExtractWork::ValuePrompts() {
  const bool split = settings_.options.too_long == TooLong::kSplit && records_.size() == 1 &&
                     settings_.options.stack == 1;
  split ? FitParts() : FitWhole();
  std::vector<PromptSegment> prompts;
  for (size_t p = 0; p < parts_.size(); ++p) {
    MakeConstraints(parts_[p]);
    parts_[p].answers.resize(parts_[p].constraints.size());
    std::vector<PromptSegment> templates;
    if (sequential()) templates.push_back(Sequence(p));
    for (const SlotGroup& group : sequential() ? std::vector<SlotGroup>() : Groups()) {
      templates.push_back(Template(p, group));
    }
    prompts.push_back(PromptOf(parts_[p], std::move(templates)));
  }
  return prompts;
}

// The objects that the first stage named, each with a template for its other attributes.
void ExtractWork::FindItems(Part& part) const {
  const std::vector<WrittenValue> written = Written(part, 0);
  for (size_t n = 0; n < leaves(); ++n) {
    const Leaf& leaf = plan_.leaves[n];
    const std::vector<ExtractAttribute>& parts = leaf.attribute->parts;
    if (leaf.attribute->kind != ValueKind::kObjects || parts.size() < 2) continue;
    if (!written[n].json.is_array()) continue;
    size_t number = 0;
    for (const auto& item : written[n].json) {
      if (number == static_cast<size_t>(leaf.attribute->max_items)) break;
      ItemWork& work = part.items.emplace_back();
      work.leaf = n;
      work.number = number++;
      SlotRequest request = settings_.slots;
      for (size_t i = 1; i < parts.size(); ++i) {
        work.slots.push_back(MakeSlot(
            parts[i], i == 1 ? PieceOfItem(leaf, DumpJson(item)) : NextPieceOfItem(parts[i]),
            request));
        work.constraints.push_back(ConstraintOf(work.slots.back(), part.documents.front(), part));
      }
      work.answers.resize(work.slots.size());
    }
  }
}

std::vector<PromptSegment> ExtractWork::SecondPrompts() {
  std::vector<PromptSegment> prompts;
  for (size_t p = 0; p < parts_.size(); ++p) {
    Part& part = parts_[p];
    if (settings_.options.stack == 1) FindItems(part);
    FindDoubts(part);
    std::vector<PromptSegment> templates;
    for (size_t item = 0; item < part.items.size(); ++item) {
      templates.push_back(ItemTemplate(p, item));
    }
    for (const SlotGroup& group : Groups()) {
      const auto look = part.looks.lower_bound(group.begin);
      if (look == part.looks.end() || look->first >= group.end) continue;
      size_t last = look->first;
      for (const auto& [slot, asked] : part.looks) {
        if (slot < group.end) last = std::max(last, slot);
      }
      templates.push_back(LookTemplate(p, {group.begin, last + 1}));
    }
    if (!templates.empty()) prompts.push_back(PromptOf(part, std::move(templates)));
  }
  return prompts;
}

std::vector<WrittenValue> ExtractWork::Written(const Part& part, size_t document) const {
  if (sequential()) return ReadSequence(plan_.slots, *part.constraints[0], part.answers[0]);
  std::vector<WrittenValue> written;
  for (size_t i = document * leaves(); i < (document + 1) * leaves(); ++i) {
    written.push_back(ReadSlot(plan_.slots[i], *part.constraints[i], part.answers[i]));
  }
  return written;
}

}  // namespace banyan
