// What is the same for every option table: names, ranges and texts of values, the identity of a
// job, and names of options whose value is one of several.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <initializer_list>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"
#include "program/options.h"
#include "tasks/options/task_options.h"
#include "text/unicode.h"

namespace banyan {

namespace {

// A bound such as 0.01 is another number once a float has held it.
bool IsBound(const OptionFacts& facts, double value) {
  const auto narrow = static_cast<float>(value);
  return narrow == static_cast<float>(facts.least) ||
         (facts.bounded && narrow == static_cast<float>(facts.most));
}

void CheckNumber(const OptionFacts& facts, bool good, const char* kind, const OptionData& data) {
  if (good) return;
  Throw(ErrorKind::kUsage, "{}: expected {} {}, found {}", IdentityName(facts), kind,
        RangeWords(facts), DataText(data));
}

}  // namespace

void CheckValue(const OptionFacts& facts, const OptionData& data) {
  if (const auto* whole = std::get_if<std::int64_t>(&data)) {
    CheckNumber(facts, InRange(facts, *whole), "a whole number", data);
  } else if (const auto* number = std::get_if<double>(&data)) {
    const bool good = InRange(facts, *number) || IsBound(facts, *number);
    CheckNumber(facts, good, "a number", data);
  } else if (const auto* text = std::get_if<std::string>(&data)) {
    if (!IsValidUtf8(*text)) Throw(ErrorKind::kUsage, "{}: not valid UTF-8", IdentityName(facts));
  } else if (const auto* texts = std::get_if<std::vector<std::string>>(&data)) {
    for (const std::string& one : *texts) {
      if (!one.empty() && IsValidUtf8(one)) continue;
      Throw(ErrorKind::kUsage, "{}: expected a text that is not empty, in UTF-8",
            IdentityName(facts));
    }
  }
}

Json TextParameter(const std::string& text) {
  constexpr size_t kShownBytes = 2000;
  if (text.size() <= kShownBytes) return text;
  return fmt::format("{} bytes, sha256 {}", text.size(), ToHex(Sha256().Add(text).Finish()));
}

std::string IdentityName(const OptionFacts& facts) {
  const bool reversed =
      facts.style == CommandStyle::kOnlyNo || facts.style == CommandStyle::kZeroOrOne;
  if (reversed) return CommandName(facts);
  std::string name = "--";
  for (const char c : facts.name) name += c == '_' ? '-' : c;
  return name;
}

Json IdentityValue(const OptionFacts& facts, const OptionData& data) {
  if (const auto* text = std::get_if<std::string>(&data)) {
    const bool is_text = facts.kind == OptionKind::kText || facts.kind == OptionKind::kJson;
    return is_text && !facts.whole_in_identity ? TextParameter(*text) : Json(*text);
  }
  if (const auto* flag = std::get_if<bool>(&data)) {
    if (facts.style == CommandStyle::kOnOff) return *flag ? "on" : "off";
    return facts.style == CommandStyle::kOnlyNo ? !*flag : *flag;
  }
  return std::visit([](const auto& value) { return Json(value); }, data);
}

std::string CommandName(const OptionFacts& facts) {
  if (!facts.command_names.empty()) {
    const size_t begin = facts.command_names.find("--");
    return facts.command_names.substr(begin, facts.command_names.find(',', begin) - begin);
  }
  std::string name = facts.style == CommandStyle::kOnlyNo ? "--no-" : "--";
  for (const char c : facts.name) name += c == '_' ? '-' : c;
  return name;
}

const std::string& HttpName(const OptionFacts& facts) {
  return facts.http_name.empty() ? facts.name : facts.http_name;
}

std::string RangeWords(const OptionFacts& facts) {
  if (!facts.ranged) return "";
  // In full, not 1e+06.
  const auto text = [](double value) {
    return value == static_cast<double>(static_cast<std::int64_t>(value))
               ? std::to_string(static_cast<std::int64_t>(value))
               : fmt::format("{}", value);
  };
  return "from " + text(facts.least) + (facts.bounded ? " to " + text(facts.most) : "");
}

bool InRange(const OptionFacts& facts, double value) {
  if (!facts.ranged) return true;
  return value >= facts.least && (!facts.bounded || value <= facts.most);
}

bool InRange(const OptionFacts& facts, std::int64_t value) {
  if (facts.field_most > 0 && (value > facts.field_most || value < -facts.field_most)) return false;
  return InRange(facts, static_cast<double>(value));
}

std::string DataText(const OptionData& data) {
  return std::visit(
      [](const auto& value) -> std::string {
        using Value = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<Value, std::vector<std::string>>) {
          return fmt::format("{}", fmt::join(value, ","));
        } else if constexpr (std::is_same_v<Value, std::string>) {
          return value;
        } else {
          return fmt::format("{}", value);
        }
      },
      data);
}

