// `rag` as a task of the job runner, and the work on one record.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "banyan/rag.h"
#include "tasks/job/task.h"
#include "tasks/rag/rag_prompt.h"
#include "tasks/rag/rag_record.h"
#include "tasks/rag/rag_rows.h"

namespace banyan {

// A question over its documents as prompts, the answer as a row.
class RagWork : public RecordWork {
 public:
  RagWork(const RagSettings& settings, RagRecord record, RowPlace place);

  std::vector<PromptSegment> NextPrompts() override;
  void Take(Answer answer) override;
  void Refuse(const Error& error) override;
  OutputRow Row(size_t) override;
  // Notes and answers without a document are not shown.
  bool IsPlain(std::uint64_t tag) const override { return tag == kAnswerTag; }
  // Another answer may take the place of a copied one: it is shown when it is the last.
  LiveText::Rules ShowRules(std::uint64_t) const override { return {.sure = !settings_.copies}; }

 private:
  static constexpr std::uint64_t kAnswerTag = 0;  // of the answer; others begin with 1
  enum class Stage { kBegin, kNotes, kAnswer, kAlone, kVerify, kDone };

  std::vector<PromptSegment> AskFirst();
  std::vector<PromptSegment> AskOverNotes();
  std::vector<PromptSegment> AskAlone();
  std::vector<PromptSegment> AskWithoutCited();
  void PreferSurest();

  const RagSettings& settings_;
  const RagRecord record_;
  const RowPlace place_;
  Stage stage_ = Stage::kBegin;
  std::optional<RowProblem> problem_;
  RagRequests requests_;
  const RagRowWriter rows_;
  RagAnswers answers_;
};

class RagTask : public Task {
 public:
  // Throws kUsage for options that do not fit together, kUnsupported for a model without text side.
  RagTask(std::shared_ptr<Model> model, const RagOptions& options);

  std::string name() const override { return "rag"; }
  Json Parameters() const override;
  std::string Identity(const InputRow& row) const override;
  std::unique_ptr<RecordWork> Start(const InputRow& row) override;
  // The two halves of Start: one record may be asked in several ways.
  RagRecord Read(const Json& row) const;
  std::unique_ptr<RecordWork> Ask(RagRecord record, RowPlace place) const;
  TableColumns Columns() const override;
  OutputRow ErrorRow(const InputRow& row, const RowProblem& problem) const override;

 private:
  RagSettings settings_;
};

}  // namespace banyan
