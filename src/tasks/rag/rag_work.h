// The work of `rag` on one record: notes, the answer, what documents answer alone, and answers
// without cited documents.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tasks/job/task.h"
#include "tasks/rag/rag_evidence.h"
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
  bool AsksAloneAtOnce() const;
  std::vector<PromptSegment> AskAlone();
  std::vector<PromptSegment> AskWithoutCited();
  void PreferSurest();
  RagEvidence EvidenceOf() const;

  const RagSettings& settings_;
  const RagRecord record_;
  const RowPlace place_;
  Stage stage_ = Stage::kBegin;
  std::optional<RowProblem> problem_;
  RagRequests requests_;
  const RagRowWriter rows_;
  RagAnswers answers_;
};

}  // namespace banyan
