// Strings first, then the reader of schemas.
#include "constrain/json_schema.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "constrain/json_literals.h"
#include "constrain/regex_parser.h"
#include "constrain/schema_document.h"

namespace banyan {
namespace {

// Days that exist, of the years 0001 to 9999.
constexpr std::string_view kDate =
    R"((?:(?:000[1-9]|00[1-9]\d|0[1-9]\d\d|[1-9]\d{3})-)"
    R"((?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|)"
    R"(02-(?:0[1-9]|1\d|2[0-8])))|)"
    R"((?:\d\d(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)-02-29)";

bool IsOneCharacter(const Expression& e) { return e.shortest == 1 && e.longest == 1; }

// The texts of `e` that have from `least` to `most` characters; null when no expression for them is
// known. There is one where only one part of a sequence has no fixed length, and repeats a
// character.
ExpressionPtr WithLength(const ExpressionPtr& e, std::int64_t least, std::int64_t most) {
  if (e->shortest >= least && e->longest <= most) return e;
  if (e->kind == Expression::Kind::kRepeat && IsOneCharacter(*e->parts[0])) {
    const std::int64_t from = std::max(e->least, least), to = std::min(e->most, most);
    return from > to ? Never() : Repeat(e->parts[0], from, to);
  }
  if (e->kind != Expression::Kind::kSequence) return nullptr;
  std::vector<ExpressionPtr> parts = e->parts;
  ExpressionPtr* open = nullptr;
  std::int64_t fixed = 0;
  for (ExpressionPtr& part : parts) {
    if (part->shortest == part->longest && part->kind != Expression::Kind::kList) {
      fixed += part->shortest;
    } else if (open != nullptr) {
      return nullptr;
    } else {
      open = &part;
    }
  }
  if (open == nullptr || fixed > most) return Never();
  *open = WithLength(*open, std::max<std::int64_t>(0, least - fixed),
                     most == kUnbounded ? most : most - fixed);
  return *open == nullptr ? nullptr : Sequence(std::move(parts));
}

ExpressionPtr PatternAt(const SchemaPlace& place) {
  try {
    return MatchWithin(ParsePattern(*place.String("pattern")));
  } catch (const Error& e) {
    place.At("pattern").Refuse(e.kind(), e.what());
  }
}

ExpressionPtr FormatAt(const SchemaPlace& place) {
  static const ExpressionPtr date = WholeMatch(ParsePattern(kDate));
  if (place.Has("pattern")) {
    place.At("format").Refuse(ErrorKind::kUnsupported, "format and pattern together");
  }
  if (*place.String("format") != "date") {
    place.At("format").Refuse(ErrorKind::kUnsupported, "of the formats only date is supported");
  }
  return date;
}

// The strings that a schema of type "string" allows, as JSON texts with their quotes: by pattern,
// minLength, maxLength and format.
ExpressionPtr JsonStrings(const SchemaPlace& place) {
  const std::int64_t least = place.Count("minLength").value_or(0);
  const std::int64_t most = place.Count("maxLength").value_or(kUnbounded);
  if (least > most) place.Refuse(ErrorKind::kInput, "minLength is above maxLength");
  if (!place.Has("pattern") && !place.Has("format")) {
    return Sequence({Literal("\""), Repeat(AnyJsonCharacter(), least, most), Literal("\"")});
  }
  const ExpressionPtr texts = place.Has("format") ? FormatAt(place) : PatternAt(place);
  const ExpressionPtr fitting = WithLength(texts, least, most);
  if (fitting == nullptr) {
    place.Refuse(ErrorKind::kUnsupported,
                 "minLength and maxLength cannot be combined with this pattern: say the lengths "
                 "in the pattern, from ^ to $");
  }
  return QuotedJson(fitting);
}

class SchemaReader {
 public:
  SchemaReader(const OrderedJson& root, bool spaced, ExpressionPtr copied)
      : root_(root),
        comma_(spaced ? ", " : ","),
        colon_(spaced ? ": " : ":"),
        copied_(std::move(copied)),
        values_(root) {}

