// The table of options: what the command line, HTTP, Python, a job's journal and the reference know
// about each, so that a range or a name cannot differ between them. docs/options.md lists them;
// tests/cli/options_test.py tries every row through every interface.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "banyan/ask.h"
#include "banyan/engine.h"
#include "banyan/error.h"
#include "banyan/extract.h"
#include "banyan/job.h"
#include "banyan/model.h"
#include "banyan/rag.h"
#include "banyan/request.h"
#include "banyan/retrieval.h"
#include "banyan/table.h"
#include "program/kv.h"

namespace banyan {

// A value on its way from an interface into the library's options, or back.
using OptionData = std::variant<bool, std::int64_t, double, std::string, std::vector<std::string>>;

enum class OptionKind {
  kFlag,
  kWhole,  // a whole number
  kNumber,
  kName,          // one of `names`
  kNameOrNumber,  // one of `names`, or a number of the range; a name is a text, else a double
  kText,
  kTexts,  // several; an interface may take one alone
  kJson,   // a JSON value as the text that was written
  kBytes,  // a number of bytes, or a text such as 512M
};

// Where an option can be given; bits.
enum OptionInterfaces : unsigned { kCommandLine = 1, kHttp = 2, kPython = 4, kEveryInterface = 7 };

// How the command line writes it.
enum class CommandStyle {
  kPlain,         // --name VALUE; a flag: --name
  kYesOrNo,       // --name, --no-name
  kOnlyNo,        // --no-name: a flag that is true otherwise
  kOnOff,         // --name on|off
  kZeroOrOne,     // --name 0|1
  kTextOrFile,    // --name TEXT, or @FILE with the text
  kFile,          // --name FILE with the text
  kInlineOrFile,  // --name '{…}', or a FILE with the text
};

// What of a server bounds a number further.
enum class ServerLimit { kNone, kTokens, kAnswers };

// Whether a value is in the journal's header: two runs with different values are different jobs.
enum class InIdentity { kNo, kAlways, kUnlessDefault };

struct OptionFacts {
  std::string name;                  // "max_new": HTTP and Python; the command line has --max-new
  std::vector<std::string> aliases;  // other names that every interface takes
  std::string command_names;         // "-o,--output"; empty: by `name`
  std::string http_name;             // empty: `name`; the other of both is then an alias there
  OptionKind kind = OptionKind::kText;
  CommandStyle style = CommandStyle::kPlain;
  unsigned interfaces = kEveryInterface;
  std::string group;        // of the help
  std::string help;         // names other options as the command line does: --too-long
  std::string other_help;   // of HTTP and Python, where it differs in more than dashes
  std::string unit;         // of a number: "tokens", "seconds"; empty: none
  std::string placeholder;  // what help writes for a text: "FOLDER"; empty: by the kind

  // Of numbers. `bounded`: `most` is part of the contract; else it is what the field can hold.
  double least = 0.0, most = 0.0;
  bool ranged = false, bounded = false;
  std::int64_t field_most = 0;  // of kWhole: the largest value of the field
  ServerLimit limit = ServerLimit::kNone;

  std::vector<std::string> names;       // of kName, kNameOrNumber
  std::vector<std::string> http_names;  // those that a server has; empty: all
  size_t most_texts = 0;                // of kTexts over HTTP; 0: any number
  char delimiter = 0;                   // of kTexts on the command line: between them in one value

