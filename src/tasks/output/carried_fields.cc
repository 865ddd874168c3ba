#include "tasks/output/carried_fields.h"

#include <functional>
#include <map>
#include <utility>

#include "banyan/row_columns.h"

namespace banyan {
namespace {

constexpr std::string_view kPrefix = "input_";

const std::map<std::string, std::set<std::string>, std::less<>>& AllResultNames() {
  static const std::set<std::string> of_map = {
      "calibrated", "answer",        "candidates", "choice",   "confidence",    "copied",
      "error",      "finish_reason", "letter",     "logprobs", "more",          "part",
      "parts",      "read",          "reduced",    "samples",  "prompt_tokens", "probabilities",
      "scores",     "thinking",      "token_ids",  "tokens",   "top_logprobs",  "truncated_bytes",
      "value",      "votes",         "withheld"};
  static const std::map<std::string, std::set<std::string>, std::less<>> names = {
      {"ask", {"answer",   "candidates", "choice",        "confidence",    "copied",
               "end",      "error",      "finish_reason", "letter",        "logprobs",
               "more",     "part",       "parts",         "probabilities", "prompt_tokens",
               "read",     "reduced",    "samples",       "scores",        "start",
               "thinking", "token_ids",  "tokens",        "top_logprobs",  "truncated_bytes",
               "value",    "votes",      "withheld"}},
      {"map", of_map},
      {"group", of_map},
      {"rank", {"confidence", "error", "more", "probabilities", "rank", "score"}},
      {"filter",
       {"calibrated", "confidence", "decided_by", "error", "keep", "more", "probability"}},
      {"extract",
       {"agreeing", "confidence", "conflicts", "cut_bytes", "error", "more", "parts", "raw",
        "reasons", "prompt_tokens", "sources", "spans", "stacked", "tokens", "truncated", "units",
        "values"}},
      {"rag", {"abstained",  "alternatives",  "answer",         "citations",
               "confidence", "dropped",       "dropped_reason", "empty",
               "error",      "finish_reason", "method",         "first_token_seconds",
               "more",       "prompt_tokens", "reason",         "seconds",
               "stale",      "tokens",        "trace",          "truncated",
               "verified"}}};
  return names;
}

}  // namespace

const std::set<std::string>& ResultNames(std::string_view task) {
  static const std::set<std::string> none;
  const auto found = AllResultNames().find(task);
  return found == AllResultNames().end() ? none : found->second;
}

std::vector<std::string> CarriedFieldNames(const std::string& task,
                                           const std::vector<std::string>& fields,
                                           const std::vector<std::string>& more) {
  const CarriedNames names(task, more);
  std::vector<std::string> carried;
  for (const std::string& field : fields) carried.push_back(names.Of(field));
  return carried;
}

CarriedNames::CarriedNames(std::string_view task, std::vector<std::string> more)
    : results_(ResultNames(task)) {
  for (std::string& name : more) results_.insert(std::move(name));
}

std::string CarriedNames::Of(const std::string& name) const {
  std::string_view plain = name;
  while (true) {
    if (results_.contains(std::string(plain))) return std::string(kPrefix) + name;
    if (!plain.starts_with(kPrefix)) return name;
    plain.remove_prefix(kPrefix.size());
  }
}

void CarriedNames::Add(const Json& fields, const std::function<bool(const std::string&)>& is_read,
                       nlohmann::ordered_json& row) const {
  if (!fields.is_object()) return;
  for (const auto& [name, value] : fields.items()) {
    if (is_read && is_read(name)) continue;
    const std::string shown = Of(name);
    if (!row.contains(shown)) row[shown] = value;
  }
}

}  // namespace banyan
