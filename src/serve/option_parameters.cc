#include "serve/option_parameters.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "base/json_row.h"
#include "program/option_table.h"
#include "serve/api_error.h"

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

void ReadOptions(Parameters& parameters, std::string_view body, const ServeOptions& server,
                 const BoundOptions& options) {
  for (const BoundOption& option : options) {
    const OptionFacts& facts = *option.facts;
    if ((facts.doors & kHttp) == 0) continue;
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
  if (facts.standard && shown) {
    schema["default"] =
        std::visit([](const auto& value) { return OrderedJson(value); }, *facts.standard);
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
        if ((facts->doors & kHttp) != 0)
          schema["properties"][HttpName(*facts)] = OptionSchema(*facts);
      }
    }
  }
  return page.dump(1);
}

}  // namespace banyan
