// The stages of each method: notes, answer, and answers without cited documents.
#include "tasks/rag/rag_work.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace banyan {

RagWork::RagWork(const RagSettings& settings, RagRecord record, RowPlace place)
    : settings_(settings),
      record_(std::move(record)),
      place_(std::move(place)),
      requests_(settings_, record_),
      rows_(settings_, record_) {}

std::vector<PromptSegment> RagWork::NextPrompts() {
  if (problem_) return {};
  switch (stage_) {
    case Stage::kBegin:
      return AskFirst();
    case Stage::kNotes:
      stage_ = Stage::kAnswer;
      return AskOverNotes();
    case Stage::kAnswer:
      if (!settings_.options.verify) break;
      stage_ = Stage::kVerify;
      return AskWithoutCited();
    case Stage::kVerify:
    case Stage::kDone:
      break;
  }
  stage_ = Stage::kDone;
  return {};
}

std::vector<PromptSegment> RagWork::AskFirst() {
  const RagMethod method = settings_.options.method;
  stage_ = method == RagMethod::kMapReduce ? Stage::kNotes : Stage::kAnswer;
  std::vector<PromptSegment> prompts;
  switch (method) {
    case RagMethod::kExperts:
      prompts.push_back(requests_.Experts(kAnswerTag));
      break;
    case RagMethod::kConcat: {
      const std::vector<size_t> all = record_.AllDocuments();
      const std::string text =
          record_.Joined(all, [&](size_t i) { return record_.documents[i].Shown(); });
      prompts.push_back(requests_.Over(text, kAnswerTag, all));
      break;
    }
    case RagMethod::kTop1: {
      const size_t best = record_.MostRelevant();
      prompts.push_back(requests_.Over(record_.documents[best].Shown(), kAnswerTag, {best}));
      break;
    }
    case RagMethod::kMapReduce:
      answers_.notes.resize(record_.documents.size());
      prompts.push_back(requests_.Notes());
      break;
    case RagMethod::kKvConcat:
      Take(requests_.AnswerKvConcat(kAnswerTag));
      break;
  }
  return prompts;
}

// The notes that are not null, as one text.
std::vector<PromptSegment> RagWork::AskOverNotes() {
  std::vector<std::string> notes;
  for (const Answer& note : answers_.notes) notes.push_back(rows_.TextOf(note));
  std::vector<size_t> telling = record_.AllDocuments();
  std::erase_if(telling, [&](size_t i) { return SaysNothing(notes[i]); });
  const std::string text = record_.Joined(telling, [&](size_t i) { return notes[i]; });
  std::vector<PromptSegment> prompts;
  if (!text.empty()) prompts.push_back(requests_.Over(text, kAnswerTag, record_.AllDocuments()));
  return prompts;
}

// A request for every document that the answer cites, without that document. The KV of
// all others is still cached, so only the answers are computed.
std::vector<PromptSegment> RagWork::AskWithoutCited() {
  std::vector<PromptSegment> prompts;
  const nlohmann::ordered_json citations = rows_.Citations(answers_.answer);
  for (size_t i = 0; i < record_.documents.size(); ++i) {
    if (!IsCited(citations, record_.documents[i])) continue;
    answers_.left_out.push_back({i, {}});
    prompts.push_back(requests_.Experts(answers_.left_out.size(), i));
  }
  return prompts;
}

void RagWork::Take(Answer answer) {
  if (answer.finish == FinishReason::kError && !problem_) {
    problem_ = {ErrorKind::kLimit, answer.error};
  }
  if (stage_ == Stage::kNotes) {
    const auto document = static_cast<size_t>(answer.tag) - 1;
    answers_.notes[document] = std::move(answer);
  } else if (stage_ == Stage::kVerify) {
    answers_.left_out.at(static_cast<size_t>(answer.tag) - 1).answer = std::move(answer);
  } else {
    answers_.answer = std::move(answer);
  }
}

void RagWork::Refuse(const Error& error) {
  if (!problem_) problem_ = {error.kind(), error.what()};
}

OutputRow RagWork::Row(size_t) {
  if (!problem_) {
    try {
      const bool map_reduce = settings_.options.method == RagMethod::kMapReduce;
      BANYAN_CHECK(stage_ == Stage::kDone || !answers_.answer.tokens.empty() || map_reduce);
      return rows_.Row(answers_, requests_.truncated());
    } catch (const std::exception& e) {
      problem_ = ProblemOf(e);
    }
  }
  return RagErrorRow(record_.id, *problem_, place_);
}

}  // namespace banyan
