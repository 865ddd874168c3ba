// JSON values that know their place, for messages.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "tasks/extract/extract_schema.h"
#include "text/unicode.h"

namespace banyan {
namespace {

// As a JSON pointer has it.
std::string PointerKey(const std::string& key) {
  std::string text;
  for (const char c : key) {
    if (c == '~') {
      text += "~0";
    } else if (c == '/') {
      text += "~1";
    } else {
      text += c;
    }
  }
  return text;
}

const char* Describe(const OrderedJson& value) { return value.type_name(); }

}  // namespace

JsonPlace JsonPlace::At(const std::string& key) const {
  return {name_, value_->at(key), pointer_ + "/" + PointerKey(key)};
}

JsonPlace JsonPlace::At(size_t index) const {
  return {name_, value_->at(index), fmt::format("{}/{}", pointer_, index)};
}

void JsonPlace::Refuse(const std::string& reason) const {
  if (pointer_.empty()) Throw(ErrorKind::kUsage, "{}: {}", name_, reason);
  Throw(ErrorKind::kUsage, "{}: at {}: {}", name_, pointer_, reason);
}

void JsonPlace::ExpectObject() const {
  if (!value_->is_object()) Refuse(fmt::format("expected an object, found {}", Describe(*value_)));
}

void JsonPlace::ExpectArray() const {
  if (!value_->is_array()) Refuse(fmt::format("expected a list, found {}", Describe(*value_)));
}

void JsonPlace::AllowKeys(const std::vector<std::string_view>& keys) const {
  for (const auto& [key, value] : value_->items()) {
    if (std::ranges::find(keys, key) != keys.end()) continue;
    Refuse(fmt::format("'{}' is not known here: expected {}", key, fmt::join(keys, ", ")));
  }
}

std::optional<std::string> JsonPlace::Text(const std::string& key) const {
  if (!Has(key) || value_->at(key).is_null()) return std::nullopt;
  const JsonPlace at = At(key);
  if (!at.value().is_string()) {
    at.Refuse(fmt::format("expected text, found {}", Describe(at.value())));
  }
  return at.value().get<std::string>();
}

std::optional<bool> JsonPlace::Bool(const std::string& key) const {
  if (!Has(key) || value_->at(key).is_null()) return std::nullopt;
  const JsonPlace at = At(key);
  if (!at.value().is_boolean()) {
    at.Refuse(fmt::format("expected true or false, found {}", Describe(at.value())));
  }
  return at.value().get<bool>();
}

std::optional<double> JsonPlace::Number(const std::string& key) const {
  if (!Has(key) || value_->at(key).is_null()) return std::nullopt;
  const JsonPlace at = At(key);
  if (!at.value().is_number() || !std::isfinite(at.value().get<double>())) {
    at.Refuse(fmt::format("expected a number, found {}", Describe(at.value())));
  }
  return at.value().get<double>();
}

std::optional<std::int64_t> JsonPlace::Count(const std::string& key, std::int64_t least,
                                             std::int64_t most) const {
  if (!Has(key) || value_->at(key).is_null()) return std::nullopt;
  const JsonPlace at = At(key);
  if (!at.value().is_number_integer() || at.value() < least || at.value() > most) {
    at.Refuse(fmt::format("expected a whole number from {} to {}, found {}", least, most,
                          at.value().dump()));
  }
  return at.value().get<std::int64_t>();
}

std::vector<std::string> JsonPlace::Texts(const std::string& key) const {
  if (!Has(key)) Refuse(fmt::format("expected '{}': a list of texts", key));
  const JsonPlace at = At(key);
  at.ExpectArray();
  if (at.value().empty()) at.Refuse("expected at least one text");
  std::vector<std::string> texts;
  for (size_t i = 0; i < at.value().size(); ++i) {
    const OrderedJson& value = at.value()[i];
    if (!value.is_string() || value.get_ref<const std::string&>().empty()) {
      at.At(i).Refuse(fmt::format("expected a text that is not empty, found {}", value.dump()));
    }
    texts.push_back(value.get<std::string>());
  }
  return texts;
}

OrderedJson ParsePlacedJson(std::string_view text, const std::string& name) {
  constexpr int kMostDepth = 64;
  constexpr size_t kMostValues = 100'000;
  if (!IsValidUtf8(text)) Throw(ErrorKind::kUsage, "{}: not valid UTF-8", name);
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  size_t values = 0;
  const auto limit = [&](int depth, OrderedJson::parse_event_t event, OrderedJson&) {
    const bool opens = event == OrderedJson::parse_event_t::object_start ||
                       event == OrderedJson::parse_event_t::array_start;
    if (opens && depth > kMostDepth) {
      Throw(ErrorKind::kUsage, "{}: JSON nests deeper than {}", name, kMostDepth);
    }
    if (event == OrderedJson::parse_event_t::value || event == OrderedJson::parse_event_t::key) {
      if (++values > kMostValues) {
        Throw(ErrorKind::kUsage, "{}: more than {} values", name, kMostValues);
      }
    }
    return true;
  };
  try {
    return OrderedJson::parse(text, limit);
  } catch (const OrderedJson::parse_error& e) {
    const auto end = text.begin() + static_cast<std::ptrdiff_t>(std::min(e.byte, text.size()));
    const auto line = 1 + std::count(text.begin(), end, '\n');
    Throw(ErrorKind::kUsage, "{}: line {} (byte {}): not valid JSON", name, line, e.byte);
  } catch (const OrderedJson::exception&) {
    Throw(ErrorKind::kUsage, "{}: not valid JSON", name);
  }
}

}  // namespace banyan
