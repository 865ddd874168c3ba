// All options of the library that more than one door gives: a row each, bound to its field.
// docs/options.md lists them; tests/cli/options_test.py tries every row through every door.
#pragma once

#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "banyan/ask.h"
#include "banyan/engine.h"
#include "banyan/extract.h"
#include "banyan/job.h"
#include "banyan/model.h"
#include "banyan/rag.h"
#include "program/kv_use.h"
#include "program/option_facts.h"

namespace banyan {

template <typename Options>
struct OptionRow : OptionFacts {
  std::function<void(Options&, const OptionData&, const std::string& called)> set;
  std::function<std::optional<OptionData>(const Options&)> get;  // nothing: not given
  // Of values that are in the identity only with others; empty: always.
  std::function<bool(const Options&)> counts;
};

template <typename Options>
using OptionTable = std::vector<OptionRow<Options>>;

const OptionTable<AskOptions>& AskTable();
const OptionTable<ExtractOptions>& ExtractTable();
const OptionTable<RagOptions>& RagTable();
const OptionTable<JobOptions>& JobTable();
const OptionTable<LoadOptions>& LoadTable();
const OptionTable<EngineOptions>& EngineTable();
const OptionTable<KvStoreUse>& KvUseTable();

template <typename Options>
const OptionTable<Options>& TableOf() {
  if constexpr (std::is_same_v<Options, AskOptions>) return AskTable();
  if constexpr (std::is_same_v<Options, ExtractOptions>) return ExtractTable();
  if constexpr (std::is_same_v<Options, RagOptions>) return RagTable();
  if constexpr (std::is_same_v<Options, JobOptions>) return JobTable();
  if constexpr (std::is_same_v<Options, LoadOptions>) return LoadTable();
  if constexpr (std::is_same_v<Options, EngineOptions>) return EngineTable();
  if constexpr (std::is_same_v<Options, KvStoreUse>) return KvUseTable();
}

// The rows for this object, which must outlive them.
template <typename Options>
BoundOptions Bind(Options& options, unsigned doors = kEveryDoor) {
  BoundOptions bound;
  for (const OptionRow<Options>& row : TableOf<Options>()) {
    if ((row.doors & doors) == 0) continue;
    bound.push_back({&row, row.get(options),
                     [&row, &options](const OptionData& data, const std::string& called) {
                       row.set(options, data, called);
                     }});
  }
  return bound;
}

// "ask", "extract", "rag", "job", "model", "engine", "kv": every table with its facts, for the
// reference, for Python and for tests.
struct NamedTable {
  std::string name;
  std::vector<const OptionFacts*> rows;
};
const std::vector<NamedTable>& AllTables();
// All of AllTables() as JSON: [{"table","name",…},…].
std::string OptionTablesJson();

}  // namespace banyan
