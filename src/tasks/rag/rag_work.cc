#include "tasks/rag/rag_work.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/json.h"

namespace banyan {

namespace {

constexpr size_t kMostAlone = 8;  // documents that are asked by themselves
// Of so few all may be asked at once with the experts: most rows of such steps are free, because
// reading the weights takes the time.
constexpr size_t kFewDocuments = 16;

}  // namespace

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
      stage_ = Stage::kAlone;
      if (std::vector<PromptSegment> prompts = AskAlone(); !prompts.empty()) return prompts;
      [[fallthrough]];
    case Stage::kAlone:
      PreferSurest();
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
      if (!AsksAloneAtOnce()) break;
      for (const size_t i : record_.ByRelevance(record_.documents.size())) {
        answers_.alone.push_back({i, {}});
      }
      prompts.push_back(requests_.Alone(record_.ByRelevance(record_.documents.size()), 0, {}));
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

bool RagWork::AsksAloneAtOnce() const {
  return settings_.in_haste && settings_.copies && record_.documents.size() <= kFewDocuments;
}

// What the documents that may have an answer say by themselves, and how sure the cited one is of
// this one. Their KV is cached, and documents that abstained are left out: a few rows and steps.
std::vector<PromptSegment> RagWork::AskAlone() {
  const Answer& answer = answers_.answer;
  const RagOptions& options = settings_.options;
  std::vector<RagAnswers::Alone> asked = std::exchange(answers_.alone, {});
  if (!settings_.copies || options.method != RagMethod::kExperts || answer.tokens.empty())
    return {};
  std::vector<size_t> documents;
  for (const size_t i : record_.ByRelevance(record_.documents.size())) {
    const bool known = i < answer.abstentions.size();
    if (known && answer.abstentions[i] >= options.panel.abstention) continue;
    if (documents.size() < kMostAlone) documents.push_back(i);
  }
  for (const size_t i : documents) {
    const auto known = std::ranges::find(asked, i, &RagAnswers::Alone::document);
    answers_.alone.push_back(known == asked.end() ? RagAnswers::Alone{i, {}} : std::move(*known));
  }
  const std::string said = rows_.TextOf(answer);
  bool scores = !SaysNothing(said);
  if (!asked.empty()) {
    documents.clear();
    scores = scores && !EvidenceOf().IsSaidAlone(answers_, said);
  }
  if (documents.empty() && !scores) return {};
  std::vector<PromptSegment> prompts;
  prompts.push_back(requests_.Alone(documents, scores ? rows_.SourceOf(answer, said) : 0,
                                    scores ? answer.tokens : std::vector<TokenId>()));
  return prompts;
}

RagEvidence RagWork::EvidenceOf() const {
  return {settings_, record_, [this](const Answer& one) { return rows_.TextOf(one); }};
}

// Experts together may say what none of them is sure of: then the answer is that of the document
// that is. The paper's rule (--switch token) stays as it is.
void RagWork::PreferSurest() {
  const std::string said = rows_.TextOf(answers_.answer);
  const bool words = settings_.options.panel.switching == SwitchRule::kWord;
  if (!words || answers_.alone.empty() || SaysNothing(said)) return;
  const std::optional<size_t> surer = EvidenceOf().ClearlySurer(answers_, said);
  if (!surer) return;
  const auto alone = std::ranges::find(answers_.alone, *surer, &RagAnswers::Alone::document);
  Answer chosen = alone->answer;
  Answer& joint = answers_.joint.emplace(std::move(answers_.answer));
  chosen.experts.assign(chosen.tokens.size(), static_cast<std::int32_t>(*surer));
  chosen.betas = joint.betas;
  chosen.abstentions = joint.abstentions;
  chosen.prompt_tokens = joint.prompt_tokens;
  chosen.cached_tokens = joint.cached_tokens;
  chosen.first_token_seconds = joint.first_token_seconds;
  chosen.seconds = joint.seconds;
  answers_.answer = std::move(chosen);
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
  } else if (answer.tag == RagRequests::kScoredTag) {
    answers_.scored = std::move(answer);
  } else if (stage_ == Stage::kAlone || (stage_ == Stage::kAnswer && answer.tag != kAnswerTag)) {
    answers_.alone.at(static_cast<size_t>(answer.tag) - 1).answer = std::move(answer);
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
  return RagErrorRow(record_.id, record_.question, *problem_, place_, record_.carried);
}

}  // namespace banyan
