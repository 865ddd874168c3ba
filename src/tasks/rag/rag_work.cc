#include "tasks/rag/rag_work.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/json_row.h"
#include "base/spaces.h"
#include "tasks/job/null_answer.h"

namespace banyan {
namespace {

PromptSegment Segment(std::vector<TokenId> tokens) {
  PromptSegment segment;
  segment.tokens = std::move(tokens);
  return segment;
}

}  // namespace

RagWork::RagWork(const RagSettings& settings, RagRecord record, RowPlace place)
    : settings_(settings), record_(std::move(record)), place_(std::move(place)) {}

std::vector<PromptSegment> RagWork::NextPrompts() {
  if (problem_) return {};
  std::vector<PromptSegment> prompts;
  const RagMethod method = settings_.options.method;
  if (stage_ == Stage::kBegin && method == RagMethod::kMapReduce) {
    stage_ = Stage::kNotes;
    prompts.push_back(AskForNotes());
  } else if (stage_ == Stage::kBegin) {
    stage_ = Stage::kAnswer;
    if (method == RagMethod::kExperts) prompts.push_back(AskExperts(kAnswerTag, std::nullopt));
    if (method == RagMethod::kKvConcat) Take(AskJoined());
    if (method == RagMethod::kConcat) {
      prompts.push_back(AskOver(Joined(AllDocuments()), Request(kAnswerTag, AllDocuments())));
    }
    if (method == RagMethod::kTop1) {
      const size_t best = MostRelevant();
      prompts.push_back(AskOver(record_.documents[best].Shown(), Request(kAnswerTag, {best})));
    }
  } else if (stage_ == Stage::kNotes) {
    stage_ = Stage::kAnswer;
    const std::string notes = Joined(AllDocuments());
    if (!notes.empty()) prompts.push_back(AskOver(notes, Request(kAnswerTag, AllDocuments())));
  } else if (stage_ == Stage::kAnswer && settings_.options.verify) {
    stage_ = Stage::kVerify;
    prompts = AskWithoutCited();
  } else {
    stage_ = Stage::kDone;
  }
  return prompts;
}

void RagWork::Take(Answer answer) {
  if (answer.finish == FinishReason::kError && !problem_) {
    problem_ = {ErrorKind::kLimit, answer.error};
  }
  if (stage_ == Stage::kNotes) {
    const auto document = static_cast<size_t>(answer.tag) - 1;
    notes_[document] = std::move(answer);
  } else if (stage_ == Stage::kVerify) {
    left_out_.at(static_cast<size_t>(answer.tag) - 1).answer = std::move(answer);
  } else {
    answer_ = std::move(answer);
  }
}

void RagWork::Refuse(const Error& error) {
  if (!problem_) problem_ = {error.kind(), error.what()};
}

AnswerRequest RagWork::Request(std::uint64_t tag, const std::vector<size_t>& copied_from) const {
  AnswerRequest request;
  request.tag = tag;
  request.max_new = settings_.options.max_new;
  request.stop_tokens = settings_.model->end_tokens();
  request.stop_strings = settings_.options.stop;
  if (!settings_.options.copy) return request;
  std::vector<std::string_view> texts;
  for (const size_t document : copied_from) texts.emplace_back(record_.documents[document].text);
  const std::vector<std::string> nothing = {"null"};  // as SaysNothing reads it
  ConstraintOptions options;
  options.end_tokens = request.stop_tokens;
  options.mask_bytes = size_t{4} << 20;
  request.constraint = Constraint::FromCopies(texts, nothing, settings_.trie, options);
  return request;
}

std::vector<size_t> RagWork::AllDocuments(std::optional<size_t> left_out) const {
  std::vector<size_t> documents;
  for (size_t i = 0; i < record_.documents.size(); ++i) {
    if (i != left_out) documents.push_back(i);
  }
  return documents;
}

// system → document → question for every expert, system → question for the prior. Documents stand
// right after the system prompt, so questions that read the same ones share their KV. Where the one
// document is left out the prior answers alone.
PromptSegment RagWork::AskExperts(std::uint64_t tag, std::optional<size_t> left_out) {
  RagSegments segments = settings_.prompt->Encode("", record_.question);
  PromptSegment root = Segment(segments.system);
  root.keep_as = "system";
  const std::vector<size_t> read = AllDocuments(left_out);
  for (const size_t i : read) {
    const RagDocument& document = record_.documents[i];
    segments.document = settings_.prompt->Encode(document.Shown(), record_.question).document;
    PromptSegment& branch = root.below.emplace_back(Segment(Fitted(segments, document.id)));
    branch.keep_as =
        document.id.is_string() ? document.id.get<std::string>() : DumpJson(document.id);
    PromptSegment& leaf = branch.below.emplace_back(Segment(segments.question));
    leaf.experts.push_back({tag, document.relevance});
  }
  const std::vector<size_t> together = Together(left_out);
  if (!together.empty()) {
    segments.document = settings_.prompt->Encode(Joined(together), record_.question).document;
    PromptSegment& branch = root.below.emplace_back(Segment(Fitted(segments, Json("together"))));
    PromptSegment& leaf = branch.below.emplace_back(Segment(segments.question));
    leaf.experts.push_back({tag, record_.documents[together.front()].relevance});
  }
  PromptSegment& prior = root.below.emplace_back(Segment(segments.question));
  prior.answers.push_back(Request(tag, read));
  if (!read.empty()) prior.answers.back().panel = settings_.options.panel;
  return root;
}

// A request for every document that the answer cites. The keys and values of all others are there
// still, so only the answers are computed.
std::vector<PromptSegment> RagWork::AskWithoutCited() {
  std::vector<PromptSegment> prompts;
  const nlohmann::ordered_json citations = Citations(Pieces());
  for (size_t i = 0; i < record_.documents.size(); ++i) {
    const bool cited = std::ranges::any_of(citations, [&](const auto& citation) {
      return citation.at("document") == record_.documents[i].id;
    });
    if (!cited) continue;
    left_out_.push_back({i, {}});
    prompts.push_back(AskExperts(left_out_.size(), i));
  }
  return prompts;
}

// Without the engine: an answer whose documents do not see one another has no place in a tree.
Answer RagWork::AskJoined() {
  JoinedPrompt prompt;
  for (const RagDocument& document : record_.documents) {
    RagSegments segments = settings_.prompt->Encode(document.Shown(), record_.question);
    prompt.documents.push_back(Fitted(segments, document.id));
    prompt.system = std::move(segments.system);
    prompt.question = std::move(segments.question);
  }
  return settings_.joined->Ask(prompt, Request(kAnswerTag, {}));
}

PromptSegment RagWork::AskForNotes() {
  notes_.resize(record_.documents.size());
  PromptSegment root;
  for (size_t i = 0; i < record_.documents.size(); ++i) {
    const RagDocument& document = record_.documents[i];
    const RagSegments segments = settings_.map_prompt->Encode(document.Shown(), record_.question);
    root.tokens = segments.system;
    PromptSegment& branch = root.below.emplace_back(Segment(Fitted(segments, document.id)));
    PromptSegment& leaf = branch.below.emplace_back(Segment(segments.question));
    leaf.answers.push_back(Request(i + 1, {i}));
  }
  return root;
}

PromptSegment RagWork::AskOver(const std::string& document, AnswerRequest request) {
  const RagSegments segments = settings_.prompt->Encode(document, record_.question);
  PromptSegment root = Segment(segments.system);
  PromptSegment& context = root.below.emplace_back(Segment(Fitted(segments, Json("all"))));
  context.below.push_back(Segment(segments.question));
  context.below.back().answers.push_back(std::move(request));
  return root;
}

// The documents' texts, the most relevant first; of map-reduce, what was noted of them.
std::string RagWork::Joined(const std::vector<size_t>& documents) const {
  std::string joined;
  for (const size_t i : ByRelevance(record_.documents.size())) {
    if (std::ranges::find(documents, i) == documents.end()) continue;
    const std::string text = notes_.empty() ? record_.documents[i].Shown() : Said(notes_[i]);
    if (!notes_.empty() && SaysNothing(text)) continue;
    joined += joined.empty() ? text : "\n\n" + text;
  }
  return joined;
}

std::vector<size_t> RagWork::ByRelevance(size_t most) const {
  std::vector<size_t> order(record_.documents.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [&](size_t i) { return record_.documents[i].relevance; });
  order.resize(std::min(order.size(), most));
  return order;
}

// What the expert of --together reads; nothing where fewer than two documents are left.
std::vector<size_t> RagWork::Together(std::optional<size_t> left_out) const {
  std::vector<size_t> together = ByRelevance(static_cast<size_t>(settings_.options.together));
  if (left_out) std::erase(together, *left_out);
  if (together.size() < 2) together.clear();
  return together;
}

size_t RagWork::MostRelevant() const {
  const auto best =
      std::ranges::max_element(record_.documents, {}, [](const auto& d) { return d.relevance; });
  return static_cast<size_t>(best - record_.documents.begin());
}

// The document's tokens, as many as the model's context has room for.
std::vector<TokenId> RagWork::Fitted(const RagSegments& segments, const Json& document) {
  const auto window = static_cast<std::int64_t>(settings_.model->context_length());
  const auto needed = static_cast<std::int64_t>(segments.size()) + settings_.options.max_new;
  if (needed <= window) return segments.document;
  const std::int64_t room = window - needed + static_cast<std::int64_t>(segments.document.size());
  if (settings_.options.too_long == TooLong::kFail || room <= 0) {
    Throw(ErrorKind::kLimit,
          "too long: document {} makes a prompt of {} tokens and the answer may need {}; the "
          "model's context holds {} (see --too-long)",
          DumpJson(document), segments.size(), settings_.options.max_new, window);
  }
  if (std::ranges::find(truncated_, document) == truncated_.end()) truncated_.push_back(document);
  return {segments.document.begin(), segments.document.begin() + room};
}

std::string RagWork::Said(const Answer& answer) const {
  std::vector<TokenId> known;
  const int vocabulary = settings_.text->vocab_size();
  std::ranges::copy_if(answer.tokens, std::back_inserter(known),
                       [&](TokenId token) { return token >= 0 && token < vocabulary; });
  std::string text = answer.finish == FinishReason::kStopString
                         ? answer.text
                         : settings_.text->Decode(known, /*skip_special=*/true);
  // A copy that was cut short ends with its last whole word.
  if (settings_.options.copy && answer.finish == FinishReason::kLength) {
    const size_t end = std::string_view(text).find_last_of(kSpaces);
    if (end != std::string::npos) text.resize(end);
  }
  return std::string(Trimmed(text));
}

}  // namespace banyan
