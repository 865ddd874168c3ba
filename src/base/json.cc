// Parsing by nlohmann-json, and rows whose numbers are written back as they were.
#include "base/json.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/json_text.h"
#include "base/work_budget.h"

namespace banyan {
namespace {

constexpr size_t kMaxDepth = 256;
constexpr size_t kLongText = 1 << 16;
// A number kept as its text is a binary value of this subtype: JSON itself has none.
constexpr std::uint64_t kWrittenNumber = 1;

// Without the library's prefix "[json.exception.parse_error.101] ".
std::string ReasonOf(const Json::exception& e) {
  std::string reason = e.what();
  if (const size_t end = reason.find("] "); end != std::string::npos) reason.erase(0, end + 2);
  return reason;
}

Json WrittenNumber(const std::string& text) {
  return Json::binary(std::vector<std::uint8_t>(text.begin(), text.end()), kWrittenNumber);
}

// Builds the value; each container is filled before the one around it goes on.
class RowBuilder {
 public:
  explicit RowBuilder(const JsonLimits& limits) : limits_(limits) {}

  bool null() { return Put(nullptr); }
  bool boolean(bool value) { return Put(value); }
  bool number_integer(Json::number_integer_t value) { return Put(value); }
  bool number_unsigned(Json::number_unsigned_t value) { return Put(value); }
  bool number_float(double value, const std::string& text) {
    Json number = value;
    return Put(number.dump() == text ? std::move(number) : WrittenNumber(text));
  }
  bool string(std::string& value) { return Put(std::move(value)); }
  bool binary(Json::binary_t&) { return false; }  // not in JSON
  bool start_object(size_t) { return Open(Json::object()); }
  bool start_array(size_t) { return Open(Json::array()); }
  bool end_object() { return Close(); }
  bool end_array() { return Close(); }
  bool key(std::string& name) {
    Count(kContainerBytes);
    slot_ = &(*open_.back())[name];
    if (open_.back()->size() > limits_.most_names) {
      Throw(ErrorKind::kLimit, "an object has more than {} names", limits_.most_names);
    }
    return true;
  }
  bool parse_error(size_t, const std::string&, const Json::exception& e) {
    Throw(ErrorKind::kFormat, "not valid JSON: {}", ReasonOf(e));
  }

  Json Take() {
    if (bytes_ > 0) ChargeBudget(bytes_ - charged_);
    return std::move(root_);
  }

 private:
  static constexpr size_t kValueBytes = 32, kContainerBytes = 64;

  void Count(size_t bytes) {
    constexpr size_t kStep = 1 << 16;  // between looks at the budget
    bytes_ += bytes;
    if (bytes_ > limits_.most_bytes) {
      Throw(ErrorKind::kLimit,
            "too many values: in memory they would take more than {} MiB beside their texts",
            limits_.most_bytes >> 20);
    }
    if (bytes_ - charged_ < kStep) return;
    CheckBudget();
    ChargeBudget(bytes_ - charged_);
    charged_ = bytes_;
  }
  Json& Place(Json value) {
    Count(kValueBytes);
    Json* place = &root_;
    if (!open_.empty() && open_.back()->is_array()) {
      open_.back()->push_back(std::move(value));
      return open_.back()->back();
    }
    if (!open_.empty()) place = slot_;
    *place = std::move(value);
    return *place;
  }
  bool Put(Json value) {
    Place(std::move(value));
    return true;
  }
  bool Open(Json container) {
    if (open_.size() >= kMaxDepth) {
      Throw(ErrorKind::kFormat, "JSON nests deeper than {}", kMaxDepth);
    }
    Count(kContainerBytes);
    open_.push_back(&Place(std::move(container)));
    return true;
  }
  bool Close() {
    open_.pop_back();
    return true;
  }

