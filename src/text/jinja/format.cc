// "%s" % value and "{}".format(value). Arguments keep their origin, the format its own.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "text/jinja/arguments.h"
#include "text/jinja/ops.h"
#include "text/jinja/text_ops.h"

namespace banyan::jinja {
namespace {

constexpr int64_t kMaxWidth = 4096;

struct Conversion {
  bool left = false;
  bool zero = false;
  bool plus = false;
  bool space = false;
  int64_t width = 0;
  int64_t precision = -1;
  char type = 's';
};

int64_t TakeNumber(Runtime& runtime, const std::string& format, size_t& pos) {
  int64_t number = 0;
  while (pos < format.size() && format[pos] >= '0' && format[pos] <= '9') {
    number = number * 10 + (format[pos++] - '0');
    if (number > kMaxWidth) {
      runtime.Fail(ErrorKind::kLimit, "a format's width exceeds {}", kMaxWidth);
    }
  }
  return number;
}

// The conversion after the '%' at pos - 1.
Conversion TakeConversion(Runtime& runtime, const std::string& format, size_t& pos) {
  Conversion out;
  for (; pos < format.size(); ++pos) {
    if (format[pos] == '-') {
      out.left = true;
    } else if (format[pos] == '0') {
      out.zero = true;
    } else if (format[pos] == '+') {
      out.plus = true;
    } else if (format[pos] == ' ') {
      out.space = true;
    } else {
      break;
    }
  }
  out.width = TakeNumber(runtime, format, pos);
  if (pos < format.size() && format[pos] == '.') {
    ++pos;
    out.precision = TakeNumber(runtime, format, pos);
  }
  if (pos >= format.size()) runtime.Fail(ErrorKind::kInput, "a format ends within '%'");
  out.type = format[pos++];
  return out;
}

std::string FormatNumber(Runtime& runtime, const Conversion& conversion, const Value& value) {
  if (!value.IsNumber()) {
    if (value.IsUndefined()) FailUndefined(runtime, value);
    runtime.Fail(ErrorKind::kInput, "'%{}' needs a number, not {}", conversion.type,
                 value.TypeName());
  }
  std::string digits;
  if (conversion.type == 'd' || conversion.type == 'i' || conversion.type == 'u') {
    const double whole = std::trunc(value.AsDouble());
    if (value.IsFloat() && !(std::abs(whole) < 9.2e18)) {
      runtime.Fail(ErrorKind::kUnsupported, "an integer beyond 64 bits");
    }
    digits = std::to_string(value.IsFloat() ? static_cast<int64_t>(whole) : value.AsInt());
  } else {
    const int precision = static_cast<int>(conversion.precision < 0 ? 6 : conversion.precision);
    digits = conversion.type == 'f'   ? fmt::format("{:.{}f}", value.AsDouble(), precision)
             : conversion.type == 'e' ? fmt::format("{:.{}e}", value.AsDouble(), precision)
                                      : fmt::format("{:.{}g}", value.AsDouble(), precision);
  }
  if (digits[0] != '-' && (conversion.plus || conversion.space)) {
    digits.insert(digits.begin(), conversion.plus ? '+' : ' ');
  }
  const auto width = static_cast<size_t>(conversion.width);
  if (conversion.zero && !conversion.left && digits.size() < width) {
    const bool sign = digits[0] == '-' || digits[0] == '+' || digits[0] == ' ';
    digits.insert(sign ? 1 : 0, width - digits.size(), '0');
  }
  return digits;
}

Text FormatOne(Runtime& runtime, const Conversion& conversion, const Value& value) {
  Text body;
  switch (conversion.type) {
    case 's':
    case 'r':
      body = conversion.type == 's' ? Str(runtime, value) : Repr(runtime, value);
      if (conversion.precision >= 0) {
        const Value cut = GetSlice(runtime, Value(std::move(body)),
                                   {None{}, Value(conversion.precision), None{}});
        body = *cut.text();
      }
      break;
    case 'd':
    case 'i':
    case 'u':
    case 'f':
    case 'e':
    case 'g':
      body = Text(FormatNumber(runtime, conversion, value));
      break;
    default:
      runtime.Fail(ErrorKind::kUnsupported, "the conversion '%{}'", conversion.type);
  }
  const auto width = static_cast<size_t>(conversion.width);
  const size_t chars = CountChars(body.bytes());
  if (chars >= width) return body;
  Text out;
  if (!conversion.left) out.Append(std::string(width - chars, ' '), false);
  out.Append(body);
  if (conversion.left) out.Append(std::string(width - chars, ' '), false);
  return out;
}

void AppendChecked(Runtime& runtime, Text& out, const Text& part, size_t begin, size_t end) {
  runtime.Bytes(end - begin);
  if (out.size() + (end - begin) > runtime.limits.output_bytes) runtime.Bytes(out.size() + end);
  out.AppendSlice(part, begin, end);
}

}  // namespace

Value FormatPercent(Runtime& runtime, const Text& format, const Value& value) {
  const std::string& bytes = format.bytes();
  const List* tuple = value.list() != nullptr && value.list()->is_tuple ? value.list() : nullptr;
  const size_t given = tuple != nullptr ? tuple->items.size() : 1;
  size_t used = 0;
  bool by_name = false;
  Text out;
  for (size_t pos = 0; pos < bytes.size();) {
    runtime.Step();
    const size_t percent = std::min(bytes.find('%', pos), bytes.size());
    AppendChecked(runtime, out, format, pos, percent);
    if (percent == bytes.size()) break;
    pos = percent + 1;
    if (pos < bytes.size() && bytes[pos] == '%') {
      AppendChecked(runtime, out, format, pos, pos + 1);
      ++pos;
      continue;
    }
    Value item;
    if (pos < bytes.size() && bytes[pos] == '(') {
      const size_t close = bytes.find(')', pos);
      if (value.dict() == nullptr || close == std::string::npos) {
        runtime.Fail(ErrorKind::kInput, "'%(name)' needs a dict");
      }
      by_name = true;
      item = GetItem(runtime, value, Value::String(bytes.substr(pos + 1, close - pos - 1)));
      pos = close + 1;
    } else {
      if (used >= given) runtime.Fail(ErrorKind::kInput, "not enough arguments for '%'");
      item = tuple != nullptr ? tuple->items[used] : value;
      ++used;
    }
    const Text part = FormatOne(runtime, TakeConversion(runtime, bytes, pos), item);
    AppendChecked(runtime, out, part, 0, part.size());
  }
  if (used < given && !by_name && value.dict() == nullptr && value.list() == nullptr) {
    runtime.Fail(ErrorKind::kInput, "not all arguments of '%' were used");
  }
  return Value(std::move(out));
}

Text FormatBraces(Runtime& runtime, const Text& format, const Arguments& arguments) {
  const std::string& bytes = format.bytes();
  Text out;
  size_t automatic = 0;
  for (size_t pos = 0; pos < bytes.size();) {
    runtime.Step();
    const size_t brace = std::min(bytes.find_first_of("{}", pos), bytes.size());
    AppendChecked(runtime, out, format, pos, brace);
    if (brace == bytes.size()) break;
    if (brace + 1 < bytes.size() && bytes[brace + 1] == bytes[brace]) {
      AppendChecked(runtime, out, format, brace, brace + 1);
      pos = brace + 2;
      continue;
    }
    const size_t close = bytes.find('}', brace);
    if (bytes[brace] == '}' || close == std::string::npos) {
      runtime.Fail(ErrorKind::kInput, "format() of a string with a single brace");
    }
    const std::string field = bytes.substr(brace + 1, close - brace - 1);
    if (field.find_first_of(":!.[{") != std::string::npos) {
      runtime.Fail(ErrorKind::kUnsupported, "the format field '{{{}}}'", field);
    }
    size_t index = automatic;
    const auto parsed = std::from_chars(field.data(), field.data() + field.size(), index);
    const bool numbered =
        field.empty() || (parsed.ec == std::errc() && parsed.ptr == field.data() + field.size());
    const Value* item = nullptr;
    if (numbered && index < arguments.positional.size()) item = &arguments.positional[index];
    for (const auto& [name, value] : arguments.named) {
      if (!numbered && name == field) item = &value;
    }
    if (item == nullptr) {
      runtime.Fail(ErrorKind::kInput, "format() has no argument for '{{{}}}'", field);
    }
    if (field.empty()) ++automatic;
    const Text part = Str(runtime, *item);
    AppendChecked(runtime, out, part, 0, part.size());
    pos = close + 1;
  }
  return out;
}

}  // namespace banyan::jinja
