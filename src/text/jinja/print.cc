#include "text/jinja/print.h"

#include <utf8proc.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace banyan::jinja {

std::string FloatRepr(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  char buffer[64];
  const auto end =
      std::to_chars(buffer, buffer + sizeof(buffer), number, std::chars_format::scientific).ptr;
  const std::string_view shortest(buffer, static_cast<size_t>(end - buffer));
  const size_t e = shortest.find('e');
  int exponent = 0;
  const size_t digits_of_exponent = e + (shortest[e + 1] == '+' ? 2 : 1);
  std::from_chars(shortest.data() + digits_of_exponent, end, exponent);
  if (exponent < -4 || exponent >= 16) {
    std::string out(shortest.substr(0, e));
    out += exponent < 0 ? "e-" : "e+";
    const std::string digits = std::to_string(std::abs(exponent));
    return out + (digits.size() < 2 ? "0" : "") + digits;
  }
  const auto fixed =
      std::to_chars(buffer, buffer + sizeof(buffer), number, std::chars_format::fixed).ptr;
  std::string out(buffer, static_cast<size_t>(fixed - buffer));
  if (out.find('.') == std::string::npos) out += ".0";
  return out;
}

namespace {

bool IsPrintable(int32_t code_point) {
  switch (utf8proc_category(code_point)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return false;
    case UTF8PROC_CATEGORY_ZS:
      return code_point == ' ';
    default:
      return true;
  }
}

// Collects text and whether any of it came from the user.
class Printer {
 public:
  explicit Printer(Runtime& runtime) : runtime_(runtime) {}

  Text Take() { return Text(std::move(out_), from_user_); }

  void Repr(const Value& value) {
    runtime_.Step();
    if (const Text* text = value.text()) return ReprString(*text);
    if (const List* list = value.list()) return ReprList(*list);
    if (const Dict* dict = value.dict()) return ReprDict(*dict);
    Add(Scalar(value));
  }

  void Json(const Value& value, const JsonStyle& style, int level) {
    runtime_.Step();
    if (const Text* text = value.text()) return JsonString(*text, style);
    if (const List* list = value.list()) return JsonList(*list, style, level);
    if (const Dict* dict = value.dict()) return JsonDict(*dict, style, level);
    Add(JsonScalar(value));
  }

  std::string Scalar(const Value& value) const {
    if (value.IsUndefined()) return "Undefined";
    if (value.IsNone()) return "None";
    if (value.IsBool()) return value.AsBool() ? "True" : "False";
    if (value.IsInt()) return std::to_string(value.AsInt());
    if (value.IsFloat()) return FloatRepr(value.AsDouble());
    runtime_.Fail(ErrorKind::kUnsupported, "a {} has no text", value.TypeName());
  }

 private:
  void Add(std::string_view bytes) {
    runtime_.Bytes(out_.size() + bytes.size() > runtime_.limits.output_bytes
                       ? out_.size() + bytes.size()
                       : bytes.size());
    out_ += bytes;
  }

  void ReprString(const Text& text) {
    from_user_ |= text.HasUser();
    const std::string& bytes = text.bytes();
    const bool single = bytes.find('\'') == std::string::npos;
    const char quote = single || bytes.find('"') != std::string::npos ? '\'' : '"';
    std::string out(1, quote);
    for (size_t pos = 0; pos < bytes.size(); pos += CharLength(bytes, pos)) {
      const int32_t c = CharAt(bytes, pos);
      if (c == quote || c == '\\') {
        out += '\\';
        out += static_cast<char>(c);
      } else if (c == '\n' || c == '\r' || c == '\t') {
        out += c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t";
      } else if (IsPrintable(c)) {
        out.append(bytes, pos, CharLength(bytes, pos));
      } else if (c < 0x100) {
        out += fmt::format("\\x{:02x}", c);
      } else {
        out += c < 0x10000 ? fmt::format("\\u{:04x}", c) : fmt::format("\\U{:08x}", c);
      }
    }
    Add(out + quote);
  }

  void ReprList(const List& list) {
    Add(list.is_tuple ? "(" : "[");
    for (size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) Add(", ");
      Repr(list.items[i]);
    }
    if (list.is_tuple) Add(list.items.size() == 1 ? ",)" : ")");
    if (!list.is_tuple) Add("]");
  }

