// The documents of one prompt on their way, one unless they are stacked: the prompt with its
// templates after it, values as rows. A document that does not fit the model's context is read in
// parts. A second stage asks for the objects of a list, once it is known how many there are, and
// looks again at values of which the first answer was not enough (extract_again.cc).
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tasks/extract/extract_task.h"
#include "tasks/extract/extract_values.h"

namespace banyan {

// The next piece of a template: a chain that begins with `first` and has `length` pieces.
PromptSegment& AppendPiece(PromptSegment& first, size_t length);

// Documents that write values together: the texts that these are copied from, with the constraints
// that were made of them.
inline constexpr char kBetweenDocuments = '\xFF';  // in no character, so no span goes over it
struct CopySource {
  std::string text;  // of all documents, with a line of kBetweenDocuments after each
  std::map<std::string, std::shared_ptr<const Constraint>> made = {};
};

// How a document is read that is one of several of a thing.
struct ReadingOptions {
  // Not null: values are written with the other documents, and copied from any of them.
  std::shared_ptr<CopySource> together;
  bool keep_unsure = false;  // whatever --min-confidence says
};

// Whether there is anything to read: without words a model would only invent.
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
  std::int64_t row_count() const override { return static_cast<std::int64_t>(records_.size()); }
  OutputRow Row(size_t document) override;
  size_t RowOf(std::uint64_t tag) const override;

  // The text of the prompt, its template included.
  std::string Show();
  // Its tokens, positions and slots, as JSON (WriteExtractLayouts).
  std::string Layout();

  // Once all answers are in.
  std::vector<ExtractedValue> Values(size_t document) const;
  // The same of one part of the only document, without those of other parts.
  std::vector<ExtractedValue> PartValues(size_t part) const {
    return ValuesOfPart(parts_[part], 0);
  }
  size_t parts() const { return parts_.size(); }
  std::int64_t prompt_tokens() const;
  size_t cut_bytes(size_t document) const { return cut_bytes_[document]; }
  const std::optional<RowProblem>& problem() const { return problem_; }

 private:
  using Constraints = std::vector<std::shared_ptr<const Constraint>>;

  // One object of a list: the attributes after its first.
  struct ItemWork {
    size_t leaf = 0, number = 0;
    std::vector<ValueSlot> slots;
    Constraints constraints;      // [slots]
    std::vector<Answer> answers;  // [slots]
  };

  // A value that is asked for once more: the likeliest of these answers counts.
  struct Candidate {
    ValueSlot slot;
    std::shared_ptr<const Constraint> constraint;
    Answer answer;
  };
  using SecondLook = std::vector<Candidate>;

  // What is read in one prompt: all documents of a stack, or a part of one document.
  struct Part {
    std::vector<std::string_view> documents;
    size_t begin = 0;  // of the record's text, in bytes
    EncodedPrompt prompt;
    Constraints constraints;      // [slots], or one for all of them
    std::vector<Answer> answers;  // [slots], or one for all of them
    std::vector<ItemWork> items;
    std::map<size_t, SecondLook> looks;                               // by slot
    std::map<std::string, std::shared_ptr<const Constraint>> copies;  // by form and document
  };

  // Where an answer belongs.
  struct AnswerPlace {
    size_t part = 0;
    std::optional<size_t> item;
    size_t slot = 0;
    std::optional<size_t> candidate = {};  // of a second look
  };

  bool sequential() const { return settings_.options.values == ValueMode::kSequential; }
  bool together() const { return settings_.options.values == ValueMode::kSkeleton; }
  size_t leaves() const { return plan_.leaves.size(); }
  size_t slots() const { return records_.size() * leaves(); }
  std::vector<SlotGroup> Groups() const;

  // extract_fit.cc: which text goes into which prompt.
  std::vector<PromptPart> Write(std::string_view document);
  EncodedPrompt Encode(std::span<const std::string_view> documents);
  std::int64_t TokensAfterPrompt() const;
  [[noreturn]] void RefuseLength(std::int64_t tokens) const;
  void FitWhole();
  void FitParts();
  bool FitsWindow(const EncodedPrompt& prompt) const;

  // extract_template.cc: the pieces of the templates and what answers must match.
  std::shared_ptr<const Constraint> ConstraintOf(const ValueSlot& slot, std::string_view document,
                                                 Part& part) const;
  void MakeConstraints(Part& part) const;
  AnswerRequest RequestFor(const ValueSlot& slot, const AnswerPlace& place,
                           std::shared_ptr<const Constraint> constraint);
  PromptSegment Template(size_t part, SlotGroup group);
  PromptSegment Sequence(size_t part);
  PromptSegment ItemTemplate(size_t part, size_t item);
  static PromptSegment PromptOf(const Part& part, std::vector<PromptSegment> templates);
  std::vector<PromptSegment> ValuePrompts();
  std::vector<PromptSegment> SecondPrompts();
  void FindItems(Part& part) const;
  std::vector<WrittenValue> Written(const Part& part, size_t document) const;

  // extract_again.cc: values that are asked for once more.
  void FindDoubts(Part& part) const;
  std::vector<ValueSlot> SlotsOfDoubt(const Part& part, size_t slot,
                                      const WrittenValue& written) const;
  PromptSegment LookTemplate(size_t part, SlotGroup group);
  static WrittenValue LikeliestOf(const SecondLook& look);

  // extract_rows.cc: the rows.
  std::vector<ExtractedValue> ValuesOfPart(const Part& part, size_t document) const;
  OutputRow ValueRow(size_t document) const;

  const ExtractSettings& settings_;
  const CategoryPlan& plan_;
  std::vector<ExtractRecord> records_;
  ReadingOptions reading_;
  int stage_ = 0;  // 0: nothing asked yet, 1: values, 2: objects of lists
  std::optional<RowProblem> problem_;
  std::vector<Part> parts_;
  std::vector<AnswerPlace> places_;  // [tags]
  std::vector<size_t> cut_bytes_;    // of each document, to make the prompt fit
  std::deque<std::string> texts_;    // of variables that are no texts in the record
};

// extract_rows.cc: what rows are made of.
struct RowFacts {
  std::int64_t prompt_tokens = 0;
  size_t parts = 0;
  size_t stacked = 0;  // documents of its prompt; 0: they were not stacked
  size_t cut_bytes = 0;
};
OutputRow RowOfValues(const ExtractSettings& settings, const ExtractRecord& record,
                      const std::vector<ExtractedValue>& values, const RowFacts& facts);
OutputRow ErrorRowOf(const ExtractRecord& record, const RowProblem& problem);

}  // namespace banyan
