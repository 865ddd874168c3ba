// The answer of a record → its row: text, citations, trace.
#include <algorithm>
#include <cmath>
#include <tuple>

#include "base/error.h"
#include "base/json_row.h"
#include "base/spaces.h"
#include "retrieve/words.h"
#include "tasks/job/null_answer.h"
#include "tasks/rag/rag_citation.h"
#include "tasks/rag/rag_work.h"
#include "text/text_parts.h"
#include "text/tokenizer.h"

namespace banyan {
namespace {

using OrderedJson = nlohmann::ordered_json;

double ToMicroseconds(double seconds) { return std::round(seconds * 1e6) / 1e6; }

}  // namespace

OutputRow RagWork::Row(size_t) {
  if (!problem_) {
    try {
      return AnswerRow();
    } catch (const std::exception& e) {
      problem_ = ProblemOf(e);
    }
  }
  return RagErrorRow(record_.id, *problem_, place_);
}

OutputRow RagErrorRow(const Json& id, const RowProblem& problem, const RowPlace& place) {
  OutputRow row;
  row.error = true;
  row.fields["id"] = id;
  row.fields["error"] = ErrorAt(place, problem);
  // As rows of `ask` have it, whose question has an id.
  row.identity = DumpJson(Json::array({id, nullptr, "error", ErrorKindName(problem.kind)}));
  return row;
}

OutputRow RagWork::AnswerRow() const {
  const RagOptions& options = settings_.options;
  OutputRow row;
  OrderedJson& fields = row.fields;
  const bool asked = stage_ == Stage::kDone || !answer_.tokens.empty();
  const bool no_notes = options.method == RagMethod::kMapReduce && answer_.tokens.empty();
  BANYAN_CHECK(asked || no_notes);
  fields["id"] = record_.id;
  fields["question"] = record_.question;
  const std::string said = no_notes ? std::string() : Said(answer_);
  fields["answer"] = SaysNothing(said) ? OrderedJson() : OrderedJson(said);
  fields["finish_reason"] = no_notes ? "stop" : FinishReasonName(answer_.finish);
  fields["tokens"] = answer_.tokens.size();
  fields["prompt_tokens"] = answer_.prompt_tokens;
  fields["method"] = RagMethodName(options.method);
  const std::vector<std::string> pieces = Pieces();
  fields["citations"] = Citations(pieces);
  if (!answer_.abstentions.empty()) {
    fields["abstained"] = std::ranges::count_if(
        answer_.abstentions, [&](double share) { return share >= options.panel.abstention; });
  }
  const OrderedJson stale = Stale(fields["citations"]);
  if (!stale.empty()) fields["stale"] = stale;
  if (!left_out_.empty()) fields["verified"] = Verified(fields["answer"]);
  if (!record_.dropped.empty()) fields["dropped"] = record_.dropped;
  if (!record_.empty.empty()) fields["empty"] = record_.empty;
  if (!truncated_.empty()) fields["truncated"] = truncated_;
  if (options.trace) fields["trace"] = Trace(pieces);
  fields["first_token_seconds"] = ToMicroseconds(answer_.first_token_seconds);
  fields["seconds"] = ToMicroseconds(answer_.seconds);
  row.identity =
      DumpJson(OrderedJson::array({record_.id, fields["answer"], fields["finish_reason"]}));
  const OrderedJson ours = fields;
  for (const auto& [name, value] : record_.carried.items()) {
    const bool taken = ours.contains(name) || name == "error";
    fields[taken ? "input_" + name : name] = value;
  }
  return row;
}

// The text that every token completes, in whole characters; a stop token adds none.
std::vector<std::string> RagWork::Pieces() const {
  StreamDecoder decoder(settings_.text->parts().tokenizer, /*skip_special=*/true);
  std::vector<std::string> pieces;
  for (const TokenId token : answer_.tokens) pieces.push_back(decoder.Push(token));
  return pieces;
}

// Documents with what they count, tokens with whom they are owed to.
OrderedJson RagWork::Trace(const std::vector<std::string>& pieces) const {
  OrderedJson trace;
  OrderedJson& documents = trace["documents"] = OrderedJson::array();
  for (size_t i = 0; i < record_.documents.size(); ++i) {
    const RagDocument& document = record_.documents[i];
    OrderedJson entry = {{"id", document.id}, {"relevance", document.relevance}};
    if (document.score) entry["score"] = *document.score;
    if (document.logit) entry["logit"] = *document.logit;
    if (i < answer_.betas.size()) entry["beta"] = answer_.betas[i];
    if (i < answer_.abstentions.size()) entry["null"] = answer_.abstentions[i];
    if (i < notes_.size()) entry["note"] = Said(notes_[i]);
    documents.push_back(std::move(entry));
  }
  OrderedJson together = OrderedJson::array();
  for (const size_t i : Together({})) {
    together.push_back(OrderedJson(record_.documents[i].id));
  }
  if (!together.empty()) {
    OrderedJson& entry = trace["together"] = {{"documents", together}};
    const size_t expert = record_.documents.size();
    if (expert < answer_.betas.size()) entry["beta"] = answer_.betas[expert];
    if (expert < answer_.abstentions.size()) entry["null"] = answer_.abstentions[expert];
  }
  OrderedJson& tokens = trace["tokens"] = OrderedJson::array();
  for (size_t t = 0; t < pieces.size(); ++t) {
    OrderedJson entry = {{"text", pieces[t]}};
    if (t < answer_.experts.size()) {
      const std::vector<size_t> read = ReadBy(answer_.experts[t]);
      if (read.size() == 1) {
        entry["document"] = record_.documents.at(read.front()).id;
      } else {
        entry["documents"] = together;
      }
    }
    if (std::isfinite(answer_.logprobs[t])) entry["logprob"] = answer_.logprobs[t];
    tokens.push_back(std::move(entry));
  }
  return trace;
}

// Of experts: what each document in turn wrote. Else, and of what was copied: documents that have
// the answer in them, as far as they were read.
OrderedJson RagWork::Citations(const std::vector<std::string>& pieces) const {
  OrderedJson citations = OrderedJson::array();
  const std::string answer = Said(answer_);
  if (SaysNothing(answer)) return citations;  // nobody wrote anything
  const auto cite = [&](const RagDocument& document, std::string_view text) {
    if (IsBlank(text)) return;
    OrderedJson citation = CitationOf(document, Trimmed(text));
    // What is but a mark between words of others is nobody's.
    const bool says = citation.contains("begin") || !WordsOf(text).empty();
    if (says && std::ranges::find(citations, citation) == citations.end()) {
      citations.push_back(std::move(citation));
    }
  };
  const bool experts = settings_.options.method == RagMethod::kExperts;
  if (experts && settings_.options.copy) {
    cite(record_.documents[WhoHas(answer)], answer);
    return citations;
  }
  if (experts) {
    for (size_t t = 0; t < pieces.size();) {
      const std::int32_t winner = answer_.experts[t];
      std::string text;
      for (; t < pieces.size() && answer_.experts[t] == winner; ++t) text += pieces[t];
      if (WordsOf(text).empty()) continue;
      const std::vector<size_t> read = ReadBy(winner);
      for (const size_t i : read) {
        const RagDocument& document = record_.documents.at(i);
        if (read.size() == 1 || FindWords(document.text, Trimmed(text))) cite(document, text);
      }
    }
    return citations;
  }
  const bool top1 = settings_.options.method == RagMethod::kTop1;
  for (size_t i = 0; i < record_.documents.size(); ++i) {
    if (top1 && i != MostRelevant()) continue;
    const RagDocument& document = record_.documents[i];
    if (FindWords(document.text, answer)) cite(document, answer);
  }
  return citations;
}

// Experts are the documents in their order, then the one that reads several together.
std::vector<size_t> RagWork::ReadBy(std::int32_t expert) const {
  const auto one = static_cast<size_t>(expert);
  if (one < record_.documents.size()) return {one};
  return Together({});
}

// Of the documents that have the answer in them the one that wrote most of its tokens, else the
// most relevant; where none has it, the same of all.
size_t RagWork::WhoHas(const std::string& answer) const {
  std::vector<std::int64_t> written(record_.documents.size(), 0);
  for (const std::int32_t winner : answer_.experts) {
    for (const size_t i : ReadBy(winner)) ++written.at(i);
  }
  const auto rank = [&](size_t i) {
    const RagDocument& document = record_.documents[i];
    const bool has = FindWords(document.text, answer).has_value();
    return std::tuple(has, written[i], document.relevance);
  };
  size_t best = 0;
  for (size_t i = 1; i < record_.documents.size(); ++i) {
    if (rank(i) > rank(best)) best = i;
  }
  return best;
}

// Cited files that are not what was indexed: {"source","state"}.
OrderedJson RagWork::Stale(const OrderedJson& citations) const {
  OrderedJson stale = OrderedJson::array();
  for (const RagDocument& document : record_.documents) {
    const bool cited = std::ranges::any_of(
        citations, [&](const auto& citation) { return citation.at("document") == document.id; });
    if (!cited || document.passage < 0) continue;
    const SourceState state = settings_.options.index->StateOf(document.passage);
    if (state == SourceState::kSame) continue;
    OrderedJson entry = {{"source", document.source},
                         {"state", state == SourceState::kGone ? "gone" : "changed"}};
    if (std::ranges::find(stale, entry) == stale.end()) stale.push_back(std::move(entry));
  }
  return stale;
}

// What became of the answer without each document that it cites.
OrderedJson RagWork::Verified(const OrderedJson& answer) const {
  OrderedJson verified = {{"changed", true}, {"without", OrderedJson::array()}};
  for (const LeftOut& left_out : left_out_) {
    const std::string said = Said(left_out.answer);
    OrderedJson entry = {{"document", record_.documents[left_out.document].id}};
    entry["answer"] = SaysNothing(said) ? OrderedJson() : OrderedJson(said);
    entry["changed"] = entry["answer"] != answer;
    if (!entry["changed"].get<bool>()) verified["changed"] = false;
    verified["without"].push_back(std::move(entry));
  }
  return verified;
}

}  // namespace banyan
