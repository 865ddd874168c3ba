// Finds an answer's words in documents, and writes the fields of a row.
#include "tasks/rag/rag_rows.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "base/characters.h"
#include "base/error.h"
#include "base/json.h"
#include "retrieve/bm25.h"
#include "tasks/job/task.h"
#include "tasks/rag/rag_evidence.h"
#include "text/span.h"
#include "text/text.h"
#include "text/tokenizer/tokenizer.h"

namespace banyan {
namespace {

using OrderedJson = nlohmann::ordered_json;

bool IsSpaceByte(char c) { return kSpaces.find(c) != std::string_view::npos; }

char InLowerCase(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// A text with its runs of white space as one space, and where each byte stands in the text itself.
struct SpacedText {
  std::string bytes;
  std::vector<size_t> places;  // [bytes + 1], the last: the text's end

  SpacedText(std::string_view text, bool lower) {
    for (size_t i = 0; i < text.size(); ++i) {
      const bool space = IsSpaceByte(text[i]);
      if (space && bytes.ends_with(' ')) continue;
      bytes += space ? ' ' : (lower ? InLowerCase(text[i]) : text[i]);
      places.push_back(i);
    }
    places.push_back(text.size());
  }
};

// Punctuation that the answer writes around a document's words ("Anna Berg;").
std::string_view WithoutMarks(std::string_view text) {
  constexpr std::string_view kMarks = " \t\r\n,;:.!?\"'()[]";
  const size_t first = text.find_first_not_of(kMarks);
  if (first == std::string_view::npos) return text;
  return text.substr(first, text.find_last_not_of(kMarks) + 1 - first);
}

constexpr const char* kNoDocumentAnswers = "no document answers the question";
constexpr const char* kStandsNowhere = "what the model wrote stands in no document";

double ToMicroseconds(double seconds) { return std::round(seconds * 1e6) / 1e6; }

}  // namespace

std::optional<CitedBytes> FindWords(std::string_view text, std::string_view wanted) {
  wanted = Trimmed(wanted);
  if (wanted.empty()) return std::nullopt;
  // `span_at(place)` is the span of what was found in `source`.
  const auto find_whole = [&](std::string_view source, std::string_view words,
                              const auto& span_at) -> std::optional<CitedBytes> {
    for (size_t at = source.find(words); at != source.npos; at = source.find(words, at + 1)) {
      const CitedBytes span = span_at(at);
      if (!CutsWord(text, span.begin) && !CutsWord(text, span.end)) return span;
    }
    return std::nullopt;
  };
  const auto as_it_is = [&](size_t at) { return CitedBytes{at, at + wanted.size()}; };
  if (const auto found = find_whole(text, wanted, as_it_is)) return found;
  for (const bool lower : {false, true}) {
    const SpacedText source(text, lower), words(wanted, lower);
    // The last byte is no space: it ends where it stands.
    const auto in_text = [&](size_t at) {
      return CitedBytes{source.places[at], source.places[at + words.bytes.size() - 1] + 1};
    };
    if (const auto found = find_whole(source.bytes, words.bytes, in_text)) return found;
  }
  return std::nullopt;
}

std::optional<std::vector<std::string_view>> SpansOf(std::string_view said,
                                                     const std::vector<RagDocument>& documents) {
  constexpr std::string_view kBetween = "; ";
  std::vector<std::string_view> spans;
  while (!said.empty()) {
    // The longest beginning that stands in a document and is followed by nothing or by a separator.
    size_t end = said.size();
    const auto stands = [&](size_t size) {
      return std::ranges::any_of(documents, [&](const RagDocument& document) {
        return FindWords(document.text, said.substr(0, size)).has_value();
      });
    };
    while (end != std::string_view::npos && end > 0 && !stands(end)) {
      end = said.rfind(kBetween, end - 1);
    }
    if (end == std::string_view::npos || end == 0) return std::nullopt;
    spans.push_back(said.substr(0, end));
    said.remove_prefix(std::min(said.size(), end + kBetween.size()));
  }
  return spans;
}

nlohmann::ordered_json CitationOf(const RagDocument& document, std::string_view written) {
  const std::string_view text = document.text;
  std::optional<CitedBytes> span = FindWords(text, written);
  if (!span) {
    written = WithoutMarks(written);
    span = FindWords(text, written);
  }
  nlohmann::ordered_json citation;
  citation["document"] = document.id;
  if (!span) {
    citation["text"] = written;
    return citation;
  }
  const std::string_view cited = text.substr(span->begin, span->end - span->begin);
  const std::int64_t begin = CountCharacters(text.substr(0, span->begin));
  const std::int64_t end = begin + CountCharacters(cited);
  citation["text"] = cited;
  citation["begin"] = begin;
  citation["end"] = end;
  if (!document.source.empty()) {
    citation["source"] = document.source;
    citation["source_begin"] = document.begin + begin;
    citation["source_end"] = document.begin + end;
  }
  return citation;
}

bool IsCited(const OrderedJson& citations, const RagDocument& document) {
  return std::ranges::any_of(
      citations, [&](const auto& citation) { return citation.at("document") == document.id; });
}

OutputRow RagErrorRow(const Json& id, const Json& question, const RowProblem& problem,
                      const RowPlace& place, const Json& record) {
  OutputRow row;
  row.error = true;
  row.fields["id"] = id;
  if (question.is_string()) row.fields["question"] = question;
  row.fields["error"] = ErrorAt(place, problem);
  // As rows of `ask` have it, whose question has an id.
  row.identity = DumpJson(Json::array({id, nullptr, "error", ErrorKindName(problem.kind)}));
  const auto is_read = [](const std::string& name) {
    return name == "id" || name == "question" || name == "documents" || name == "examples";
  };
  CarriedNames("rag").Add(record, is_read, row.fields);
  return row;
}

std::string RagRowWriter::TextOf(const Answer& answer) const {
  std::vector<TokenId> known;
  const int vocabulary = settings_.text->vocab_size();
  std::ranges::copy_if(answer.tokens, std::back_inserter(known),
                       [&](TokenId token) { return token >= 0 && token < vocabulary; });
  std::string text = answer.finish == FinishReason::kStopString
                         ? answer.text
                         : settings_.text->Decode(known, /*skip_special=*/true);
  // A copy that was cut short ends with its last whole word.
  if (settings_.copies && answer.finish == FinishReason::kLength) {
    const size_t end = std::string_view(text).find_last_of(kSpaces);
    if (end != std::string::npos) text.resize(end);
  }
  return std::string(Trimmed(text));
}

OutputRow RagRowWriter::Row(const RagAnswers& answers, const std::vector<Json>& truncated) const {
  const RagOptions& options = settings_.options;
  const Answer& answer = answers.answer;
  OutputRow row;
  OrderedJson& fields = row.fields;
  const bool no_notes = options.method == RagMethod::kMapReduce && answer.tokens.empty();
  fields["id"] = record_.id;
  fields["question"] = record_.question;
  const std::string said = no_notes ? std::string() : TextOf(answer);
  const RagEvidence evidence(settings_, record_, [this](const Answer& one) { return TextOf(one); });
  const bool stands = !SaysNothing(said) && evidence.Stands(said);
  fields["answer"] = stands ? OrderedJson(said) : OrderedJson();
  if (!stands) fields["reason"] = SaysNothing(said) ? kNoDocumentAnswers : kStandsNowhere;
  const std::string shown = stands ? said : "";
  evidence.Write(answers, shown, fields);
  fields["finish_reason"] = no_notes ? "stop" : FinishReasonName(answer.finish);
  fields["tokens"] = answer.tokens.size();
  fields["prompt_tokens"] = answer.prompt_tokens;
  fields["method"] = RagMethodName(options.method);
  fields["citations"] = stands ? Citations(answer) : OrderedJson::array();
  if (!answer.abstentions.empty()) {
    fields["abstained"] = std::ranges::count_if(
        answer.abstentions, [&](double share) { return share >= options.panel.abstention; });
  }
  const OrderedJson stale = Stale(fields["citations"]);
  if (!stale.empty()) fields["stale"] = stale;
  if (!answers.left_out.empty()) fields["verified"] = Verified(answers, fields["answer"]);
  if (!record_.dropped.empty()) {
    fields["dropped"] = record_.dropped;
    fields["dropped_reason"] = record_.dropped_reason;
  }
  if (!record_.empty.empty()) fields["empty"] = record_.empty;
  if (!truncated.empty()) fields["truncated"] = truncated;
  if (options.trace) {
    fields["trace"] = Trace(answers);
    evidence.WriteTrace(answers, shown, fields["trace"]);
  }
  fields["first_token_seconds"] = ToMicroseconds(answer.first_token_seconds);
  fields["seconds"] = ToMicroseconds(answer.seconds);
  row.identity =
      DumpJson(OrderedJson::array({record_.id, fields["answer"], fields["finish_reason"]}));
  static const CarriedNames names("rag");
  names.Add(record_.carried, nullptr, fields);
  return row;
}

// The text that every token completes, in whole characters; a stop token adds none.
std::vector<std::string> RagRowWriter::TokenTexts(const Answer& answer) const {
  StreamDecoder decoder(settings_.text->parts().tokenizer, /*skip_special=*/true);
  std::vector<std::string> pieces;
  for (const TokenId token : answer.tokens) pieces.push_back(decoder.Push(token));
  return pieces;
}

// Documents with their weights, tokens with the document that won each.
OrderedJson RagRowWriter::Trace(const RagAnswers& answers) const {
  const Answer& answer = answers.answer;
  OrderedJson trace;
  OrderedJson& documents = trace["documents"] = OrderedJson::array();
  for (size_t i = 0; i < record_.documents.size(); ++i) {
    const RagDocument& document = record_.documents[i];
    OrderedJson entry = {{"id", document.id}, {"relevance", document.relevance}};
    if (document.score) entry["score"] = *document.score;
    if (document.logit) entry["logit"] = *document.logit;
    if (i < answer.betas.size()) entry["beta"] = answer.betas[i];
    if (i < answer.abstentions.size()) entry["null"] = answer.abstentions[i];
    if (i < answers.notes.size()) entry["note"] = TextOf(answers.notes[i]);
    documents.push_back(std::move(entry));
  }
  OrderedJson together = OrderedJson::array();
  for (const size_t i : record_.Together(settings_.options.together)) {
    together.push_back(OrderedJson(record_.documents[i].id));
  }
  if (!together.empty()) {
    OrderedJson& entry = trace["together"] = {{"documents", together}};
    const size_t expert = record_.documents.size();
    if (expert < answer.betas.size()) entry["beta"] = answer.betas[expert];
    if (expert < answer.abstentions.size()) entry["null"] = answer.abstentions[expert];
  }
  OrderedJson& tokens = trace["tokens"] = OrderedJson::array();
  const std::vector<std::string> pieces = TokenTexts(answer);
  for (size_t t = 0; t < pieces.size(); ++t) {
    OrderedJson entry = {{"text", pieces[t]}};
    if (t < answer.experts.size()) {
      const std::vector<size_t> read = ReadBy(answer.experts[t]);
      if (read.size() == 1) {
        entry["document"] = record_.documents.at(read.front()).id;
      } else {
        entry["documents"] = together;
      }
    }
    if (std::isfinite(answer.logprobs[t])) entry["logprob"] = answer.logprobs[t];
    tokens.push_back(std::move(entry));
  }
  return trace;
}

OrderedJson RagRowWriter::Citations(const Answer& answer) const {
  OrderedJson citations = OrderedJson::array();
  const std::string said = TextOf(answer);
  if (SaysNothing(said)) return citations;  // null cites no document
  const auto cite = [&](const RagDocument& document, std::string_view text) {
    if (IsBlank(text)) return;
    OrderedJson citation = CitationOf(document, Trimmed(text));
    // Punctuation between the words of other documents is not cited.
    const bool says = citation.contains("begin") || !WordsOf(text).empty();
    if (says && std::ranges::find(citations, citation) == citations.end()) {
      citations.push_back(std::move(citation));
    }
  };
  const bool experts = settings_.options.method == RagMethod::kExperts;
  const auto spans = settings_.copies ? SpansOf(said, record_.documents) : std::nullopt;
  if (experts && spans) {
    for (const std::string_view span : *spans) {
      cite(record_.documents[SourceOf(answer, span)], span);
    }
    return citations;
  }
  if (experts) {
    const std::vector<std::string> pieces = TokenTexts(answer);
    for (size_t t = 0; t < pieces.size();) {
      const std::int32_t winner = answer.experts[t];
      std::string text;
      for (; t < pieces.size() && answer.experts[t] == winner; ++t) text += pieces[t];
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
    if (top1 && i != record_.MostRelevant()) continue;
    const RagDocument& document = record_.documents[i];
    for (const std::string_view span : spans.value_or(std::vector<std::string_view>{said})) {
      if (FindWords(document.text, span)) cite(document, span);
    }
  }
  return citations;
}

// Experts are the documents in their order, then the one that reads several together.
std::vector<size_t> RagRowWriter::ReadBy(std::int32_t expert) const {
  const auto one = static_cast<size_t>(expert);
  if (one < record_.documents.size()) return {one};
  return record_.Together(settings_.options.together);
}

size_t RagRowWriter::SourceOf(const Answer& answer, std::string_view span) const {
  std::vector<std::int64_t> written(record_.documents.size(), 0);
  const std::vector<std::string> pieces = TokenTexts(answer);
  std::string all;
  for (const std::string& piece : pieces) all += piece;
  size_t begin = all.find(span);
  while (begin != all.npos && (CutsWord(all, begin) || CutsWord(all, begin + span.size()))) {
    begin = all.find(span, begin + 1);
  }
  begin = std::min(begin, all.size());
  size_t at = 0;
  for (size_t t = 0; t < pieces.size() && t < answer.experts.size(); ++t) {
    const size_t end = at + pieces[t].size();
    if (end > begin && at < begin + span.size()) {
      for (const size_t i : ReadBy(answer.experts[t])) ++written.at(i);
    }
    at = end;
  }
  const auto rank = [&](size_t i) {
    const RagDocument& document = record_.documents[i];
    const bool has = FindWords(document.text, span).has_value();
    return std::tuple(has, written[i], document.relevance);
  };
  size_t best = 0;
  for (size_t i = 1; i < record_.documents.size(); ++i) {
    if (rank(i) > rank(best)) best = i;
  }
  return best;
}

// Cited files that are not what was indexed: {"source","state"}.
OrderedJson RagRowWriter::Stale(const OrderedJson& citations) const {
  OrderedJson stale = OrderedJson::array();
  for (const RagDocument& document : record_.documents) {
    if (!IsCited(citations, document) || document.passage < 0) continue;
    const SourceState state = settings_.options.index->StateOf(document.passage);
    if (state == SourceState::kSame) continue;
    OrderedJson entry = {{"source", document.source},
                         {"state", state == SourceState::kGone ? "gone" : "changed"}};
    if (std::ranges::find(stale, entry) == stale.end()) stale.push_back(std::move(entry));
  }
  return stale;
}

// The answers without each cited document.
OrderedJson RagRowWriter::Verified(const RagAnswers& answers, const OrderedJson& answer) const {
  OrderedJson verified = {{"changed", true}, {"without", OrderedJson::array()}};
  for (const RagAnswers::LeftOut& left_out : answers.left_out) {
    const std::string said = TextOf(left_out.answer);
    OrderedJson entry = {{"document", record_.documents[left_out.document].id}};
    entry["answer"] = SaysNothing(said) ? OrderedJson() : OrderedJson(said);
    entry["changed"] = entry["answer"] != answer;
    if (!entry["changed"].get<bool>()) verified["changed"] = false;
    verified["without"].push_back(std::move(entry));
  }
  return verified;
}

}  // namespace banyan
