#include "tasks/table/pairwise_rank.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "tasks/output/carried_fields.h"
#include "tasks/output/journal.h"
#include "tasks/table/comparison_rounds.h"
#include "tasks/table/table_run.h"

namespace banyan {
namespace {

using OrderedJson = nlohmann::ordered_json;

// What stands in for a log-probability that is none.
constexpr double kNoLogprob = -1e6;

// Pairs as rows of a table, each in both orders. Those of a round follow one another by the text
// that stands first, which their prompts share.
class ComparedPairs {
 public:
  explicit ComparedPairs(const std::string& path) : path_(path), file_(path, std::ios::binary) {}

  void Add(const std::string& id, const std::string& first, const std::string& second) {
    const Json row = {{"id", id}, {"first", first}, {"second", second}};
    file_ << DumpJson(row) << "\n";
  }
  void Finish() {
    file_.flush();
    if (!file_) Throw(ErrorKind::kIo, "{}: cannot write the pairs of the ranking (TMPDIR)", path_);
  }

 private:
  const std::string path_;
  std::ofstream file_;
};

std::string PairId(const std::string& first, const std::string& second) {
  return fmt::format("[{},{}]", first, second);
}

// The text is the same for all rows and can stand after both.
bool AsksAfterwards(const TableTemplate& prompt) {
  return prompt.may_reorder() && prompt.more_fields().empty();
}

// How a pair is asked about.
TableAskOptions AskAboutPairs(const TableAskOptions& table, const TableTemplate& prompt) {
  TableAskOptions pairs;
  pairs.ask = table.ask;
  pairs.op = TableOperator::kMap;
  pairs.columns = {"first", "second"};
  pairs.labels = {"first", "second"};
  pairs.prompt = AsksAfterwards(prompt)
                     ? "Of which is this more true, the first or the second: " + table.prompt
                     : "Which of them is more true, the first or the second?";
  return pairs;
}

JobOptions JobOfPairs(const JobOptions& job, const std::string& path) {
  JobOptions pairs = job;
  pairs.inputs = {path};
  pairs.input_format = "jsonl";
  pairs.input_names[path] = "pairs";
  pairs.fields.clear();
  pairs.file_fields.clear();
  pairs.id_column.clear();
  pairs.needed_columns.clear();
  pairs.problem_field.clear();
  pairs.limit = -1;
  return JobForTables(pairs);
}

// By how much the first text leads.
double LeadOf(const TableAskOptions& table, const OrderedJson& row) {
  const auto& scores = row.at("scores");
  const auto of = [&](const char* name, size_t place) {
    const auto& value = scores.at(name).at(place);
    return value.is_number() ? value.get<double>() : kNoLogprob;
  };
  const char* by = table.ask.choice_score == ChoiceScore::kMean ? "mean" : "sum";
  double lead = of(by, 0) - of(by, 1);
  if (scores.contains("prior")) lead -= of("prior", 0) - of("prior", 1);
  return lead;
}

// The rows that are compared, as the file of their scores has them.
struct ScoredRows {
  std::vector<std::string> ids, texts;  // in the order by score
};

ScoredRows ReadScored(const TableTemplate& prompt, const std::string& rows_file,
                      const RankedPlaces& places) {
  const CarriedNames names("rank");
  std::ifstream file(rows_file, std::ios::binary);
  ScoredRows rows;
  std::string line;
  for (size_t i = 0; i + places.errors < places.begins.size(); ++i) {
    file.seekg(places.begins[i]);
    if (!std::getline(file, line)) Throw(ErrorKind::kIo, "{}: cannot read its rows", rows_file);
    const Json row = Json::parse(line);
    Json given;
    for (const std::vector<std::string>& needed : prompt.Needed()) {
      const std::string& name = needed.front();
      given[name] = row.at(name == "id" ? name : names.Of(name));
    }
    rows.ids.push_back(DumpJson(row.at("id")));
    rows.texts.push_back(ComparedText(prompt, given));
  }
  return rows;
}

}  // namespace

std::string ComparedText(const TableTemplate& prompt, const Json& row) {
  ColumnOrder order(prompt.columns().size());
  std::iota(order.begin(), order.end(), std::uint16_t{0});
  const TableTemplate::Written written = prompt.Write(prompt.ValuesOf(row), order);
  if (!prompt.may_reorder()) return written.text;
  std::string text = written.context;
  if (!AsksAfterwards(prompt)) text += "\n" + written.text;
  return text.find('\n') == std::string::npos ? text : "\n" + text + "\n";
}

void SortByPairs(const std::shared_ptr<Model>& model, const EngineOptions& engine_options,
                 const TableAskOptions& table, const JobOptions& job, const std::string& rows_file,
                 RankedPlaces& places, JobReceipt& receipt) {
  const TableTemplate prompt(table, job.fields);
  const ScoredRows rows = ReadScored(prompt, rows_file, places);
  const size_t top = static_cast<size_t>(table.top);
  const ComparisonRounds::Cost cost = ComparisonRounds::CostOf(rows.ids.size(), top);
  if (job.notice && cost.comparisons > 0) {
    job.notice(
        fmt::format("{} rows are compared: about {} pairs in {} rounds, at most {}, each in "
                    "both orders",
                    rows.ids.size(), cost.comparisons, cost.rounds, cost.most_comparisons));
  }
  const TableAskOptions asked = AskAboutPairs(table, prompt);
  const RowsFile input("-", "pairs"), output(job.output, "pairs");
  ComparedPairs file(input.path());
  JobOptions of_pairs = output.JobOf(JobOfPairs(job, input.path()));
  std::map<std::string, double> leads;  // of the first text, by the pair's id
  ComparisonRounds rounds(rows.ids.size(), top);
  for (auto pairs = rounds.Next(); !pairs.empty(); pairs = rounds.Next()) {
    for (const bool pivot_first : {true, false}) {
      for (const auto& [pivot, other] : pairs) {
        const size_t first = pivot_first ? pivot : other, second = pivot_first ? other : pivot;
        file.Add(PairId(rows.ids[first], rows.ids[second]), rows.texts[first], rows.texts[second]);
      }
    }
    file.Finish();
    const JobReceipt pass = RunTableRows(model, engine_options, asked, of_pairs, {{}, true});
    AddPass(pass, receipt);
    receipt.end = pass.end;
    receipt.stopped_at = pass.stopped_at;
    if (receipt.end != JobEnd::kComplete) return;
    of_pairs.resume = true;
    of_pairs.overwrite = false;
    of_pairs.explain = nullptr;
    leads.clear();
    std::int64_t errors = 0;
    ForEachRow(output.path(), [&](const OrderedJson& row, std::int64_t) {
      const bool error = row.contains("error");
      errors += error ? 1 : 0;
      leads[row.at("id").get<std::string>()] = error ? std::nan("") : LeadOf(asked, row);
    });
    std::vector<double> others_lead;
    for (const auto& [pivot, other] : pairs) {
      const double as_first = leads.at(PairId(rows.ids[other], rows.ids[pivot]));
      const double as_second = -leads.at(PairId(rows.ids[pivot], rows.ids[other]));
      const double lead = as_first + as_second;
      others_lead.push_back(std::isnan(lead) ? 0.0 : lead);
      receipt.comparisons_agreed += as_first * as_second > 0.0 ? 1 : 0;
    }
    receipt.comparisons += static_cast<std::int64_t>(pairs.size());
    ++receipt.comparison_rounds;
    rounds.Take(others_lead);
  }
  std::vector<std::int64_t> begins = places.begins;
  for (size_t i = 0; i < rounds.order().size(); ++i) {
    begins[i] = places.begins[rounds.order()[i]];
  }
  places.begins = std::move(begins);
}

void EstimatePairs(const std::shared_ptr<Model>& model, const EngineOptions& engine_options,
                   const TableAskOptions& table, const JobOptions& job,
                   const std::vector<std::string>& texts, JobEstimate& estimate) {
  const ComparisonRounds::Cost cost =
      ComparisonRounds::CostOf(texts.size(), static_cast<size_t>(table.top));
  if (cost.comparisons == 0) return;
  const RowsFile input("-", "pairs");
  ComparedPairs file(input.path());
  const auto pairs = ComparisonRounds(texts.size(), 0).Next();
  for (const bool pivot_first : {true, false}) {
    for (const auto& [pivot, other] : pairs) {
      const size_t first = pivot_first ? pivot : other, second = pivot_first ? other : pivot;
      file.Add(PairId(std::to_string(first), std::to_string(second)), texts[first], texts[second]);
    }
  }
  file.Finish();
  JobOptions of_pairs = JobOfPairs(job, input.path());
  of_pairs.output = "-";
  of_pairs.explain = nullptr;
  const JobEstimate round = EstimateTable(
      model, engine_options, AskAboutPairs(table, TableTemplate(table, job.fields)), of_pairs);
  const double rounds = static_cast<double>(cost.comparisons) / static_cast<double>(pairs.size());
  const auto scaled = [&](std::int64_t of_round) {
    return static_cast<std::int64_t>(std::llround(static_cast<double>(of_round) * rounds));
  };
  estimate.prompt_tokens += scaled(round.prompt_tokens);
  estimate.unique_tokens += scaled(round.unique_tokens);
  estimate.answer_tokens_limit += scaled(round.answer_tokens_limit);
  estimate.longest_prompt = std::max(estimate.longest_prompt, round.longest_prompt);
  estimate.expected_seconds += round.expected_seconds * rounds;
  estimate.limit_seconds += round.limit_seconds * rounds;
  estimate.kv_bytes = std::max(estimate.kv_bytes, round.kv_bytes);
  estimate.comparisons = cost.comparisons;
  estimate.comparison_rounds = cost.rounds;
  estimate.most_comparisons = cost.most_comparisons;
}

}  // namespace banyan