  ExpressionPtr Read(const SchemaPlace& place) {
    const auto [entry, is_new] = read_.try_emplace(&place.value());
    if (is_new) {
      if (++depth_ > kMaxDepth) {
        place.Refuse(ErrorKind::kLimit, fmt::format("schemas nest deeper than {}", kMaxDepth));
      }
      ExpressionPtr made = ReadNew(place);
      --depth_;
      if (made->kind == Expression::Kind::kNever && !copied_) {
        place.Refuse(ErrorKind::kInput, "nothing fits");
      }
      return read_[&place.value()] = std::move(made);
    }
    if (entry->second == nullptr) {
      place.Refuse(ErrorKind::kUnsupported, "the schema contains itself: recursion has no end");
    }
    return entry->second;
  }

 private:
  ExpressionPtr ReadNew(const SchemaPlace& place) {
    if (place.value().is_boolean()) {
      place.Refuse(ErrorKind::kUnsupported, "true and false are not supported as schemas");
    }
    if (!place.value().is_object()) place.Refuse(ErrorKind::kInput, "expected an object");
    ExpressionPtr value = ReadValue(place);
    if (place.Bool("nullable").value_or(false)) value = Choice({value, Literal("null")});
    return value;
  }

  ExpressionPtr ReadValue(const SchemaPlace& place) {
    if (copied_ && place.Has("x-copied")) {
      place.AllowKeywords({"x-copied"});
      return QuotedJson(copied_);
    }
    if (place.Has("$ref")) {
      place.AllowKeywords({"$ref", "nullable"});
      return Read(ResolveReference(root_, place));
    }
    if (place.Has("const") || place.Has("enum")) {
      place.AllowKeywords({"type", "nullable", "const", "enum"});
      std::vector<ExpressionPtr> choices;
      const auto values = values_.ValuesOf(place);
      for (const OrderedJson& value : *values) {
        choices.push_back(Literal(value.dump()));
      }
      return Choice(std::move(choices));
    }
    for (const char* key : {"anyOf", "oneOf", "allOf"}) {
      if (place.Has(key)) return ReadAlternatives(place, key);
    }
    return ReadTypes(place);
  }

  ExpressionPtr ReadAlternatives(const SchemaPlace& place, const char* key) {
    place.AllowKeywords({key, "nullable"});
    const SchemaPlace alternatives = place.Array(key);
    const size_t count = alternatives.value().size();
    std::vector<ExpressionPtr> choices;
    for (size_t i = 0; i < count; ++i) choices.push_back(Read(alternatives.At(i)));
    if (std::string_view(key) == "allOf" && count > 1) {
      alternatives.Refuse(ErrorKind::kUnsupported, "allOf with more than one schema");
    }
    if (std::string_view(key) == "oneOf") {
      constexpr size_t kMost = 64;
      if (count > kMost) alternatives.Refuse(ErrorKind::kLimit, "more than 64 alternatives");
      for (size_t i = 0; i < count; ++i) {
        for (size_t j = 0; j < i; ++j) {
          if (values_.AreDisjoint(alternatives.At(i), alternatives.At(j))) continue;
          alternatives.At(i).Refuse(
              ErrorKind::kUnsupported,
              fmt::format("a value might fit alternative {} too; use anyOf where that is no harm",
                          j));
        }
      }
    }
    return Choice(std::move(choices));
  }

