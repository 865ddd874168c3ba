// Options of the library from Python's keyword arguments. A name that is not known, or a value of
// another type, is an Error that names it, as the command line would.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "banyan/ask.h"
#include "banyan/engine.h"
#include "banyan/error.h"
#include "banyan/extract.h"
#include "banyan/job.h"
#include "banyan/model.h"
#include "banyan/rag.h"

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

  // A value that is one of several names.
  template <typename Value>
  void ReadName(const char* name, Value& field,
                const std::vector<std::pair<const char*, Value>>& values) {
    std::string text;
    Read(name, text);
    if (text.empty()) return;
    std::string names;
    for (const auto& [known, value] : values) {
      if (text == known) {
        field = value;
        return;
      }
      names += (names.empty() ? "" : ", ") + std::string(known);
    }
    throw Error(ErrorKind::kUsage,
                std::string(name) + ": expected one of " + names + "; found '" + text + "'");
  }

  nb::object Find(const char* name);
  // Throws for names that nobody asked for.
  void Finish() const;

 private:
  [[noreturn]] static void Refuse(const char* name, const nb::object& value);

  nb::dict values_;
  std::set<std::string> known_;
};

// Each takes what is its own out of the dict and refuses what is left.
LoadOptions LoadOptionsOf(const nb::dict& values);
EngineOptions EngineOptionsOf(const nb::dict& values);
AskOptions AskOptionsOf(const nb::dict& values);
ExtractOptions ExtractOptionsOf(const nb::dict& values);
RagOptions RagOptionsOf(const nb::dict& values);
JobOptions JobOptionsOf(const nb::dict& values);
void ReadSampling(OptionReader& reader, SamplingOptions& sampling);

}  // namespace banyan::python
