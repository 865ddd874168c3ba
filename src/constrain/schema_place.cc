#include "constrain/schema_place.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace banyan {
namespace {

constexpr int kMaxDepth = 128;
constexpr size_t kMaxKeys = 10000;

std::string EscapedForPointer(std::string_view key) {
  std::string escaped;
  for (const char c : key) {
    if (c == '~') {
      escaped += "~0";
    } else if (c == '/') {
      escaped += "~1";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

int HexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// "%25" → "%".
std::string PercentDecoded(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && HexValue(text[i + 1]) >= 0 &&
        HexValue(text[i + 2]) >= 0) {
      decoded += static_cast<char>(HexValue(text[i + 1]) * 16 + HexValue(text[i + 2]));
      i += 2;
    } else {
      decoded += text[i];
    }
  }
  return decoded;
}

}  // namespace

SchemaPlace SchemaPlace::At(const std::string& key) const {
  return {value_->at(key), pointer_ + "/" + EscapedForPointer(key)};
}

SchemaPlace SchemaPlace::At(size_t index) const {
  return {value_->at(index), fmt::format("{}/{}", pointer_, index)};
}

void SchemaPlace::Refuse(ErrorKind kind, const std::string& reason) const {
  Throw(kind, "schema at #{}: {}", pointer_, reason);
}

std::optional<bool> SchemaPlace::Bool(const char* key) const {
  if (!Has(key)) return std::nullopt;
  const SchemaPlace place = At(key);
  if (!place.value().is_boolean()) place.Refuse(ErrorKind::kInput, "expected true or false");
  return place.value().get<bool>();
}

std::optional<std::string> SchemaPlace::String(const char* key) const {
  if (!Has(key)) return std::nullopt;
  const SchemaPlace place = At(key);
  if (!place.value().is_string()) place.Refuse(ErrorKind::kInput, "expected a string");
  return place.value().get<std::string>();
}

std::optional<std::int64_t> SchemaPlace::Count(const char* key) const {
  const std::optional<double> number = Number(key);
  if (!number) return std::nullopt;
  constexpr double kMost = 1'000'000;
  if (*number < 0 || *number > kMost ||
      *number != static_cast<double>(static_cast<std::int64_t>(*number))) {
    At(key).Refuse(ErrorKind::kInput, "expected a whole number from 0 to 1000000");
  }
  return static_cast<std::int64_t>(*number);
}

std::optional<double> SchemaPlace::Number(const char* key) const {
  if (!Has(key)) return std::nullopt;
  const SchemaPlace place = At(key);
  if (!place.value().is_number()) place.Refuse(ErrorKind::kInput, "expected a number");
  return place.value().get<double>();
}

SchemaPlace SchemaPlace::Array(const char* key) const {
  SchemaPlace place = At(key);
  if (!place.value().is_array() || place.value().empty()) {
    place.Refuse(ErrorKind::kInput, "expected an array with at least one element");
  }
  return place;
}

SchemaPlace SchemaPlace::Object(const char* key) const {
  SchemaPlace place = At(key);
  if (!place.value().is_object()) place.Refuse(ErrorKind::kInput, "expected an object");
  return place;
}

void SchemaPlace::AllowKeywords(const std::vector<std::string_view>& keywords) const {
  static constexpr std::string_view kAnnotations[] = {
      "title",     "description", "default",     "examples", "deprecated", "readOnly",
      "writeOnly", "$defs",       "definitions", "$comment", "$schema",    "$id"};
  for (const auto& [key, value] : value_->items()) {
    if (std::ranges::count(kAnnotations, key) + std::ranges::count(keywords, key) > 0) continue;
    At(key).Refuse(ErrorKind::kUnsupported,
                   fmt::format("the keyword '{}' is not supported here", key));
  }
}

OrderedJson ParseSchemaText(std::string_view text) {
  size_t keys = 0;
  const auto limit = [&keys](int depth, OrderedJson::parse_event_t event, OrderedJson&) {
    const bool opens = event == OrderedJson::parse_event_t::object_start ||
                       event == OrderedJson::parse_event_t::array_start;
    if (opens && depth > kMaxDepth) {
      Throw(ErrorKind::kLimit, "schema: JSON nests deeper than {}", kMaxDepth);
    }
    // Members in the order of the text are looked up one by one.
    if (event == OrderedJson::parse_event_t::key && ++keys > kMaxKeys) {
      Throw(ErrorKind::kLimit, "schema: more than {} keys", kMaxKeys);
    }
    return true;
  };
  try {
    return OrderedJson::parse(text.begin(), text.end(), limit);
  } catch (const OrderedJson::exception& e) {
    std::string reason = e.what();
    if (const size_t end = reason.find("] "); end != std::string::npos) reason.erase(0, end + 2);
    Throw(ErrorKind::kFormat, "schema: not valid JSON: {}", reason);
  }
}

SchemaPlace ResolveReference(const OrderedJson& root, const SchemaPlace& place) {
  const std::string reference = *place.String("$ref");
  const SchemaPlace at = place.At("$ref");
  if (!reference.starts_with("#") || (reference.size() > 1 && reference[1] != '/')) {
    at.Refuse(ErrorKind::kUnsupported,
              fmt::format("'{}': only places inside this schema (#/…) are supported", reference));
  }
  const std::string pointer = PercentDecoded(std::string_view(reference).substr(1));
  try {
    return {root.at(OrderedJson::json_pointer(pointer)), pointer};
  } catch (const OrderedJson::exception&) {
    at.Refuse(ErrorKind::kInput, fmt::format("'{}': there is no such place", reference));
  }
}

}  // namespace banyan