  ExpressionPtr ReadTypes(const SchemaPlace& place) {
    std::vector<std::string> types = TypeNames(place);
    const auto has = [&](std::string_view name) {
      return std::find(types.begin(), types.end(), name) != types.end();
    };
    std::vector<std::string_view> keywords = {"type", "nullable"};
    const auto allow = [&](bool allowed, std::initializer_list<std::string_view> more) {
      if (allowed) keywords.insert(keywords.end(), more);
    };
    allow(has("string"), {"pattern", "minLength", "maxLength", "format"});
    allow(has("integer") || has("number"),
          {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"});
    allow(has("array"), {"items", "minItems", "maxItems", "uniqueItems"});
    allow(has("object"), {"properties", "required", "additionalProperties"});
    place.AllowKeywords(keywords);
    std::vector<ExpressionPtr> choices;
    for (const std::string& type : types) {
      if (type == "null") choices.push_back(Literal("null"));
      if (type == "boolean") choices.push_back(Choice({Literal("true"), Literal("false")}));
      if (type == "string") choices.push_back(JsonStrings(place));
      if (type == "integer" && !has("number")) choices.push_back(ReadNumber(place, true));
      if (type == "number") choices.push_back(ReadNumber(place, false));
      if (type == "array") choices.push_back(ReadArray(place));
      if (type == "object") choices.push_back(ReadObject(place));
    }
    return Choice(std::move(choices));
  }

  ExpressionPtr ReadNumber(const SchemaPlace& place, bool whole) {
    NumberBounds bounds;
    const auto tighten = [&](const char* key, bool lower, bool excludes) {
      const std::optional<double> given = place.Number(key);
      if (!given) return;
      double bound = *given;
      const bool is_whole = std::floor(bound) == bound;
      if (!is_whole && !whole) {
        place.At(key).Refuse(ErrorKind::kUnsupported, "bounds of numbers must be whole numbers");
      }
      // A bound between two integers excludes none that lies inside it.
      if (!is_whole) bound = lower ? std::ceil(bound) : std::floor(bound);
      if (std::abs(bound) > static_cast<double>(kLargestBound)) {
        place.At(key).Refuse(ErrorKind::kUnsupported,
                             fmt::format("bounds beyond {} are not supported", kLargestBound));
      }
      const auto value = static_cast<std::int64_t>(bound);
      std::optional<std::int64_t>& kept = lower ? bounds.least : bounds.most;
      bool& out = lower ? bounds.above_least : bounds.below_most;
      if (kept && value != *kept && (value > *kept) != lower) return;
      out = (kept && value == *kept && out) || (excludes && is_whole);
      kept = value;
    };
    tighten("minimum", true, false);
    tighten("exclusiveMinimum", true, true);
    tighten("maximum", false, false);
    tighten("exclusiveMaximum", false, true);
    return whole ? WholeNumbers(bounds) : Numbers(bounds);
  }

  ExpressionPtr ReadArray(const SchemaPlace& place) {
    if (place.Bool("uniqueItems").value_or(false)) {
      place.At("uniqueItems").Refuse(ErrorKind::kUnsupported, "unique items are not supported");
    }
    const std::int64_t least = place.Count("minItems").value_or(0);
    const std::int64_t most = place.Count("maxItems").value_or(kUnbounded);
    if (least > most) place.Refuse(ErrorKind::kInput, "minItems is above maxItems");
    ExpressionPtr items = Nothing();
    if (most > 0) {
      if (!place.Has("items")) place.Refuse(ErrorKind::kUnsupported, "arrays need 'items'");
      const ExpressionPtr item = Read(place.At("items"));
      const std::int64_t more = most == kUnbounded ? kUnbounded : most - 1;
      items = Sequence({item, Repeat(Sequence({Literal(comma_), item}),
                                     std::max<std::int64_t>(least, 1) - 1, more)});
      if (least == 0) items = Repeat(items, 0, 1);
    }
    return Sequence({Literal("["), items, Literal("]")});
  }

  ExpressionPtr ReadObject(const SchemaPlace& place) {
    place.Bool("additionalProperties");
    if (!place.Has("properties")) {
      place.Refuse(ErrorKind::kUnsupported, "objects need 'properties'");
    }
    const SchemaPlace properties = place.Object("properties");
    const std::vector<std::string> required = RequiredNames(place);
    for (const std::string& name : required) {
      if (!properties.Has(name)) {
        place.At("required")
            .Refuse(ErrorKind::kUnsupported, fmt::format("'{}' is not in 'properties'", name));
      }
    }
    std::vector<ListItem> items;
    for (const auto& [name, schema] : properties.value().items()) {
      const ExpressionPtr value = Read(properties.At(name));
      const bool is_required = std::find(required.begin(), required.end(), name) != required.end();
      items.push_back({Sequence({Literal(OrderedJson(name).dump() + colon_), value}), is_required});
    }
    return Sequence({Literal("{"), List(Literal(comma_), std::move(items)), Literal("}")});
  }

  static constexpr int kMaxDepth = 64;
  const OrderedJson& root_;
  const std::string comma_, colon_;
  const ExpressionPtr copied_;  // null: the schema has no text to copy from
  int depth_ = 0;
  SchemaValues values_;
  std::unordered_map<const OrderedJson*, ExpressionPtr> read_;  // null: being read
};

}  // namespace

ExpressionPtr ReadJsonSchema(std::string_view schema, bool spaced, ExpressionPtr copied) {
  const OrderedJson root = ParseSchemaText(schema);
  return SchemaReader(root, spaced, std::move(copied)).Read({root, ""});
}

}  // namespace banyan