  void ReprDict(const Dict& dict) {
    Add("{");
    for (size_t i = 0; i < dict.entries.size(); ++i) {
      if (i > 0) Add(", ");
      Repr(dict.entries[i].first);
      Add(": ");
      Repr(dict.entries[i].second);
    }
    Add("}");
  }

  std::string JsonScalar(const Value& value) const {
    if (value.IsNone()) return "null";
    if (value.IsBool()) return value.AsBool() ? "true" : "false";
    if (value.IsFloat() && std::isnan(value.AsDouble())) return "NaN";
    if (value.IsFloat() && std::isinf(value.AsDouble())) {
      return value.AsDouble() > 0 ? "Infinity" : "-Infinity";
    }
    if (value.IsNumber()) return Scalar(value);
    runtime_.Fail(ErrorKind::kInput, "a value of type {} has no JSON form", value.TypeName());
  }

  void JsonString(const Text& text, const JsonStyle& style) {
    from_user_ |= text.HasUser();
    const std::string& bytes = text.bytes();
    std::string out = "\"";
    for (size_t pos = 0; pos < bytes.size(); pos += CharLength(bytes, pos)) {
      const int32_t c = CharAt(bytes, pos);
      static constexpr std::string_view kFrom = "\"\\\n\r\t\b\f";
      static constexpr std::string_view kTo = "\"\\nrtbf";
      const size_t escape = c < 0x80 ? kFrom.find(static_cast<char>(c)) : std::string_view::npos;
      if (escape != std::string_view::npos) {
        out += '\\';
        out += kTo[escape];
      } else if (c < 0x20 || (style.ensure_ascii && c >= 0x7F && c < 0x10000)) {
        if (c == 0x7F) {
          out += '\x7f';
        } else {
          out += fmt::format("\\u{:04x}", c);
        }
      } else if (style.ensure_ascii && c >= 0x10000) {
        out += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + ((c - 0x10000) >> 10),
                           0xDC00 + ((c - 0x10000) & 0x3FF));
      } else {
        out.append(bytes, pos, CharLength(bytes, pos));
      }
    }
    Add(out + "\"");
  }

  void NewLine(const JsonStyle& style, int level) {
    if (!style.indented) return;
    Add("\n");
    for (int i = 0; i < level; ++i) Add(style.indent);
  }

  void JsonList(const List& list, const JsonStyle& style, int level) {
    if (list.items.empty()) return Add("[]");
    Add("[");
    for (size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) Add(style.item_separator);
      NewLine(style, level + 1);
      Json(list.items[i], style, level + 1);
    }
    NewLine(style, level);
    Add("]");
  }

  void JsonDict(const Dict& dict, const JsonStyle& style, int level) {
    if (dict.entries.empty()) return Add("{}");
    std::vector<std::pair<Text, const Value*>> entries;
    for (const auto& [key, value] : dict.entries) {
      entries.emplace_back(key.text() != nullptr ? *key.text() : Text(JsonScalar(key)), &value);
    }
    if (style.sort_keys) {
      std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
        return a.first.bytes() < b.first.bytes();
      });
    }
    Add("{");
    for (size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) Add(style.item_separator);
      NewLine(style, level + 1);
      JsonString(entries[i].first, style);
      Add(style.key_separator);
      Json(*entries[i].second, style, level + 1);
    }
    NewLine(style, level);
    Add("}");
  }

  Runtime& runtime_;
  std::string out_;
  bool from_user_ = false;
};

}  // namespace

Text Str(Runtime& runtime, const Value& value) {
  if (const Text* text = value.text()) {
    runtime.Bytes(text->size());
    return *text;
  }
  if (value.IsUndefined()) return Text();
  return Repr(runtime, value);
}

Text Repr(Runtime& runtime, const Value& value) {
  Printer printer(runtime);
  printer.Repr(value);
  return printer.Take();
}

Text DumpJson(Runtime& runtime, const Value& value, const JsonStyle& style) {
  Printer printer(runtime);
  printer.Json(value, style, 0);
  return printer.Take();
}

}  // namespace banyan::jinja
