#include "tasks/table/table_rows.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "tasks/output/carried_fields.h"
#include "tasks/output/row_format.h"
#include "tasks/table/table_task.h"

namespace banyan {
namespace {

// Fields of `ask` that say nothing here: the prompt is the row's own, and so is what was copied
// from.
constexpr std::string_view kNotOfTables[] = {"id", "question_id", "question", "start", "end"};

bool IsOfTables(const std::string& name) {
  return std::ranges::find(kNotOfTables, name) == std::end(kNotOfTables);
}

void AddCarried(const TableAskOptions& options, const TableRow& row, OutputRow& made) {
  const CarriedNames names(TableOperatorName(options.op));
  names.Add(row.carried, nullptr, made.fields);
}

// The expected value of the labels, or the probability that the statement is true.
double ScoreOf(const TableAskOptions& options, const nlohmann::ordered_json& answer) {
  const auto& scores = answer.at("scores");
  const ChoiceScore by = options.ask.choice_score;
  std::vector<double> logs;
  for (size_t i = 0; i < scores.at("sum").size(); ++i) {
    const auto of = [&](const char* name) {
      const auto& value = scores.at(name).at(i);
      return value.is_number() ? value.get<double>() : -std::numeric_limits<double>::infinity();
    };
    logs.push_back(by == ChoiceScore::kMean ? of("mean") : of("sum"));
    if (scores.contains("prior")) logs.back() -= of("prior");
  }
  const double best = *std::ranges::max_element(logs);
  double sum = 0.0, weighted = 0.0;
  for (size_t i = 0; i < logs.size(); ++i) {
    const double share = std::isfinite(best) ? std::exp(logs[i] - best) : 1.0;
    const double value = options.labels.empty() ? (i == 0 ? 1.0 : 0.0)
                                                : std::strtod(options.labels[i].c_str(), nullptr);
    sum += share;
    weighted += share * value;
  }
  return weighted / sum;
}

}  // namespace

TableRow::TableRow(const InputRow& row) : carried(Json::object()), place{row.file, row.line} {
  for (const auto& item : row.value.items()) {
    if (item.key() == "id") {
      if (item.value().is_string() || IsNumber(item.value())) id = item.value();
    } else {
      carried[item.key()] = item.value();
    }
  }
  // An id with a replacement character is not the id of the file.
  if (id.is_string() && id.get_ref<const std::string&>().find("\uFFFD") != std::string::npos) {
    id = nullptr;
  }
}

OutputRow TableAnswerRow(const TableAskOptions& options, const TableRow& row,
                         const OutputRow& answer) {
  OutputRow made;
  made.fields["id"] = row.id;
  nlohmann::ordered_json identity = nlohmann::ordered_json::array({row.id});
  if (options.op == TableOperator::kRank) {
    const double score = ScoreOf(options, answer.fields);
    made.fields["score"] = RowNumber(score);
    made.fields["probabilities"] = answer.fields.at("probabilities");
    if (answer.fields.contains("confidence")) {
      made.fields["confidence"] = answer.fields.at("confidence");
    }
    identity.push_back(answer.fields.at("scores"));
  } else if (options.op != TableOperator::kFilter) {
    for (const auto& [name, value] : answer.fields.items()) {
      if (IsOfTables(name)) made.fields[name] = value;
    }
    identity.push_back(answer.identity);
  } else {
    const double probability = answer.fields.at("probabilities").at(0).get<double>();
    const bool keep = probability >= options.threshold;
    made.dropped = !keep && !options.all;
    if (options.all) made.fields["keep"] = keep;
    made.fields["probability"] = probability;
    if (answer.fields.contains("confidence")) {
      made.fields["confidence"] = answer.fields.at("confidence");
    }
    identity.push_back(keep);
    identity.push_back(answer.fields.at("scores"));
  }
  made.identity = identity.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  AddCarried(options, row, made);
  return made;
}

OutputRow TableErrorRow(const TableAskOptions& options, const TableRow& row,
                        const RowProblem& problem) {
  OutputRow made;
  made.error = true;
  made.fields["id"] = row.id;
  made.fields["error"] = ErrorAt(row.place, problem);
  made.identity = DumpJson(Json::array({row.id, "error", ErrorKindName(problem.kind)}));
  AddCarried(options, row, made);
  return made;
}

TableColumns ColumnsOfTable(const TableAskOptions& options) {
  if (options.op != TableOperator::kFilter) {
    return {{"id", "answer", "confidence", "probabilities", "finish_reason", "tokens"},
            {"id", "answer"}};
  }
  TableColumns columns{{"id", "probability"}, {"id", "probability"}};
  if (options.all) {
    columns.all.insert(columns.all.begin() + 1, "keep");
    columns.shown = columns.all;
  }
  return columns;
}

}  // namespace banyan
