// Variants of `rag` over the questions of a gold file, scored; and a plot of their scores.
#include "program/rag.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/characters.h"
#include "base/error.h"
#include "base/json.h"
#include "tasks/job/record_window.h"
#include "tasks/rag/rag_task.h"
#include "tasks/score/rag_score.h"
#include "tasks/score/score_rows.h"

namespace banyan {
namespace {

bool IsGold(const Json& document) {
  return document.is_object() && document.value("gold", Json(false)) == Json(true);
}

// The question as the variant asks it, in the documents' order.
Json QuestionFor(const RagVariant& variant, const Json& question) {
  Json asked = question;
  const auto found = question.find("documents");
  if (found == question.end() || !found->is_array()) return asked;
  std::int64_t others = static_cast<std::int64_t>(found->size());
  if (variant.documents > 0) {
    others = variant.documents;
    for (const Json& document : *found) {
      others -= IsGold(document) && !variant.without_gold ? 1 : 0;
    }
  }
  Json kept = Json::array();
  for (const Json& document : *found) {
    if (IsGold(document) ? !variant.without_gold : others-- > 0) kept.push_back(document);
  }
  asked["documents"] = std::move(kept);
  if (variant.without_gold) asked["answers"] = Json::array();
  return asked;
}

// Everything that decides which documents are read and how relevant they are.
std::string RecordKey(const RagVariant& variant) {
  const RagOptions& options = variant.options;
  return fmt::format("{} {} {} {} {} {} {}", variant.documents, variant.without_gold,
                     RelevanceFromName(options.relevance), options.min_relevance, options.top,
                     options.candidates ? SignalName(*options.candidates) : "auto",
                     options.candidate_count);
}

class Sweep {
 public:
  Sweep(std::shared_ptr<Model> model, const std::vector<RagVariant>& variants,
        const EngineOptions& engine)
      : model_(std::move(model)), variants_(variants), engine_options_(engine) {
    for (const RagVariant& variant : variants) {
      tasks_.push_back(std::make_unique<RagTask>(model_, variant.options));
    }
    scorers_.resize(variants.size());
    first_tokens_.resize(variants.size());
    seconds_.resize(variants.size());
    engine_ = std::make_unique<Engine>(model_, engine);
  }

  void Ask(const Json& question) {
    std::vector<size_t> all(variants_.size());
    for (size_t v = 0; v < all.size(); ++v) all[v] = v;
    const std::vector<Json> rows = RowsOf(question, all, *engine_);
    for (size_t v = 0; v < rows.size(); ++v) {
      const Json asked = QuestionFor(variants_[v], question);
      scorers_[v].Add(asked, &rows[v]);
    }
  }

  void Time(const Json& question) {
    using Clock = std::chrono::steady_clock;
    for (size_t v = 0; v < variants_.size(); ++v) {
      Engine alone(model_, engine_options_);
      const auto begin = Clock::now();
      const Json row = RowsOf(question, {v}, alone)[0];
      const double whole = std::chrono::duration<double>(Clock::now() - begin).count();
      if (row.contains("error")) continue;
      // A row's times are those of its last request.
      const double after_first =
          row.at("seconds").get<double>() - row.at("first_token_seconds").get<double>();
      first_tokens_[v].push_back(whole - after_first);
      seconds_[v].push_back(whole);
    }
  }

  std::vector<RagScore> Finish() {
    std::vector<RagScore> scores;
    for (size_t v = 0; v < variants_.size(); ++v) {
      scorers_[v].SetTimes(first_tokens_[v], seconds_[v]);
      RagScore& score = scores.emplace_back(scorers_[v].Finish());
      score.file = score.method;
      score.method = variants_[v].name;
    }
    return scores;
  }