  const JsonLimits limits_;
  size_t bytes_ = 0, charged_ = 0;
  Json root_;
  std::vector<Json*> open_;
  Json* slot_ = nullptr;  // of the last key
};

// The library takes a zero byte for the end of the text. `where` precedes the message.
void RefuseZeroBytes(std::string_view text, std::string_view where) {
  if (const size_t at = text.find('\0'); at != std::string_view::npos) {
    Throw(ErrorKind::kFormat, "{}not valid JSON: zero at byte {}", where, at + 1);
  }
}

// The library keeps the text it reads twice, and writes it into its message of an error several
// times more. So a long text is known to be right before it is given to it.
void PrepareForLongText(std::string_view text) {
  if (const std::optional<size_t> error = FirstJsonError(text)) {
    const std::string_view before = text.substr(0, *error);
    const size_t line_begin = before.rfind('\n') + 1;  // npos + 1: 0
    Throw(ErrorKind::kFormat, "not valid JSON: parse error at line {}, column {}",
          1 + std::ranges::count(before, '\n'), *error - line_begin + 1);
  }
  constexpr size_t kCopies = 3;  // the value's own, and two of the library with their slack
  ChargeBudget(kCopies * text.size());
}

template <typename Value>
bool HasWrittenNumber(const Value& value) {
  if (value.is_binary()) return true;
  return value.is_structured() && std::any_of(value.begin(), value.end(),
                                              [](const Value& v) { return HasWrittenNumber(v); });
}

template <typename Value>
std::string PlainDump(const Value& value) {
  return value.dump(-1, ' ', false, Value::error_handler_t::replace);
}

template <typename Value>
void Append(const Value& value, std::string& out) {
  if (value.is_binary()) {
    const auto& text = value.get_binary();
    out.append(text.begin(), text.end());
  } else if (value.is_object()) {
    const char* separator = "{";
    for (const auto& [name, field] : value.items()) {
      out += separator + PlainDump(Value(name)) + ":";
      Append(field, out);
      separator = ",";
    }
    out += value.empty() ? "{}" : "}";
  } else if (value.is_array()) {
    const char* separator = "[";
    for (const Value& element : value) {
      out += separator;
      Append(element, out);
      separator = ",";
    }
    out += value.empty() ? "[]" : "]";
  } else {
    out += PlainDump(value);
  }
}

template <typename Value>
std::string Dump(const Value& value) {
  if (!HasWrittenNumber(value)) return PlainDump(value);
  std::string out;
  Append(value, out);
  return out;
}

}  // namespace

Json ParseJson(std::string_view text, const std::string& what) {
  const auto limit_depth = [&](int depth, Json::parse_event_t event, Json&) {
    const bool opens =
        event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start;
    if (opens && depth >= static_cast<int>(kMaxDepth)) {
      Throw(ErrorKind::kFormat, "{}: JSON nests deeper than {}", what, kMaxDepth);
    }
    return true;
  };
  RefuseZeroBytes(text, what + ": ");
  try {
    return Json::parse(text.begin(), text.end(), limit_depth);
  } catch (const Json::exception& e) {
    Throw(ErrorKind::kFormat, "{}: not valid JSON: {}", what, ReasonOf(e));
  }
}

Json ParseJsonRow(std::string_view text, const JsonLimits& limits) {
  RefuseZeroBytes(text, "");
  if (text.size() >= kLongText) PrepareForLongText(text);
  RowBuilder builder(limits);
  Json::sax_parse(text.begin(), text.end(), &builder);
  return builder.Take();
}

Json ParseJsonRow(std::string_view text) { return ParseJsonRow(text, JsonLimits()); }

bool IsNumber(const Json& value) { return value.is_number() || value.is_binary(); }
const char* TypeName(const Json& value) { return IsNumber(value) ? "number" : value.type_name(); }

std::string DumpJson(const Json& value) { return Dump(value); }
std::string DumpJson(const nlohmann::ordered_json& value) { return Dump(value); }

std::string TextOrJson(const Json& value) {
  return value.is_string() ? value.get<std::string>() : DumpJson(value);
}

}  // namespace banyan
