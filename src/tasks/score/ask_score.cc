#include "program/score.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <random>

#include "base/error.h"
#include "base/json.h"
#include "tasks/score/score_rows.h"

namespace banyan {
namespace {

constexpr std::uint64_t kAskScoreSeed = 20240531;

// What became of one question.
struct AskOutcome {
  bool known = false, null = false;
  double exact = 0.0, f1 = 0.0;
};

using DocumentOutcomes = std::vector<AskOutcome>;

struct GoldQuestion {
  std::string key;  // of the row that answers it
  std::vector<std::string> answers;
  const Json* question;  // of the gold row
};

// A document's questions.
std::vector<GoldQuestion> QuestionsOf(const Json& row, const std::string& file) {
  const std::string where = fmt::format("{}: the row with id {}", file, DumpJson(row.at("id")));
  std::vector<GoldQuestion> questions;
  const auto list = row.find("questions");
  if (list == row.end()) {
    const Json id = row.value("question_id", Json(1));
    return {{KeyOfAnswer(row.at("id"), id), RightAnswers(row, where), &row}};
  }
  for (size_t i = 0; list->is_array() && i < list->size(); ++i) {
    const Json& question = (*list)[i];
    if (!question.is_object()) Throw(ErrorKind::kInput, "{}: a question is no object", where);
    const Json id = question.value("id", Json(i + 1));
    questions.push_back({KeyOfAnswer(row.at("id"), id), RightAnswers(question, where), &question});
  }
  return questions;
}

AskOutcome OutcomeOf(const std::vector<std::string>& answers, const std::string& given) {
  AskOutcome outcome{.known = !answers.empty(), .null = NormalizedAnswer(given) == "null"};
  const std::vector<std::string> null = {"null"};
  for (const std::string& right : answers.empty() ? null : answers) {
    const bool same = NormalizedAnswer(given) == NormalizedAnswer(right);
    outcome.exact = std::max(outcome.exact, same ? 1.0 : 0.0);
    outcome.f1 = std::max(outcome.f1, AnswerF1(given, right));
  }
  return outcome;
}

double MeanOfAll(const std::vector<const DocumentOutcomes*>& documents,
                 const std::function<double(const AskOutcome&)>& value,
                 const std::function<bool(const AskOutcome&)>& counts) {
  double sum = 0.0, count = 0.0;
  for (const DocumentOutcomes* document : documents) {
    for (const AskOutcome& outcome : *document) {
      if (!counts(outcome)) continue;
      sum += value(outcome);
      count += 1.0;
    }
  }
  return count > 0.0 ? sum / count : 0.0;
}

bool Always(const AskOutcome&) { return true; }
double ExactOf(const AskOutcome& outcome) { return outcome.exact; }
double F1Of(const AskOutcome& outcome) { return outcome.f1; }
double NullOf(const AskOutcome& outcome) { return outcome.null ? 1.0 : 0.0; }

AskScore::Interval MiddleOf(std::vector<double> values) {
  if (values.empty()) return {};
  std::ranges::sort(values);
  const auto at = [&](double share) {
    return values[static_cast<size_t>(share * static_cast<double>(values.size() - 1) + 0.5)];
  };
  return {at(0.025), at(0.975)};
}

// Questions on one document succeed and fail together: documents are drawn.
void AddIntervals(const std::vector<DocumentOutcomes>& documents, int resamples, AskScore& score) {
  std::mt19937_64 random(kAskScoreSeed);
  std::vector<double> exact, f1;
  for (int i = 0; i < resamples && !documents.empty(); ++i) {
    std::vector<const DocumentOutcomes*> drawn;
    for (size_t d = 0; d < documents.size(); ++d) {
      drawn.push_back(&documents[random() % documents.size()]);
    }
    exact.push_back(MeanOfAll(drawn, ExactOf, Always));
    f1.push_back(MeanOfAll(drawn, F1Of, Always));
  }
  score.exact_interval = MiddleOf(std::move(exact));
  score.f1_interval = MiddleOf(std::move(f1));
}

void AddMeans(const std::vector<DocumentOutcomes>& documents, AskScore& score) {
  std::vector<const DocumentOutcomes*> all;
  for (const DocumentOutcomes& document : documents) all.push_back(&document);
  const auto is_known = [](const AskOutcome& outcome) { return outcome.known; };
  const auto is_unknown = [](const AskOutcome& outcome) { return !outcome.known; };
  score.exact = MeanOfAll(all, ExactOf, Always);
  score.f1 = MeanOfAll(all, F1Of, Always);
  score.known_f1 = MeanOfAll(all, F1Of, is_known);
  score.denied = MeanOfAll(all, NullOf, is_known);
  score.null_right = MeanOfAll(all, NullOf, is_unknown);
}

// `answer_of` gives the text that answers a question, with the confidence in it where there is one.
// No text: the question counts as wrong.
struct GivenAnswer {
  std::optional<std::string> text;
  std::optional<double> confidence;
};

AskScore ScoreAnswers(
    const std::string& gold, int resamples,
    const std::function<GivenAnswer(const std::string& key, AskScore&)>& answer_of) {
  AskScore score;
  std::vector<DocumentOutcomes> documents;
  for (const auto& [key, row] : RowsByAnswer(gold)) {
    DocumentOutcomes outcomes;
    for (const GoldQuestion& question : QuestionsOf(row, gold)) {
      const GivenAnswer given = answer_of(question.key, score);
      AskOutcome outcome{.known = !question.answers.empty()};
      if (given.text) {
        outcome = OutcomeOf(question.answers, ChosenText(*question.question, *given.text));
      }
      if (given.confidence) score.confidences.push_back({*given.confidence, outcome.exact > 0.0});
      ++score.questions;
      ++(outcome.known ? score.known : score.unknown);
      outcomes.push_back(outcome);
    }
    if (!outcomes.empty()) documents.push_back(std::move(outcomes));
  }
  score.documents = static_cast<std::int64_t>(documents.size());
  AddMeans(documents, score);
  AddIntervals(documents, resamples, score);
  return score;
}

}  // namespace

AskScore ScoreAsk(const std::string& gold, const std::string& output, int resamples) {
  const std::map<std::string, Json> rows = RowsByAnswer(output);
  AskScore score =
      ScoreAnswers(gold, resamples, [&](const std::string& key, AskScore& counts) -> GivenAnswer {
        auto found = rows.find(key);
        // A record that could not be asked at all has one row.
        if (found == rows.end()) {
          found = rows.find(KeyOfAnswer(Json::parse(key).at(0), Json()));
        }
        if (found == rows.end()) {
          ++counts.missing;
          return {};
        }
        const Json& row = found->second;
        if (row.contains("error")) {
          ++counts.errors;
          return {};
        }
        GivenAnswer given;
        const auto answer = row.find("answer");
        given.text =
            answer != row.end() && answer->is_string() ? answer->get<std::string>() : "null";
        const auto sure = row.find("confidence");
        if (sure != row.end() && sure->is_number() && !row.contains("withheld")) {
          given.confidence = std::clamp(sure->get<double>(), 0.0, 1.0);
        }
        return given;
      });
  score.name = output;
  return score;
}

AskScore ScoreOfAskNull(const std::string& gold, int resamples) {
  AskScore score = ScoreAnswers(gold, resamples, [](const std::string&, AskScore&) {
    return GivenAnswer{.text = "null", .confidence = std::nullopt};
  });
  score.name = "null to every question";
  return score;
}

std::string AskScoresText(const std::vector<AskScore>& scores) {
  std::string text =
      "| | questions | exact | F1 | F1 where there is an answer | null where there is one | null "
      "where there is none | errors | no row |\n|---|---|---|---|---|---|---|---|---|\n";
  for (const AskScore& s : scores) {
    text += fmt::format(
        "| {} | {} | {:.3f} ({:.3f} to {:.3f}) | {:.3f} ({:.3f} to {:.3f}) | {} | {} | {} | {} | "
        "{} "
        "|\n",
        s.name, s.questions, s.exact, s.exact_interval.low, s.exact_interval.high, s.f1,
        s.f1_interval.low, s.f1_interval.high,
        s.known > 0 ? fmt::format("{:.3f} of {}", s.known_f1, s.known) : "–",
        s.known > 0 ? fmt::format("{:.3f}", s.denied) : "–",
        s.unknown > 0 ? fmt::format("{:.3f} of {}", s.null_right, s.unknown) : "–", s.errors,
        s.missing);
  }
  return text;
}

std::string AskScoresJson(const std::vector<AskScore>& scores) {
  std::string lines;
  for (const AskScore& s : scores) {
    const Reliability sure = Calibrate(s.confidences);
    nlohmann::ordered_json json = {
        {"run", s.name},
        {"documents", s.documents},
        {"questions", s.questions},
        {"exact", s.exact},
        {"exact_interval", {s.exact_interval.low, s.exact_interval.high}},
        {"f1", s.f1},
        {"f1_interval", {s.f1_interval.low, s.f1_interval.high}},
        {"with_answer", s.known},
        {"f1_with_answer", s.known_f1},
        {"null_with_answer", s.denied},
        {"without_answer", s.unknown},
        {"null_without_answer", s.null_right},
        {"errors", s.errors},
        {"missing", s.missing},
    };
    if (sure.count > 0) {
      json["confidences"] = sure.count;
      json["calibration_error"] = sure.expected_error;
      json["brier"] = sure.brier;
    }
    lines += json.dump() + "\n";
  }
  return lines;
}

}  // namespace banyan
