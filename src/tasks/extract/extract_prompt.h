// The prompts of documents: text that fits the model's context, and after it the templates whose
// slots the model fills in.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/constrain.h"
#include "banyan/engine.h"
#include "tasks/extract/extract_task.h"
#include "tasks/prompt/prompt_encoder.h"

namespace banyan {

// Documents that write values together: the texts that these are copied from, with the constraints
// that were made of them.
inline constexpr char kBetweenDocuments = '\xFF';  // in no character, so no span goes over it
struct CopySource {
  std::string text;  // of all documents, with a line of kBetweenDocuments after each
  std::map<std::string, std::shared_ptr<const Constraint>> made = {};
};

// How a document is read that is one of several of an entity.
struct ReadingOptions {
  // Not null: values are written with the other documents, and copied from any of them.
  std::shared_ptr<CopySource> together;
  bool keep_unsure = false;  // whatever --min-confidence says
};

// The documents of one prompt, one unless they are stacked, and how they are read. Constant while
// they are.
struct ExtractStack {
  const ExtractSettings& settings;
  std::vector<ExtractRecord> records;  // one or more, with one plan
  ReadingOptions reading;

  const CategoryPlan& plan() const { return *records.front().plan; }
  bool sequential() const { return settings.options.values == ValueMode::kSequential; }
  bool skeleton() const { return settings.options.values == ValueMode::kSkeleton; }
  bool stacked() const { return settings.options.stack > 1; }
  size_t leaves() const { return plan().leaves.size(); }
  size_t slots() const { return records.size() * leaves(); }
  std::vector<SlotGroup> groups() const;
};

// What is read in one prompt: all documents of a stack, or a part of one document.
struct ExtractPrompt {
  std::vector<std::string_view> documents;
  size_t begin = 0;  // of the record's text, in bytes
  EncodedPrompt encoded;
};

class ExtractPromptBuilder {
 public:
  explicit ExtractPromptBuilder(const ExtractStack& stack) : stack_(stack) {}

  // All documents in one prompt, cut where the options say so; or one document in as many prompts
  // as it needs. Throws kLimit for what is too long.
  std::vector<ExtractPrompt> Build();
  // The text of the prompt with all documents as they are, its template included.
  std::string Show();

 private:
  std::string TextOf(std::span<const std::string_view> documents) const;
  std::vector<PromptPart> Write(std::string_view text);
  EncodedPrompt Encode(std::span<const std::string_view> documents);
  std::int64_t TemplateTokens() const;
  [[noreturn]] void RefuseLength(std::int64_t tokens) const;
  ExtractPrompt BuildWhole();
  std::vector<ExtractPrompt> BuildParts();

  const ExtractStack& stack_;
  std::deque<std::string> texts_;  // of variables that are no texts in the record
};

// What answers must match. Slots of one form copy from the same automaton.
class SlotConstraints {
 public:
  explicit SlotConstraints(const ExtractStack& stack) : stack_(stack) {}

  // Throws kInput where the document has nothing to copy.
  std::shared_ptr<const Constraint> Of(const ValueSlot& slot, std::string_view document);
  // Of all slots of the prompt, or one for all of them where values follow one another.
  std::vector<std::shared_ptr<const Constraint>> OfAll(const ExtractPrompt& prompt);

 private:
  const ExtractStack& stack_;
  std::map<std::string, std::shared_ptr<const Constraint>> copies_;  // by document and form
};

// One object of a list: the attributes after its first.
struct ListedObject {
  size_t leaf = 0, number = 0;
  std::vector<ValueSlot> slots;
  std::vector<std::shared_ptr<const Constraint>> constraints;  // [slots]
  std::vector<Answer> answers;                                 // [slots]
};

// A value that is asked for once more: the likeliest of these answers counts.
struct SlotCandidate {
  ValueSlot slot;
  std::shared_ptr<const Constraint> constraint;
  Answer answer;
};
using SecondLook = std::vector<SlotCandidate>;

// A prompt with its answers.
struct ExtractPart {
  ExtractPrompt prompt;
  std::vector<std::shared_ptr<const Constraint>> constraints;  // [slots], or one for all of them
  std::vector<Answer> answers;                                 // [slots], or one for all of them
  // The second stage:
  std::vector<ListedObject> items;
  std::map<size_t, SecondLook> looks;  // by slot
};

// Where an answer belongs.
struct SlotPlace {
  size_t part = 0;
  std::optional<size_t> item;
  size_t slot = 0;
  std::optional<size_t> candidate = {};  // of a second look
};

// Writes the templates after a prompt: chains of pieces with a request at the end of each.
class TemplateWriter {
 public:
  explicit TemplateWriter(const ExtractStack& stack) : stack_(stack) {}

  // The prompt with the templates of all its values. `number`: the part's.
  PromptSegment FirstStage(size_t number, const ExtractPart& part);
  // The prompt with the templates of its list items and second looks; nothing where it has none.
  std::optional<PromptSegment> SecondStage(size_t number, const ExtractPart& part);
  const SlotPlace& PlaceOf(std::uint64_t tag) const { return places_[tag]; }

 private:
  AnswerRequest RequestFor(const ValueSlot& slot, const SlotPlace& place,
                           std::shared_ptr<const Constraint> constraint);
  PromptSegment Sequence(size_t number, const ExtractPart& part);
  PromptSegment Values(size_t number, const ExtractPart& part, SlotGroup group);
  PromptSegment Item(size_t number, const ExtractPart& part, size_t item);
  PromptSegment Looks(size_t number, const ExtractPart& part, SlotGroup group);

  const ExtractStack& stack_;
  std::vector<SlotPlace> places_;  // [tags]
};

}  // namespace banyan
