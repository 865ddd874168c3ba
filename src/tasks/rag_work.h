// One record of `rag` on its way: its question over its documents as prompts, the answer as a row.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/model.h"
#include "banyan/rag.h"
#include "engine/joined_context.h"
#include "tasks/ask_work.h"
#include "tasks/rag_prompt.h"
#include "tasks/rag_record.h"
#include "tasks/task.h"

namespace banyan {

// What all records of a job have in common; several threads work on records at once.
struct RagSettings {
  RagOptions options;
  std::shared_ptr<Model> model;
  std::shared_ptr<const Text> text;
  std::unique_ptr<RagPrompt> prompt;      // of answers
  std::unique_ptr<RagPrompt> map_prompt;  // of map-reduce's first stage
  std::unique_ptr<Retriever> retriever;
  std::unique_ptr<JoinedContext> joined;  // of kv-concat; else null
};

OutputRow RagErrorRow(const Json& id, const RowProblem& problem, const RowPlace& place);

class RagWork : public RecordWork {
 public:
  RagWork(const RagSettings& settings, RagRecord record, RowPlace place);

  std::vector<PromptSegment> NextPrompts() override;
  void Take(Answer answer) override;
  void Refuse(const Error& error) override;
  std::vector<OutputRow> Rows() override;

 private:
  enum class Stage { kBegin, kNotes, kAnswer, kDone };

  // rag_work.cc
  PromptSegment AskExperts();
  PromptSegment AskForNotes();
  Answer AskJoined();
  PromptSegment AskOver(const std::string& document);
  std::string Joined() const;
  size_t MostRelevant() const;
  std::vector<TokenId> Fitted(const RagSegments& segments, const Json& document);
  AnswerRequest Request(std::uint64_t tag) const;
  std::string Said(const Answer& answer) const;

  // rag_rows.cc
  OutputRow AnswerRow() const;
  nlohmann::ordered_json Trace(const std::vector<std::string>& pieces) const;
  nlohmann::ordered_json Citations(const std::vector<std::string>& pieces) const;
  std::vector<std::string> Pieces() const;

  const RagSettings& settings_;
  RagRecord record_;
  RowPlace place_;
  Stage stage_ = Stage::kBegin;
  std::optional<RowProblem> problem_;
  std::vector<Json> truncated_;  // ids of documents that were cut
  std::vector<Answer> notes_;    // map-reduce: [documents]
  Answer answer_;
};

}  // namespace banyan