 private:
  // One row for each of the variants.
  std::vector<Json> RowsOf(const Json& question, const std::vector<size_t>& variants,
                           Engine& engine) {
    std::vector<Json> rows(variants.size());
    OneRowEach made(variants.size());
    RecordWindow window([&](PromptSegment& prompt) { return engine.TrySubmit(prompt); }, made);
    std::map<std::string, RagRecord> records;
    for (size_t i = 0; i < variants.size(); ++i) {
      const RagVariant& variant = variants_[variants[i]];
      const RagTask& task = *tasks_[variants[i]];
      try {
        const std::string key = RecordKey(variant);
        auto record = records.find(key);
        if (record == records.end()) {
          record = records.emplace(key, task.Read(QuestionFor(variant, question))).first;
        }
        window.Add(i, task.Ask(record->second, {"the gold file", 0}));
      } catch (const Error& e) {
        rows[i] = {{"error", {{"message", e.what()}}}};
      }
    }
    window.RunToEnd(engine);
    for (size_t i = 0; i < rows.size(); ++i) {
      if (rows[i].is_null()) rows[i] = Json(made.rows[i].fields);
    }
    return rows;
  }

  std::shared_ptr<Model> model_;
  const std::vector<RagVariant>& variants_;
  EngineOptions engine_options_;
  std::vector<std::unique_ptr<RagTask>> tasks_;    // [variants]
  std::vector<RagScorer> scorers_;                 // [variants]
  std::vector<std::vector<double>> first_tokens_;  // [variants]
  std::vector<std::vector<double>> seconds_;       // [variants]
  std::unique_ptr<Engine> engine_;
};

constexpr int kPlotRow = 26, kPlotTop = 46, kPlotWidth = 460, kPlotLetter = 7;

std::string TextInSvg(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

std::vector<RagScore> SweepRag(std::shared_ptr<Model> model,
                               const std::vector<RagVariant>& variants,
                               const RagSweepOptions& options) {
  Sweep sweep(std::move(model), variants, options.engine);
  std::int64_t done = 0;
  for (const auto& [id, question] : RowsById(options.gold)) {
    if (options.limit >= 0 && done >= options.limit) break;
    sweep.Ask(question);
    if (done < options.timed) sweep.Time(question);
    ++done;
    if (options.progress) options.progress(done);
  }
  return sweep.Finish();
}

std::string RagScoresPlot(const std::vector<RagScore>& scores) {
  size_t longest = 8;
  for (const RagScore& s : scores)
    longest = std::max(longest, static_cast<size_t>(CountCharacters(s.method)));
  const int left = 20 + kPlotLetter * static_cast<int>(longest);
  const auto rows = static_cast<int>(scores.size());
  const int width = left + kPlotWidth + 70, height = kPlotTop + rows * kPlotRow + 16;
  const auto x = [&](double share) { return left + share * kPlotWidth; };
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\"{0}\" height=\"{1}\" "
      "viewBox=\"0 0 {0} {1}\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "<title>Exact match with 95 % intervals</title>\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"#fff\"/>\n",
      width, height);
  for (int tenth = 0; tenth <= 10; tenth += 2) {
    const double at = x(tenth / 10.0);
    svg += fmt::format(
        "<line x1=\"{0:.1f}\" y1=\"{1}\" x2=\"{0:.1f}\" y2=\"{2}\" stroke=\"#ddd\"/>"
        "<text x=\"{0:.1f}\" y=\"{3}\" text-anchor=\"middle\" fill=\"#555\">{4} %</text>\n",
        at, kPlotTop - 8, height - 12, kPlotTop - 16, tenth * 10);
  }
  for (int row = 0; row < rows; ++row) {
    const RagScore& s = scores[static_cast<size_t>(row)];
    const int y = kPlotTop + row * kPlotRow + kPlotRow / 2;
    svg += fmt::format(
        "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>"
        "<line x1=\"{:.1f}\" y1=\"{}\" x2=\"{:.1f}\" y2=\"{}\" stroke=\"#357\" "
        "stroke-width=\"2\"/><circle cx=\"{:.1f}\" cy=\"{}\" r=\"4\" fill=\"#357\"/>"
        "<text x=\"{:.1f}\" y=\"{}\" fill=\"#555\">{:.1f}</text>\n",
        left - 10, y + 4, TextInSvg(s.method), x(s.exact_interval.low), y, x(s.exact_interval.high),
        y, x(s.exact), y, x(1.0) + 10, y + 4, 100.0 * s.exact);
  }
  return svg + "</svg>\n";
}

}  // namespace banyan
