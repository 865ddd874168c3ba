// Options of the library from Python's keyword arguments. A name that is not known, or a value of
// another type, is an Error that names it, as the command line would.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "banyan/ask.h"
#include "banyan/engine.h"
#include "banyan/error.h"
#include "banyan/extract.h"
#include "banyan/job.h"
#include "banyan/join.h"
#include "banyan/model.h"
#include "banyan/rag.h"
#include "banyan/table.h"
#include "program/options.h"

namespace banyan::python {

namespace nb = nanobind;

// Reads named values out of a dict. A value of None is one that was not given.
class OptionReader {
 public:
  explicit OptionReader(const nb::dict& values) : values_(values) {}

  template <typename Value>
  void Read(const char* name, Value& field) {
    const nb::object value = Find(name);
    if (!value.is_valid()) return;
    if (!nb::try_cast<Value>(value, field)) Refuse(name, value);
  }

  // Every option of a table that Python has. Throws kUsage for a value that its row does not allow.
  void ReadTable(const BoundOptions& options);

  nb::object Find(const char* name);
  // Throws for names that were not read.
  void Finish() const;
  const std::set<std::string>& known() const { return known_; }

 private:
  [[noreturn]] static void Refuse(const char* name, const nb::object& value);
  static OptionData DataOf(const OptionFacts& facts, const nb::object& value);
  static void CheckName(const OptionFacts& facts, const std::string& name);
  template <typename Value>
  static Value Cast(const char* name, const nb::object& value) {
    Value found{};
    if (!nb::try_cast<Value>(value, found)) Refuse(name, value);
    return found;
  }

  nb::dict values_;
  std::set<std::string> known_;
};

// Each reads what it knows; the caller finishes the reader.
LoadOptions LoadOptionsOf(OptionReader& reader);
EngineOptions EngineOptionsOf(OptionReader& reader);
AskOptions AskOptionsOf(OptionReader& reader);
ExtractOptions ExtractOptionsOf(OptionReader& reader);
RagOptions RagOptionsOf(OptionReader& reader);

// A task of tables.
struct TableCall {
  TableAskOptions table;
  std::optional<JoinOptions> join;  // where there is a right table
  nb::object large;                 // a BoundModel, of a filter by two models; null: none
};
TableCall TableCallOf(OptionReader& reader);
JobOptions JobOptionsOf(OptionReader& reader);
// Throws kUsage for a smaller number.
void AtLeast(const char* name, double value, double least);
void ReadSampling(OptionReader& reader, SamplingOptions& sampling);
void ReadPanel(OptionReader& reader, PanelOptions& panel);

// All options of a dict; one that is not known is an Error.
template <typename Options>
Options ReadAll(const nb::dict& values, Options (*read)(OptionReader&)) {
  OptionReader reader(values);
  Options options = read(reader);
  reader.Finish();
  return options;
}

// Reads options of one of these kinds and lets go of them. Throws kUsage.
void CheckOptionsOf(const std::string& kind, const nb::dict& values);
// "model", "engine", "ask", "extract", "rag", "table", "job": the names that there are.
std::vector<std::string> OptionNamesOf(const std::string& kind);

}  // namespace banyan::python
