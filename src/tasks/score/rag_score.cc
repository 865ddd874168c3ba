// Scores of answers over documents, as a table and as JSON.
#include "tasks/score/rag_score.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "banyan/error.h"
#include "base/error.h"
#include "base/json.h"
#include "program/score.h"
#include "tasks/score/score_rows.h"

namespace banyan {

namespace {

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

double MeanOf(const std::vector<double>& values) {
  if (values.empty()) return 0.0;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// The 2.5 and 97.5 percentiles of the means of as many values drawn with replacement.
RagScore::Interval Bootstrap(const std::vector<double>& values) {
  constexpr int kDraws = 2000;
  if (values.empty()) return {};
  std::mt19937_64 random(20260);
  std::vector<double> means;
  for (int draw = 0; draw < kDraws; ++draw) {
    double sum = 0.0;
    for (size_t i = 0; i < values.size(); ++i) sum += values[random() % values.size()];
    means.push_back(sum / static_cast<double>(values.size()));
  }
  std::ranges::sort(means);
  return {means[kDraws / 40], means[kDraws - 1 - kDraws / 40]};
}

// Where the gold file has the documents' texts.
bool IsForeign(const std::string& answer, const Json& question) {
  const Json documents = question.value("documents", Json::array());
  bool texts = false;
  for (size_t i = 0; documents.is_array() && i < documents.size(); ++i) {
    if (!documents[i].is_object() || !documents[i].contains("text")) continue;
    texts = true;
    const std::string shown = TextOrJson(documents[i].value("title", Json(""))) + "\n" +
                              TextOrJson(documents[i].at("text"));
    if (Contains(shown, answer)) return false;
  }
  return texts;
}

}  // namespace

void RagScorer::Add(const Json& question, const Json* row) {
  ++score_.questions;
  const std::set<std::string> documents = GoldDocuments(question);
  score_.with_gold_documents += documents.empty() ? 0 : 1;
  double exact = 0.0, sub_span = 0.0, f1 = 0.0;
  if (row == nullptr || row->contains("error")) {
    ++(row == nullptr ? score_.missing : score_.errors);
  } else {
    const Json text = row->value("answer", Json(""));
    const std::string answer = text.is_string() ? text.get<std::string>() : DumpJson(text);
    for (const std::string& right : GoldAnswers(question)) {
      if (NormalizedAnswer(right) == NormalizedAnswer(answer)) exact = 1.0;
      if (Contains(answer, right)) sub_span = 1.0;
      f1 = std::max(f1, AnswerF1(answer, right));
    }
    score_.null += text.is_null() ? 1.0 : 0.0;
    score_.foreign += !text.is_null() && IsForeign(answer, question) ? 1.0 : 0.0;
    if (row->value("method", Json()).is_string()) score_.method = row->at("method");
    for (const auto& [name, times] :
         {std::pair("first_token_seconds", &first_tokens_), {"seconds", &seconds_}}) {
      if (row->value(name, Json()).is_number()) times->push_back(row->at(name));
    }
    if (!documents.empty()) {
      const Json trace = row->value("trace", Json::object());
      score_.recall_read += ShareFound(documents, trace.value("documents", Json::array()), "id");
      score_.recall_cited +=
          ShareFound(documents, row->value("citations", Json::array()), "document");
    }
  }
  exact_.push_back(exact);
  sub_span_.push_back(sub_span);
  f1_.push_back(f1);
}

void RagScorer::SetTimes(std::vector<double> first_tokens, std::vector<double> seconds) {
  first_tokens_ = std::move(first_tokens);
  seconds_ = std::move(seconds);
}

RagScore RagScorer::Finish() const {
  RagScore score = score_;
  const auto count = static_cast<double>(std::max<std::int64_t>(score.questions, 1));
  score.exact = MeanOf(exact_);
  score.sub_span = MeanOf(sub_span_);
  score.f1 = MeanOf(f1_);
  score.exact_interval = Bootstrap(exact_);
  score.sub_span_interval = Bootstrap(sub_span_);
  score.f1_interval = Bootstrap(f1_);
  score.null /= count;
  score.foreign /= count;
  const auto with_gold = static_cast<double>(std::max<std::int64_t>(score.with_gold_documents, 1));
  score.recall_read /= with_gold;
  score.recall_cited /= with_gold;
  score.first_token_median = Median(first_tokens_);
  score.seconds_median = Median(seconds_);
  return score;
}

RagScore ScoreRag(const std::string& gold, const std::string& output) {
  const std::map<std::string, Json> questions = RowsById(gold), rows = RowsById(output);
  RagScorer scorer;
  for (const auto& [id, question] : questions) {
    const auto found = rows.find(id);
    scorer.Add(question, found == rows.end() ? nullptr : &found->second);
  }
  RagScore score = scorer.Finish();
  score.file = output;
  return score;
}

RagScore ScoreOfNull(const std::string& gold) {
  RagScorer scorer;
  const Json null = {{"answer", nullptr}};
  for (const auto& [id, question] : RowsById(gold)) scorer.Add(question, &null);
  RagScore score = scorer.Finish();
  score.file = score.method = "all null";
  return score;
}

std::string RagScoresText(const std::vector<RagScore>& scores) {
  size_t widest = 6;
  for (const RagScore& s : scores) widest = std::max(widest, s.method.size());
  std::string text = fmt::format(
      "{:<{}} {:>9} {:>8} {:>7} {:>13} {:>7} {:>6} {:>7} {:>7} {:>11} {:>11} {:>8} {:>8}  {}\n",
      "method", widest, "questions", "sub-span", "exact", "95 %", "F1", "null", "foreign", "failed",
      "gold read", "gold cited", "first", "whole", "file");
  for (const RagScore& s : scores) {
    const bool documents = s.with_gold_documents > 0;
    const auto recall = [&](double value) {
      return documents ? fmt::format("{:.3f}", value) : std::string("–");
    };
    const auto time = [](double seconds) {
      return seconds > 0.0 ? fmt::format("{:.3f}s", seconds) : std::string("–");
    };
    text += fmt::format(
        "{:<{}} {:>9} {:>8.3f} {:>7.3f} {:>13} {:>7.3f} {:>6.3f} {:>7.3f} {:>7} {:>11} {:>11} "
        "{:>8} {:>8}  {}\n",
        s.method, widest, s.questions, s.sub_span, s.exact,
        fmt::format("{:.3f}–{:.3f}", s.exact_interval.low, s.exact_interval.high), s.f1, s.null,
        s.foreign, s.missing + s.errors, recall(s.recall_read), recall(s.recall_cited),
        time(s.first_token_median), time(s.seconds_median), s.file);
  }
  return text;
}

std::string RagScoresJson(const std::vector<RagScore>& scores) {
  std::string text;
  for (const RagScore& s : scores) {
    const auto both = [](const RagScore::Interval& interval) {
      return nlohmann::ordered_json::array({interval.low, interval.high});
    };
    nlohmann::ordered_json line = {{"file", s.file},
                                   {"method", s.method},
                                   {"questions", s.questions},
                                   {"missing", s.missing},
                                   {"errors", s.errors},
                                   {"sub_span", s.sub_span},
                                   {"sub_span_interval", both(s.sub_span_interval)},
                                   {"exact", s.exact},
                                   {"exact_interval", both(s.exact_interval)},
                                   {"f1", s.f1},
                                   {"f1_interval", both(s.f1_interval)},
                                   {"null", s.null},
                                   {"foreign", s.foreign},
                                   {"first_token_median", s.first_token_median},
                                   {"seconds_median", s.seconds_median}};
    if (s.with_gold_documents > 0) {
      line["recall_read"] = s.recall_read;
      line["recall_cited"] = s.recall_cited;
    }
    text += DumpJson(line) + "\n";
  }
  return text;
}

}  // namespace banyan
