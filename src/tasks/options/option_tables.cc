#include <utility>

#include "base/json.h"
#include "program/option_table.h"

namespace banyan {
namespace {

template <typename Options>
NamedTable Listed(const char* name) {
  NamedTable listed{name, {}};
  for (const OptionRow<Options>& row : TableOf<Options>()) listed.rows.push_back(&row);
  return listed;
}

const char* KindName(OptionKind kind) {
  constexpr const char* kNames[] = {"flag", "whole", "number", "name", "name or number",
                                    "text", "texts", "json",   "bytes"};
  return kNames[static_cast<int>(kind)];
}

const char* StyleName(CommandStyle style) {
  constexpr const char* kNames[] = {"plain",       "yes or no",    "only no", "on or off",
                                    "zero or one", "text or file", "file",    "inline or file"};
  return kNames[static_cast<int>(style)];
}

Json FactsJson(const std::string& table, const OptionFacts& facts) {
  Json json = {{"table", table},
               {"name", facts.name},
               {"command", (facts.doors & kCommandLine) != 0 ? Json(CommandName(facts)) : Json()},
               {"http", (facts.doors & kHttp) != 0 ? Json(HttpName(facts)) : Json()},
               {"python", (facts.doors & kPython) != 0 ? Json(facts.name) : Json()},
               {"aliases", facts.aliases},
               {"kind", KindName(facts.kind)},
               {"style", StyleName(facts.style)},
               {"range", RangeWords(facts)},
               {"names", facts.names},
               {"http_names", facts.http_names},
               {"unit", facts.unit},
               {"group", facts.group},
               {"help", HelpElsewhere(facts)},
               {"in_identity", facts.identity != InIdentity::kNo},
               {"for_comparison", facts.for_comparison}};
  if (facts.ranged) json["least"] = facts.least;
  if (facts.bounded) json["most"] = facts.most;
  if (facts.standard) {
    json["default"] = std::visit([](const auto& value) { return Json(value); }, *facts.standard);
  }
  return json;
}

}  // namespace

const std::vector<NamedTable>& AllTables() {
  static const std::vector<NamedTable> tables = {
      Listed<AskOptions>("ask"), Listed<ExtractOptions>("extract"), Listed<RagOptions>("rag"),
      Listed<JobOptions>("job"), Listed<LoadOptions>("model"),      Listed<EngineOptions>("engine"),
      Listed<KvStoreUse>("kv")};
  return tables;
}

std::string OptionTablesJson() {
  Json rows = Json::array();
  for (const NamedTable& table : AllTables()) {
    for (const OptionFacts* facts : table.rows) rows.push_back(FactsJson(table.name, *facts));
  }
  return DumpJson(rows);
}

}  // namespace banyan