  InIdentity identity = InIdentity::kNo;
  bool whole_in_identity = false;  // of a text: as it is, however long; else long ones as a hash
  std::optional<OptionData> default_value;  // the value where none is given; nothing: there is none
  bool show_default = true;                 // in help
  // A knob of comparisons, which `banyan bench` and `banyan ids` show. Other commands still take
  // it, hidden and with a warning.
  bool for_comparison = false;
};

// "--max-new": the first long name on the command line.
std::string CommandName(const OptionFacts& facts);
// "max_tokens": the name over HTTP.
const std::string& HttpName(const OptionFacts& facts);
// "from 0 to 1", "from 1"; empty: any number.
std::string RangeWords(const OptionFacts& facts);
bool InRange(const OptionFacts& facts, double value);
bool InRange(const OptionFacts& facts, std::int64_t value);
// "0.5", "on", "auto": as a person writes it; lists with commas.
std::string DataText(const OptionData& data);
// The help of HTTP and Python: "too_long" for "--too-long".
std::string HelpElsewhere(const OptionFacts& facts);

// A row of a table for one object, whose field `set` changes. What `set` throws for a text that it
// cannot read is kUsage and calls the option by `called`.
struct BoundOption {
  const OptionFacts* facts = nullptr;
  std::optional<OptionData> now;  // the value where none is given
  std::function<void(const OptionData&, const std::string& called)> set;
};
using BoundOptions = std::vector<BoundOption>;
// Of `options`, those with one of the names.
BoundOptions OnlyNamed(BoundOptions options, const std::vector<std::string>& names);

// --- Names of values, and values with a syntax of their own, for the command line and Python.

template <typename Value>
using OptionNames = std::vector<std::pair<const char*, Value>>;

// The value of a name. `option` is what the message calls the option. Throws kUsage with the names
// that there are.
template <typename Value>
Value NamedValue(const std::string& name, const std::string& option,
                 const OptionNames<Value>& values) {
  std::string names;
  for (const auto& [known, value] : values) {
    if (name == known) return value;
    names += (names.empty() ? "" : ", ") + std::string(known);
  }
  throw Error(ErrorKind::kUsage, option + ": expected one of " + names + "; found '" + name + "'");
}

const OptionNames<ChatUse>& ChatNames();
const OptionNames<ChoiceMode>& ChoiceModeNames();
const OptionNames<ChoiceScore>& ChoiceScoreNames();
const OptionNames<ValueMode>& ValueModeNames();
const OptionNames<FuseMode>& FuseModeNames();
const OptionNames<ExpertsAre>& ExpertsNames();
const OptionNames<Signal>& CandidateNames();
const OptionNames<RagMethod>& RagMethodNames();
const OptionNames<RelevanceFrom>& RelevanceNames();
const OptionNames<FusionRule>& FusionRuleNames();
const OptionNames<SwitchRule>& SwitchRuleNames();
const OptionNames<PanelScores>& PanelScoresNames();
const OptionNames<TableOrder>& TableOrderNames();
const OptionNames<Strategy>& StrategyNames();
// Of ask and extract; those of rag do not split.
const OptionNames<TooLong>& TooLongNames();
const OptionNames<TooLong>& TooLongNamesWithoutSplit();

// "expert", "shared", or a number from 0. Throws kUsage.
void ParseBeta(const std::string& text, const std::string& option, PanelOptions& panel);
// "," ";" "|" or "tab". Throws kUsage.
char ParseDelimiter(const std::string& text, const std::string& option);
// Throws kUsage unless 1 <= shard <= shards; `text` is how they were given.
void CheckShard(const JobOptions& job, const std::string& text, const std::string& option);

// --- The tables: a row for each option that more than one interface has, bound to its field.

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
const OptionTable<TableAskOptions>& TableAskTable();
const OptionTable<JobOptions>& JobTable();
const OptionTable<LoadOptions>& LoadTable();
const OptionTable<EngineOptions>& EngineTable();
const OptionTable<KvStoreUse>& KvUseTable();

template <typename Options>
const OptionTable<Options>& TableOf() {
  if constexpr (std::is_same_v<Options, AskOptions>) return AskTable();
  if constexpr (std::is_same_v<Options, ExtractOptions>) return ExtractTable();
  if constexpr (std::is_same_v<Options, RagOptions>) return RagTable();
  if constexpr (std::is_same_v<Options, TableAskOptions>) return TableAskTable();
  if constexpr (std::is_same_v<Options, JobOptions>) return JobTable();
  if constexpr (std::is_same_v<Options, LoadOptions>) return LoadTable();
  if constexpr (std::is_same_v<Options, EngineOptions>) return EngineTable();
  if constexpr (std::is_same_v<Options, KvStoreUse>) return KvUseTable();
}

// The rows for this object, which must outlive them.
template <typename Options>
BoundOptions Bind(Options& options, unsigned interfaces = kEveryInterface) {
  BoundOptions bound;
  for (const OptionRow<Options>& row : TableOf<Options>()) {
    if ((row.interfaces & interfaces) == 0) continue;
    bound.push_back({&row, row.get(options),
                     [&row, &options](const OptionData& data, const std::string& called) {
                       row.set(options, data, called);
                     }});
  }
  return bound;
}

// "ask", "extract", "rag", "table", "job", "model", "engine", "kv": every table with its facts, for
// the reference, for Python and for tests.
struct NamedTable {
  std::string name;
  std::vector<const OptionFacts*> rows;
};
const std::vector<NamedTable>& AllTables();
// All of AllTables() as JSON: [{"table","name",…},…].
std::string OptionTablesJson();

}  // namespace banyan
