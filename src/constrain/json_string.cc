#include "constrain/json_string.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "constrain/json_text.h"
#include "constrain/pattern.h"

namespace banyan {
namespace {

// Days that exist, of the years 0001 to 9999.
constexpr std::string_view kDate =
    R"((?:(?:000[1-9]|00[1-9]\d|0[1-9]\d\d|[1-9]\d{3})-)"
    R"((?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|)"
    R"(02-(?:0[1-9]|1\d|2[0-8])))|)"
    R"((?:\d\d(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)-02-29)";

bool IsOneCharacter(const Expression& e) { return e.shortest == 1 && e.longest == 1; }

// Those texts of `e` that have from `least` to `most` characters; null when that cannot be said.
// It can where only one part of a sequence has no fixed length, and repeats a character.
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

}  // namespace

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

}  // namespace banyan