BoundOptions OnlyNamed(BoundOptions options, const std::vector<std::string>& names) {
  std::erase_if(options, [&](const BoundOption& option) {
    return std::ranges::find(names, option.facts->name) == names.end();
  });
  return options;
}

std::string HelpElsewhere(const OptionFacts& facts) {
  if (!facts.other_help.empty()) return facts.other_help;
  const std::string& help = facts.help;
  std::string text;
  for (size_t i = 0; i < help.size(); ++i) {
    const bool name = help.compare(i, 2, "--") == 0 && i + 2 < help.size() &&
                      std::islower(static_cast<unsigned char>(help[i + 2])) != 0;
    if (!name) {
      text += help[i];
      continue;
    }
    i += 2;
    for (; i < help.size(); ++i) {
      const auto c = static_cast<unsigned char>(help[i]);
      if (std::islower(c) == 0 && std::isdigit(c) == 0 && c != '-') break;
      text += c == '-' ? '_' : static_cast<char>(c);
    }
    --i;
  }
  return text;
}

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
  Json json = {
      {"table", table},
      {"name", facts.name},
      {"command", (facts.interfaces & kCommandLine) != 0 ? Json(CommandName(facts)) : Json()},
      {"http", (facts.interfaces & kHttp) != 0 ? Json(HttpName(facts)) : Json()},
      {"python", (facts.interfaces & kPython) != 0 ? Json(facts.name) : Json()},
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
  if (facts.default_value) {
    json["default"] =
        std::visit([](const auto& value) { return Json(value); }, *facts.default_value);
  }
  return json;
}

}  // namespace

const std::vector<NamedTable>& AllTables() {
  static const std::vector<NamedTable> tables = {
      Listed<AskOptions>("ask"),       Listed<ExtractOptions>("extract"),
      Listed<RagOptions>("rag"),       Listed<TableAskOptions>("table"),
      Listed<JobOptions>("job"),       Listed<LoadOptions>("model"),
      Listed<EngineOptions>("engine"), Listed<KvStoreUse>("kv")};
  return tables;
}

std::string OptionTablesJson() {
  Json rows = Json::array();
  for (const NamedTable& table : AllTables()) {
    for (const OptionFacts* facts : table.rows) rows.push_back(FactsJson(table.name, *facts));
  }
  return DumpJson(rows);
}

namespace {

// Values under the names that the library itself has for them.
template <typename Value>
OptionNames<Value> NamesOf(std::initializer_list<Value> values, const char* (*name)(Value)) {
  OptionNames<Value> names;
  for (const Value value : values) names.emplace_back(name(value), value);
  return names;
}

}  // namespace

const OptionNames<ChatUse>& ChatNames() {
  static const OptionNames<ChatUse> names = {
      {"auto", ChatUse::kAuto}, {"on", ChatUse::kOn}, {"off", ChatUse::kOff}};
  return names;
}

const OptionNames<ChoiceMode>& ChoiceModeNames() {
  static const OptionNames<ChoiceMode> names = {
      {"auto", ChoiceMode::kAuto}, {"score", ChoiceMode::kScore}, {"letter", ChoiceMode::kLetter}};
  return names;
}

const OptionNames<ChoiceScore>& ChoiceScoreNames() {
  static const OptionNames<ChoiceScore> names = {
      {"sum", ChoiceScore::kSum}, {"mean", ChoiceScore::kMean}, {"prior", ChoiceScore::kPrior}};
  return names;
}

const OptionNames<FuseMode>& FuseModeNames() {
  static const OptionNames<FuseMode> names = {{"values", FuseMode::kValues},
                                              {"tokens", FuseMode::kTokens}};
  return names;
}

const OptionNames<ValueMode>& ValueModeNames() {
  static const OptionNames<ValueMode> names = {{"skeleton", ValueMode::kSkeleton},
                                               {"isolated", ValueMode::kIsolated},
                                               {"sequential", ValueMode::kSequential}};
  return names;
}

