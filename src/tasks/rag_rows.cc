// The answer of a record → its row: text, citations, trace.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/json_row.h"
#include "base/spaces.h"
#include "retrieve/words.h"
#include "tasks/rag_work.h"
#include "text/utf8.h"

namespace banyan {
namespace {

using OrderedJson = nlohmann::ordered_json;

std::int64_t Characters(std::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

std::string LowerAscii(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return lower;
}

// Where the text stands in the document, as it is or in other case; npos: nowhere.
size_t PlaceIn(const std::string& document, std::string_view text) {
  const size_t exact = document.find(text);
  return exact != std::string::npos ? exact : LowerAscii(document).find(LowerAscii(text));
}

// What an answer writes around words of a document ("Anna Berg;") is not the document's.
std::string_view WithoutMarks(std::string_view text) {
  constexpr std::string_view kMarks = " \t\r\n,;:.!?\"'()[]";
  const size_t first = text.find_first_not_of(kMarks);
  if (first == std::string_view::npos) return text;
  return text.substr(first, text.find_last_not_of(kMarks) + 1 - first);
}

OrderedJson Citation(const RagDocument& document, std::string_view text) {
  if (PlaceIn(document.text, text) == std::string::npos) text = WithoutMarks(text);
  OrderedJson citation;
  citation["document"] = document.id;
  citation["text"] = text;
  const size_t place = PlaceIn(document.text, text);
  if (place == std::string::npos) return citation;
  const std::int64_t begin = Characters(std::string_view(document.text).substr(0, place));
  const std::int64_t end = begin + Characters(text);
  citation["begin"] = begin;
  citation["end"] = end;
  if (!document.source.empty()) {
    citation["source"] = document.source;
    citation["source_begin"] = document.begin + begin;
    citation["source_end"] = document.begin + end;
  }
  return citation;
}

double ToMicroseconds(double seconds) { return std::round(seconds * 1e6) / 1e6; }

}  // namespace

std::vector<OutputRow> RagWork::Rows() {
  if (!problem_) {
    try {
      return {AnswerRow()};
    } catch (const std::exception& e) {
      problem_ = ProblemOf(e);
    }
  }
  return {RagErrorRow(record_.id, *problem_, place_)};
}

OutputRow RagErrorRow(const Json& id, const RowProblem& problem, const RowPlace& place) {
  OutputRow row = AskErrorRow(id, Json(), Json(), problem, place);
  row.fields.erase("question_id");
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
  if (!record_.dropped.empty()) fields["dropped"] = record_.dropped;
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

// The text that every token adds, in whole characters; a stop token adds none.
std::vector<std::string> RagWork::Pieces() const {
  std::vector<std::string> pieces;
  std::vector<TokenId> known;
  size_t shown = 0;
  const int vocabulary = settings_.text->vocab_size();
  for (const TokenId token : answer_.tokens) {
    if (token >= 0 && token < vocabulary) known.push_back(token);
    const std::string text = settings_.text->Decode(known, /*skip_special=*/true);
    const size_t end = std::max(shown, FinishedUtf8Prefix(text));
    pieces.push_back(text.substr(std::min(shown, text.size()), end - shown));
    shown = end;
  }
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
    if (i < notes_.size()) entry["note"] = Said(notes_[i]);
    documents.push_back(std::move(entry));
  }
  OrderedJson& tokens = trace["tokens"] = OrderedJson::array();
  for (size_t t = 0; t < pieces.size(); ++t) {
    OrderedJson entry = {{"text", pieces[t]}};
    if (t < answer_.experts.size()) {
      const auto winner = static_cast<size_t>(answer_.experts[t]);
      entry["document"] = record_.documents.at(winner).id;
    }
    if (std::isfinite(answer_.logprobs[t])) entry["logprob"] = answer_.logprobs[t];
    tokens.push_back(std::move(entry));
  }
  return trace;
}

// Of experts: what each document in turn wrote. Else: documents that have the answer in them, as
// far as they were read.
OrderedJson RagWork::Citations(const std::vector<std::string>& pieces) const {
  OrderedJson citations = OrderedJson::array();
  if (SaysNothing(Said(answer_))) return citations;  // nobody wrote anything
  const auto cite = [&](const RagDocument& document, std::string_view text) {
    if (WordsOf(text).empty()) return;
    OrderedJson citation = Citation(document, Trimmed(text));
    if (std::ranges::find(citations, citation) == citations.end()) {
      citations.push_back(std::move(citation));
    }
  };
  if (settings_.options.method == RagMethod::kExperts) {
    for (size_t t = 0; t < pieces.size();) {
      const std::int32_t winner = answer_.experts[t];
      std::string text;
      for (; t < pieces.size() && answer_.experts[t] == winner; ++t) text += pieces[t];
      cite(record_.documents.at(static_cast<size_t>(winner)), text);
    }
    return citations;
  }
  const std::string answer = Said(answer_);
  const bool top1 = settings_.options.method == RagMethod::kTop1;
  for (size_t i = 0; i < record_.documents.size(); ++i) {
    if (top1 && i != MostRelevant()) continue;
    const RagDocument& document = record_.documents[i];
    if (!answer.empty() && PlaceIn(document.text, answer) != std::string::npos) {
      cite(document, answer);
    }
  }
  return citations;
}

}  // namespace banyan
