// What shards did, together.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "program/merge.h"
#include "tasks/output/merge_shard.h"

namespace banyan {
namespace {

using OrderedJson = nlohmann::ordered_json;

Json ReadReceipt(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  if (!file) Throw(ErrorKind::kNotFound, "{}: cannot read the receipt", path);
  const Json receipt = ParseJson(text.str(), path);
  if (!receipt.is_object() || !receipt.contains("answers_hash") || !receipt.contains("seconds")) {
    Throw(ErrorKind::kFormat, "{}: expected the receipt of a job", path);
  }
  return receipt;
}

}  // namespace

std::string SumReceipts(const std::vector<std::string>& receipts,
                        const std::vector<Shard>& shards) {
  std::vector<std::string> missing;
  for (const Shard& shard : shards) missing.push_back(shard.answers_hash());
  OrderedJson sums = OrderedJson::object();
  double longest = 0.0, machine = 0.0;
  Json backends = Json::array();
  for (const std::string& path : receipts) {
    const Json receipt = ReadReceipt(path);
    const auto shard = std::ranges::find(missing, receipt.at("answers_hash").get<std::string>());
    if (shard == missing.end()) {
      Throw(ErrorKind::kUsage,
            "{}: is the receipt of none of the shards as they are now, or comes twice", path);
    }
    missing.erase(shard);
    for (const char* name :
         {"rows_this_run", "prompt_tokens", "prefilled_tokens", "shared_tokens", "copied_tokens",
          "generated_tokens", "preempted", "steps", "streams"}) {
      sums[name] = sums.value(name, std::int64_t{0}) + receipt.value(name, std::int64_t{0});
    }
    const double seconds = receipt.at("seconds").value("total", 0.0);
    longest = std::max(longest, seconds);
    machine += seconds;
    const Json backend = receipt.value("backend", Json());
    if (std::ranges::find(backends, backend) == backends.end()) backends.push_back(backend);
  }
  if (!missing.empty()) {
    Throw(ErrorKind::kUsage, "expected the receipts of all {} shards, found {}", shards.size(),
          receipts.size());
  }
  sums["seconds"] = {{"longest", longest}, {"machines", machine}};
  sums["backends"] = backends;
  return sums.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

std::string MergeReceipt::ToText() const {
  return fmt::format(
      "{}: {} shards are one output\n  {:<10} {} ({} errors) of {} records\n  {:<10} {}\n", task,
      shards, "rows", rows, error_rows, records, "answers", answers_hash);
}

std::string MergeReceipt::ToJson() const {
  OrderedJson json;
  json["task"] = task;
  json["end"] = "complete";
  json["output"] = output;
  json["shards"] = shards;
  json["rows"] = rows;
  json["error_rows"] = error_rows;
  json["records"] = records;
  if (!sums.empty()) json.update(OrderedJson::parse(sums));
  json["answers_hash"] = answers_hash;
  return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

}  // namespace banyan
