// One option of the library as all its doors know it: the command line, HTTP, Python, a job's
// journal and the reference read these facts (option_table.h has the rows), so that a range or a
// name cannot differ between them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace banyan {

// A value on its way from a door into the library's options, or back.
using OptionData = std::variant<bool, std::int64_t, double, std::string, std::vector<std::string>>;

enum class OptionKind {
  kFlag,
  kWhole,  // a whole number
  kNumber,
  kName,          // one of `names`
  kNameOrNumber,  // one of `names`, or a number of the range; a name is a text, else a double
  kText,
  kTexts,  // several; a door may take one alone
  kJson,   // a JSON value as the text that was written
  kBytes,  // a number of bytes, or a text such as 512M
};

// Where an option can be given; bits.
enum OptionDoors : unsigned { kCommandLine = 1, kHttp = 2, kPython = 4, kEveryDoor = 7 };

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
  std::vector<std::string> aliases;  // other names that every door takes
  std::string command_names;         // "-o,--output"; empty: by `name`
  std::string http_name;             // empty: `name`; the other of both is then an alias there
  OptionKind kind = OptionKind::kText;
  CommandStyle style = CommandStyle::kPlain;
  unsigned doors = kEveryDoor;
  std::string group;        // of the help
  std::string help;         // names other options as the command line does: --too-long
  std::string other_help;   // of HTTP and Python, where it differs in more than dashes
  std::string unit;         // of a number: "tokens", "seconds"; empty: none
  std::string placeholder;  // what help writes for a text: "FOLDER"; empty: by the kind

  // Of numbers. `bounded`: `most` is part of the contract; else it is what the field can hold.
  double least = 0.0, most = 0.0;
  bool ranged = false, bounded = false;
  bool above = false;           // `least` itself is not allowed
  std::int64_t field_most = 0;  // of kWhole: the largest value of the field
  ServerLimit limit = ServerLimit::kNone;

  std::vector<std::string> names;       // of kName, kNameOrNumber
  std::vector<std::string> http_names;  // those that a server has; empty: all
  size_t most_texts = 0;                // of kTexts over HTTP; 0: any number
  char delimiter = 0;                   // of kTexts on the command line: between them in one value

  InIdentity identity = InIdentity::kNo;
  bool whole_in_identity = false;  // of a text: as it is, however long; else long ones as a hash
  std::optional<OptionData> standard;  // the value where none is given; nothing: there is none
  bool show_standard = true;           // in help
  // A knob of comparisons, which `banyan bench` and `banyan ids` show. Other commands still take
  // it, hidden and with a warning.
  bool for_comparison = false;
};

// "--max-new": the first long name on the command line.
std::string CommandName(const OptionFacts& facts);
// "max_tokens": the name over HTTP.
const std::string& HttpName(const OptionFacts& facts);
// "from 0 to 1", "above 0", "from 1"; empty: any number.
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

}  // namespace banyan
