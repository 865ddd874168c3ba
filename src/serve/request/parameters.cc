// Reading and checking fields of a JSON body; options of a table in JSON and in openapi.json.
#include "serve/request/parameters.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <utility>
#include <vector>

#include "banyan/error.h"
#include "base/json.h"
#include "program/options.h"
#include "serve/request/api_error.h"
#include "text/unicode.h"

namespace banyan {
namespace {

using OrderedJson = nlohmann::ordered_json;

// All names that a body may use, ours first.
std::vector<std::string> NamesInBody(const OptionFacts& facts) {
  std::vector<std::string> names = {HttpName(facts), facts.name};
  names.insert(names.end(), facts.aliases.begin(), facts.aliases.end());
  std::vector<std::string> different;
  for (const std::string& name : names) {
    if (std::ranges::find(different, name) == different.end()) different.push_back(name);
  }
  return different;
}

const std::vector<std::string>& NamedValues(const OptionFacts& facts) {
  return facts.http_names.empty() ? facts.names : facts.http_names;
}

std::int64_t MostWhole(const OptionFacts& facts, const ServeOptions& server) {
  const std::int64_t most =
      facts.bounded ? static_cast<std::int64_t>(facts.most) : facts.field_most;
  if (facts.limit == ServerLimit::kTokens) return std::min<std::int64_t>(most, server.max_tokens);
  if (facts.limit == ServerLimit::kAnswers) return std::min<std::int64_t>(most, server.max_answers);
  return most;
}

std::string OneOfNames(Parameters& parameters, const char* name, const OptionFacts& facts) {
  const std::vector<std::string>& known = NamedValues(facts);
  const Json& found = *parameters.Find(name);
  const bool good = found.is_string() &&
                    std::ranges::find(known, found.get_ref<const std::string&>()) != known.end();
  if (!good) parameters.Refuse(name, fmt::format("one of {}", fmt::join(known, ", ")));
  return found.get<std::string>();
}

OptionData ReadData(Parameters& parameters, const char* name, std::string_view body,
                    const ServeOptions& server, const OptionFacts& facts) {
  switch (facts.kind) {
    case OptionKind::kFlag:
      return parameters.Flag(name, false);
    case OptionKind::kWhole:
      return parameters.Integer(name, 0, static_cast<std::int64_t>(facts.least),
                                MostWhole(facts, server));
    case OptionKind::kNameOrNumber:
      if (!IsNumber(*parameters.Find(name))) return OneOfNames(parameters, name, facts);
      [[fallthrough]];
    case OptionKind::kNumber:
      return parameters.Number(name, 0.0, facts.least,
                               facts.bounded ? facts.most : std::numeric_limits<double>::max());
    case OptionKind::kName:
      return OneOfNames(parameters, name, facts);
    case OptionKind::kTexts:
      return parameters.Texts(name, facts.most_texts);
    case OptionKind::kJson:
      return OrderedText(body, {name});
    default:
      return parameters.Text(name, "");
  }
}

}  // namespace

Json ReadBody(std::string_view body) {
  if (!IsValidUtf8(body)) throw ApiError(400, "the body is not valid UTF-8");
  try {
    Json json = ParseJsonRow(body, kBodyLimits);
    if (!json.is_object()) {
      throw ApiError(400, fmt::format("the body: expected an object, found {}", TypeName(json)));
    }
    return json;
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

void ReadOptions(Parameters& parameters, std::string_view body, const ServeOptions& server,
                 const BoundOptions& options) {
  for (const BoundOption& option : options) {
    const OptionFacts& facts = *option.facts;
    if ((facts.interfaces & kHttp) == 0) continue;
    std::string given;
    for (const std::string& name : NamesInBody(facts)) {
      if (parameters.Find(name.c_str()) == nullptr) continue;
      if (!given.empty()) {
        throw ApiError(
            400, fmt::format("'{}' and '{}' are one parameter: give one of them", given, name),
            name);
      }
      given = name;
    }
    if (given.empty()) continue;
    option.set(ReadData(parameters, given.c_str(), body, server, facts), given);
  }
}

OrderedJson OptionSchema(const OptionFacts& facts) {
  OrderedJson schema;
  const auto bounds = [&](OrderedJson& of) {
    const bool whole = facts.kind == OptionKind::kWhole;
    const auto number = [&](double value) {
      return whole ? OrderedJson(static_cast<std::int64_t>(value)) : OrderedJson(value);
    };
    if (facts.ranged) of["minimum"] = number(facts.least);
    if (facts.bounded) of["maximum"] = number(facts.most);
  };
  switch (facts.kind) {
    case OptionKind::kFlag:
      schema["type"] = "boolean";
      break;
    case OptionKind::kWhole:
    case OptionKind::kNumber:
      schema["type"] = facts.kind == OptionKind::kWhole ? "integer" : "number";
      bounds(schema);
      break;
    case OptionKind::kName:
      schema["type"] = "string";
      schema["enum"] = NamedValues(facts);
      break;
    case OptionKind::kNameOrNumber: {
      OrderedJson number = {{"type", "number"}};
      bounds(number);
      schema["oneOf"] = {{{"type", "string"}, {"enum", NamedValues(facts)}}, number};
      break;
    }
    case OptionKind::kTexts: {
      OrderedJson list = {{"type", "array"}, {"items", {{"type", "string"}}}};
      if (facts.most_texts > 0) list["maxItems"] = facts.most_texts;
      schema["oneOf"] = {{{"type", "string"}}, list};
      break;
    }
    case OptionKind::kJson:
      schema["type"] = "object";
      break;
    default:
      schema["type"] = "string";
  }
  const bool shown = facts.kind != OptionKind::kText && facts.kind != OptionKind::kTexts &&
                     facts.kind != OptionKind::kJson;
  if (facts.default_value && shown) {
    schema["default"] =
        std::visit([](const auto& value) { return OrderedJson(value); }, *facts.default_value);
  }
  schema["description"] = HelpElsewhere(facts);
  return schema;
}

std::string FilledOpenApi(std::string_view openapi) {
  OrderedJson page = OrderedJson::parse(openapi);
  OrderedJson& schemas = page["components"]["schemas"];
  for (auto place = schemas.begin(); place != schemas.end(); ++place) {
    OrderedJson& schema = *place;
    if (!schema.contains("x-banyan-options")) continue;
    const auto wanted = schema["x-banyan-options"].get<std::string>();
    schema.erase("x-banyan-options");
    for (const NamedTable& table : AllTables()) {
      if (table.name != wanted) continue;
      for (const OptionFacts* facts : table.rows) {
        if ((facts->interfaces & kHttp) != 0)
          schema["properties"][HttpName(*facts)] = OptionSchema(*facts);
      }
    }
  }
  return page.dump(1);
}

}  // namespace banyan
