// The work on the documents of one prompt, one unless they are stacked. A document that does not
// fit the model's context is read in parts. A first stage asks for all values, a second one for
// what follows from them (SecondLookFinder).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tasks/extract/extract_prompt.h"
#include "tasks/extract/extract_rows.h"
#include "tasks/extract/extract_task.h"
#include "tasks/extract/extract_value.h"

namespace banyan {

// What the model wrote for the values of a document. [leaves]
std::vector<WrittenValue> WrittenValues(const ExtractStack& stack, const ExtractPart& part,
                                        size_t document);

// The first of the likeliest answers, with the tokens of all.
WrittenValue LikeliestOf(const SecondLook& look);

// What is asked after the first answers of a part are known: the objects of a list, once it is
// known how many there are, and values once more of which the first answer was not enough:
// - a null of which the model was not sure enough (the card's null_bias), without the choice of
//   null;
// - an enum's value that is less likely than not: every allowed value by its whole probability,
//   since the likeliest first token need not begin the likeliest value;
// - a text that no rule turns into the attribute's number or date: the model chooses among the
//   document's texts that have one, and null.
class SecondLookFinder {
 public:
  SecondLookFinder(const ExtractStack& stack, SlotConstraints& constraints)
      : stack_(stack), constraints_(constraints) {}

  // Fills in the part's items and looks. REQUIRES: the part's answers are there.
  void Find(ExtractPart& part) const;

 private:
  void FindItems(ExtractPart& part) const;
  void FindDoubts(ExtractPart& part, size_t document) const;
  std::vector<ValueSlot> SlotsOfDoubt(const ExtractPart& part, size_t slot,
                                      const WrittenValue& written) const;

  const ExtractStack& stack_;
  SlotConstraints& constraints_;
};

// Whether there is anything to read: without words a model could only invent values.
bool HasWords(std::string_view text);

class ExtractWork : public RecordWork {
 public:
  // The records have one plan.
  ExtractWork(const ExtractSettings& settings, std::vector<ExtractRecord> records,
              ReadingOptions reading = {});

  std::vector<PromptSegment> NextPrompts() override;
  void Take(Answer answer) override;
  void Refuse(const Error& error) override;
  // A row has the values of a document.
  std::int64_t row_count() const override {
    return static_cast<std::int64_t>(stack_.records.size());
  }
  OutputRow Row(size_t document) override;
  size_t RowOf(std::uint64_t tag) const override;

  // The text of the prompt, its template included.
  std::string Show() { return builder_.Show(); }
  // Its tokens, positions and slots, as JSON (WriteExtractLayouts).
  std::string Layout();

  // Once all answers are in.
  std::vector<ExtractedValue> Values(size_t document) const;
  // The same of one part of the only document, without those of other parts.
  std::vector<ExtractedValue> PartValues(size_t part) const {
    return ValuesOfPart(stack_, parts_[part], 0);
  }
  size_t parts() const override { return parts_.size(); }
  std::int64_t prompt_tokens() const;
  size_t cut_bytes(size_t document) const;  // to make the prompt fit
  const std::optional<RowProblem>& problem() const { return problem_; }

 private:
  std::vector<PromptSegment> FirstPrompts();
  std::vector<PromptSegment> SecondPrompts();

  const ExtractStack stack_;
  int stage_ = 0;  // 0: nothing asked yet, 1: values, 2: what follows from them
  std::optional<RowProblem> problem_;
  std::vector<ExtractPart> parts_;
  ExtractPromptBuilder builder_;
  SlotConstraints constraints_;
  TemplateWriter templates_;
};

}  // namespace banyan
