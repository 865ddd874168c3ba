#include "banyan/rag_score.h"

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <string_view>

#include "banyan/error.h"
#include "base/error.h"
#include "base/json_row.h"
#include "tasks/score_rows.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace banyan {
namespace {

constexpr std::string_view kPunctuation = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";

using Words = std::vector<std::string>;

Words SplitWords(const std::string& text) {
  std::istringstream stream(text);
  Words words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

// By id; a line that is no object with an id is an error.
std::vector<std::string> GoldAnswers(const Json& row) {
  std::vector<std::string> answers;
  for (const Json& answer : row.value("answers", Json::array())) {
    if (answer.is_string()) answers.push_back(answer.get<std::string>());
  }
  if (answers.empty()) answers.push_back("null");
  return answers;
}

std::set<std::string> GoldDocuments(const Json& row) {
  std::set<std::string> ids;
  const Json documents = row.value("documents", Json::array());
  for (size_t i = 0; documents.is_array() && i < documents.size(); ++i) {
    const Json& document = documents[i];
    if (!document.is_object() || document.value("gold", Json(false)) != Json(true)) continue;
    ids.insert(DumpJson(document.value("id", Json(i))));
  }
  return ids;
}

double WordF1(const std::string& answer, const std::string& gold) {
  const Words a = SplitWords(NormalizedAnswer(answer)), b = SplitWords(NormalizedAnswer(gold));
  std::map<std::string, int> left;
  for (const std::string& word : b) ++left[word];
  double common = 0.0;
  for (const std::string& word : a) {
    if (left[word]-- > 0) common += 1.0;
  }
  if (common == 0.0) return a == b ? 1.0 : 0.0;
  return 2.0 * common / static_cast<double>(a.size() + b.size());
}

// Whole words of the gold answer in a row in the answer.
bool Contains(const std::string& answer, const std::string& gold) {
  const std::string inner = NormalizedAnswer(gold);
  return !inner.empty() &&
         (" " + NormalizedAnswer(answer) + " ").find(" " + inner + " ") != std::string::npos;
}

double ShareFound(const std::set<std::string>& gold, const Json& list, const char* field) {
  std::set<std::string> found;
  for (const Json& entry : list) {
    if (entry.is_object() && entry.contains(field)) found.insert(DumpJson(entry.at(field)));
  }
  const auto hits =
      std::ranges::count_if(gold, [&](const std::string& id) { return found.contains(id); });
  return static_cast<double>(hits) / static_cast<double>(gold.size());
}

double Median(std::vector<double> values) {
  if (values.empty()) return 0.0;
  std::ranges::sort(values);
  return values[values.size() / 2];
}

}  // namespace

std::string NormalizedAnswer(const std::string& text) {
  std::string plain;
  for (size_t at = 0; at < text.size();) {
    const Utf8Character character = ReadUtf8(text, at);
    const std::string_view bytes = std::string_view(text).substr(at, character.length);
    at += character.length;
    if (!character.valid || kPunctuation.find(bytes) != std::string_view::npos) continue;
    if (IsWhitespace(character.code)) {
      plain += ' ';
    } else {
      AppendLowercase(character.code, plain);
    }
  }
  std::string normal;
  for (const std::string& word : SplitWords(plain)) {
    if (word == "a" || word == "an" || word == "the") continue;
    normal += (normal.empty() ? "" : " ") + word;
  }
  return normal;
}

RagScore ScoreRag(const std::string& gold, const std::string& output) {
  const std::map<std::string, Json> questions = RowsById(gold), rows = RowsById(output);
  RagScore score;
  score.file = output;
  score.questions = static_cast<std::int64_t>(questions.size());
  std::vector<double> first_tokens;
  for (const auto& [id, question] : questions) {
    const std::set<std::string> documents = GoldDocuments(question);
    score.with_gold_documents += documents.empty() ? 0 : 1;
    const auto found = rows.find(id);
    if (found == rows.end() || found->second.contains("error")) {
      ++(found == rows.end() ? score.missing : score.errors);
      continue;
    }
    const Json& row = found->second;
    const Json text = row.value("answer", Json(""));
    const std::string answer = text.is_string() ? text.get<std::string>() : DumpJson(text);
    double exact = 0.0, sub_span = 0.0, f1 = 0.0;
    for (const std::string& right : GoldAnswers(question)) {
      if (NormalizedAnswer(right) == NormalizedAnswer(answer)) exact = 1.0;
      if (Contains(answer, right)) sub_span = 1.0;
      f1 = std::max(f1, WordF1(answer, right));
    }
    score.exact += exact;
    score.sub_span += sub_span;
    score.f1 += f1;
    if (row.value("method", Json()).is_string()) score.method = row.at("method");
    if (row.value("first_token_seconds", Json()).is_number()) {
      first_tokens.push_back(row.at("first_token_seconds"));
    }
    if (documents.empty()) continue;
    const Json trace = row.value("trace", Json::object());
    score.recall_read += ShareFound(documents, trace.value("documents", Json::array()), "id");
    score.recall_cited += ShareFound(documents, row.value("citations", Json::array()), "document");
  }
  const auto mean = [](double& sum, std::int64_t count) {
    sum = count > 0 ? sum / static_cast<double>(count) : 0.0;
  };
  mean(score.exact, score.questions);
  mean(score.sub_span, score.questions);
  mean(score.f1, score.questions);
  mean(score.recall_read, score.with_gold_documents);
  mean(score.recall_cited, score.with_gold_documents);
  score.first_token_median = Median(std::move(first_tokens));
  return score;
}

std::string RagScoresText(const std::vector<RagScore>& scores) {
  std::string text = fmt::format("{:<12} {:>9} {:>8} {:>7} {:>7} {:>7} {:>11} {:>11} {:>7}  {}\n",
                                 "method", "questions", "sub-span", "exact", "F1", "failed",
                                 "gold read", "gold cited", "first", "file");
  for (const RagScore& s : scores) {
    const bool documents = s.with_gold_documents > 0;
    const auto recall = [&](double value) {
      return documents ? fmt::format("{:.3f}", value) : std::string("–");
    };
    text +=
        fmt::format("{:<12} {:>9} {:>8.3f} {:>7.3f} {:>7.3f} {:>7} {:>11} {:>11} {:>6.3f}s  {}\n",
                    s.method, s.questions, s.sub_span, s.exact, s.f1, s.missing + s.errors,
                    recall(s.recall_read), recall(s.recall_cited), s.first_token_median, s.file);
  }
  return text;
}

std::string RagScoresJson(const std::vector<RagScore>& scores) {
  std::string text;
  for (const RagScore& s : scores) {
    nlohmann::ordered_json line = {
        {"file", s.file},       {"method", s.method}, {"questions", s.questions},
        {"missing", s.missing}, {"errors", s.errors}, {"sub_span", s.sub_span},
        {"exact", s.exact},     {"f1", s.f1},         {"first_token_median", s.first_token_median}};
    if (s.with_gold_documents > 0) {
      line["recall_read"] = s.recall_read;
      line["recall_cited"] = s.recall_cited;
    }
    text += DumpJson(line) + "\n";
  }
  return text;
}

}  // namespace banyan
