#include "serve/parameters.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <utility>

#include "banyan/error.h"
#include "base/json_row.h"
#include "base/work_budget.h"
#include "serve/api_error.h"
#include "text/utf8.h"

namespace banyan {

Json ReadBody(std::string_view body) {
  if (!IsValidUtf8(body)) throw ApiError(400, "the body is not valid UTF-8");
  try {
    Json json = ParseJsonRow(body, kBodyLimits);
    if (!json.is_object()) {
      throw ApiError(400, fmt::format("the body: expected an object, found {}", TypeName(json)));
    }
    return json;
  } catch (const WorkStopped&) {
    throw;
  } catch (const Error& error) {
    throw ApiError(400, fmt::format("the body: {}", error.what()));
  }
}

std::string OrderedText(std::string_view body, std::initializer_list<const char*> way) {
  const std::string_view text = JsonValueText(body, way);
  return text.starts_with('"') ? Json::parse(text).get<std::string>() : std::string(text);
}

double NumberOf(const Json& value) {
  if (value.is_number()) return value.get<double>();
  const auto& text = value.get_binary();
  return std::strtod(std::string(text.begin(), text.end()).c_str(), nullptr);
}

Parameters::Parameters(const Json& object, std::string where)
    : object_(object), where_(std::move(where)) {
  if (!object.is_object()) {
    std::string name = where_;
    if (name.ends_with('.')) name.pop_back();
    throw ApiError(400, fmt::format("'{}': expected an object, found {}", name, TypeName(object)),
                   name);
  }
}

void Parameters::Refuse(const char* name, const std::string& expected) const {
  const Json& found = object_.contains(name) ? object_.at(name) : Json();
  const std::string shown =
      found.is_structured() || found.is_string() ? std::string(TypeName(found)) : DumpJson(found);
  throw ApiError(400, fmt::format("'{}{}': expected {}, found {}", where_, name, expected, shown),
                 where_ + name);
}

const Json* Parameters::Find(const char* name) {
  known_.insert(name);
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

const Json& Parameters::Needed(const char* name) {
  const Json* value = Find(name);
  if (value == nullptr) {
    throw ApiError(400, fmt::format("'{}{}' is missing", where_, name), where_ + name,
                   "missing_required_parameter");
  }
  return *value;
}

bool Parameters::Flag(const char* name, bool otherwise) {
  const Json* value = Find(name);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) Refuse(name, "true or false");
  return value->get<bool>();
}

double Parameters::Number(const char* name, double otherwise, double least, double most) {
  const Json* value = Find(name);
  if (value == nullptr) return otherwise;
  const double number = IsNumber(*value) ? NumberOf(*value) : std::nan("");
  if (!(number >= least && number <= most)) {
    Refuse(name, fmt::format("a number from {} to {}", least, most));
  }
  return number;
}

std::int64_t Parameters::Integer(const char* name, std::int64_t otherwise, std::int64_t least,
                                 std::int64_t most) {
  const Json* value = Find(name);
  if (value == nullptr) return otherwise;
  bool good = value->is_number_integer();
  if (value->is_number_unsigned() && value->get<std::uint64_t>() > INT64_MAX) good = false;
  const std::int64_t number = good ? value->get<std::int64_t>() : 0;
  if (!good || number < least || number > most) {
    Refuse(name, fmt::format("a whole number from {} to {}", least, most));
  }
  return number;
}

std::string Parameters::Text(const char* name, const std::string& otherwise) {
  const Json* value = Find(name);
  if (value == nullptr) return otherwise;
  if (!value->is_string()) Refuse(name, "a text");
  return value->get<std::string>();
}

std::vector<std::string> Parameters::Texts(const char* name, size_t most) {
  const Json* value = Find(name);
  if (value == nullptr) return {};
  const std::string expected = fmt::format("a text or a list of at most {} texts, not empty", most);
  std::vector<std::string> texts;
  if (value->is_string()) {
    texts.push_back(value->get<std::string>());
  } else if (value->is_array() && value->size() <= most) {
    for (const Json& text : *value) {
      if (!text.is_string()) Refuse(name, expected);
      texts.push_back(text.get<std::string>());
    }
  } else {
    Refuse(name, expected);
  }
  for (const std::string& text : texts) {
    if (text.empty()) Refuse(name, expected);
  }
  return texts;
}

void Parameters::OnlyAs(const char* name, const Json& value) {
  const Json* found = Find(name);
  if (found == nullptr || *found == value) return;
  throw ApiError(
      400,
      fmt::format("'{}{}': this server does not have it (only {})", where_, name, DumpJson(value)),
      where_ + name, "unsupported_parameter");
}

void Parameters::RefuseOthers() const {
  for (const auto& [name, value] : object_.items()) {
    if (value.is_null() || known_.contains(name)) continue;
    throw ApiError(400, fmt::format("'{}{}': this server has no such parameter", where_, name),
                   where_ + name, "unknown_parameter");
  }
}

}  // namespace banyan
