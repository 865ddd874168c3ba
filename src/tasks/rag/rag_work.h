// One record of `rag` on its way: its question over its documents as prompts, the answer as a row.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/constrain.h"
#include "banyan/model.h"
#include "banyan/rag.h"
#include "baseline/joined_context.h"
#include "tasks/job/task.h"
#include "tasks/rag/rag_prompt.h"
#include "tasks/rag/rag_record.h"

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
  std::shared_ptr<const TokenTrie> trie;  // for answers that are copied; else null
};

OutputRow RagErrorRow(const Json& id, const RowProblem& problem, const RowPlace& place);

class RagWork : public RecordWork {
 public:
  RagWork(const RagSettings& settings, RagRecord record, RowPlace place);

  std::vector<PromptSegment> NextPrompts() override;
  void Take(Answer answer) override;
  void Refuse(const Error& error) override;
  OutputRow Row(size_t) override;
  // Notes and answers without a document are not shown.
  bool IsPlain(std::uint64_t tag) const override { return tag == kAnswerTag; }

 private:
  static constexpr std::uint64_t kAnswerTag = 0;  // of the answer; others begin with 1
  enum class Stage { kBegin, kNotes, kAnswer, kVerify, kDone };
  // The answer once more, without one of the documents that it cites.
  struct LeftOut {
    size_t document = 0;
    Answer answer;
  };

  // rag_work.cc
  PromptSegment AskExperts(std::uint64_t tag, std::optional<size_t> left_out);
  std::vector<PromptSegment> AskWithoutCited();
  PromptSegment AskForNotes();
  Answer AskJoined();
  PromptSegment AskOver(const std::string& document, AnswerRequest request);
  std::string Joined(const std::vector<size_t>& documents) const;
  std::vector<size_t> ByRelevance(size_t most) const;
  std::vector<size_t> Together(std::optional<size_t> left_out) const;
  size_t MostRelevant() const;
  std::vector<TokenId> Fitted(const RagSegments& segments, const Json& document);
  AnswerRequest Request(std::uint64_t tag, const std::vector<size_t>& copied_from) const;
  std::vector<size_t> AllDocuments(std::optional<size_t> left_out = std::nullopt) const;
  std::string Said(const Answer& answer) const;

  // rag_rows.cc
  OutputRow AnswerRow() const;
  nlohmann::ordered_json Trace(const std::vector<std::string>& pieces) const;
  nlohmann::ordered_json Citations(const std::vector<std::string>& pieces) const;
  std::vector<size_t> ReadBy(std::int32_t expert) const;
  size_t WhoHas(const std::string& answer) const;
  nlohmann::ordered_json Stale(const nlohmann::ordered_json& citations) const;
  nlohmann::ordered_json Verified(const nlohmann::ordered_json& answer) const;
  std::vector<std::string> Pieces() const;

  const RagSettings& settings_;
  RagRecord record_;
  RowPlace place_;
  Stage stage_ = Stage::kBegin;
  std::optional<RowProblem> problem_;
  std::vector<Json> truncated_;  // ids of documents that were cut
  std::vector<Answer> notes_;    // map-reduce: [documents]
  Answer answer_;
  std::vector<LeftOut> left_out_;  // with --verify: [documents that are cited]
};

}  // namespace banyan
