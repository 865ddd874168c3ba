// Scores of answers over documents as a table and as JSON.
#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "program/rag_score.h"

namespace banyan {

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