const OptionNames<ExpertsAre>& ExpertsNames() {
  static const OptionNames<ExpertsAre> names = {{"documents", ExpertsAre::kDocuments},
                                                {"examples", ExpertsAre::kExamples}};
  return names;
}

const OptionNames<Signal>& CandidateNames() {
  static const OptionNames<Signal> names = {
      {"bm25", Signal::kBm25}, {"dense", Signal::kDense}, {"sparse", Signal::kSparse}};
  return names;
}

const OptionNames<TooLong>& TooLongNames() {
  static const OptionNames<TooLong> names = {
      {"fail", TooLong::kFail}, {"truncate", TooLong::kTruncate}, {"split", TooLong::kSplit}};
  return names;
}

const OptionNames<TooLong>& TooLongNamesWithoutSplit() {
  static const OptionNames<TooLong> names = {{"fail", TooLong::kFail},
                                             {"truncate", TooLong::kTruncate}};
  return names;
}

const OptionNames<RagMethod>& RagMethodNames() {
  static const OptionNames<RagMethod> names =
      NamesOf({RagMethod::kExperts, RagMethod::kConcat, RagMethod::kTop1, RagMethod::kMapReduce,
               RagMethod::kKvConcat},
              RagMethodName);
  return names;
}

const OptionNames<RelevanceFrom>& RelevanceNames() {
  static const OptionNames<RelevanceFrom> names =
      NamesOf({RelevanceFrom::kAuto, RelevanceFrom::kGiven, RelevanceFrom::kBm25,
               RelevanceFrom::kDense, RelevanceFrom::kSparse, RelevanceFrom::kMultiVector,
               RelevanceFrom::kRerank, RelevanceFrom::kEqual},
              RelevanceFromName);
  return names;
}

const OptionNames<FusionRule>& FusionRuleNames() {
  static const OptionNames<FusionRule> names =
      NamesOf({FusionRule::kMax, FusionRule::kMixture, FusionRule::kProduct}, FusionRuleName);
  return names;
}

const OptionNames<SwitchRule>& SwitchRuleNames() {
  static const OptionNames<SwitchRule> names =
      NamesOf({SwitchRule::kWord, SwitchRule::kToken}, SwitchRuleName);
  return names;
}

const OptionNames<PanelScores>& PanelScoresNames() {
  static const OptionNames<PanelScores> names =
      NamesOf({PanelScores::kNormalised, PanelScores::kRaw}, PanelScoresName);
  return names;
}

const OptionNames<TableOrder>& TableOrderNames() {
  static const OptionNames<TableOrder> names = {{"given", TableOrder::kGiven},
                                                {"auto", TableOrder::kAuto}};
  return names;
}
const OptionNames<Strategy>& StrategyNames() {
  static const OptionNames<Strategy> names =
      NamesOf({Strategy::kAuto, Strategy::kTree, Strategy::kStacked, Strategy::kPaged,
               Strategy::kFlat, Strategy::kSequential, Strategy::kNoAttention},
              StrategyName);
  return names;
}

void ParseBeta(const std::string& text, const std::string& option, PanelOptions& panel) {
  if (text == "expert" || text == "shared") {
    panel.beta_rule = text == "shared" ? BetaRule::kShared : BetaRule::kExpert;
    return;
  }
  char* end = nullptr;
  panel.beta_rule = BetaRule::kFixed;
  panel.beta = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !(panel.beta >= 0.0 && panel.beta <= 1e6)) {
    throw Error(ErrorKind::kUsage,
                option + ": expected expert, shared or a number from 0, found '" + text + "'");
  }
}

char ParseDelimiter(const std::string& text, const std::string& option) {
  if (text == "tab" || text == "\\t" || text == "\t") return '\t';
  if (text == "," || text == ";" || text == "|") return text.front();
  throw Error(ErrorKind::kUsage, option + ": expected , ; | or tab; found '" + text + "'");
}

void CheckShard(const JobOptions& job, const std::string& text, const std::string& option) {
  if (job.shard >= 1 && job.shard <= job.shards) return;
  throw Error(ErrorKind::kUsage,
              option + ": expected i/n with 1 <= i <= n, such as 2/8; found '" + text + "'");
}

}  // namespace banyan
