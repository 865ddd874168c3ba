#include "constrain/json_text.h"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "constrain/pattern.h"

namespace banyan {
namespace {

const CharacterSet& NeedNoEscape() {
  static const CharacterSet set({{' ', '!'}, {'#', '['}, {']', kLastCharacter}});
  return set;
}

ExpressionPtr Escaped(char32_t code) {
  static constexpr std::string_view kShort = "\"\"\\\\\bb\ff\nn\rr\tt";
  for (size_t i = 0; i < kShort.size(); i += 2) {
    if (static_cast<char32_t>(kShort[i]) == code) return Literal(std::string{'\\', kShort[i + 1]});
  }
  return Literal(fmt::format("\\u{:04x}", static_cast<unsigned>(code)));
}

ExpressionPtr JsonCharacter(const CharacterSet& set) {
  std::vector<ExpressionPtr> choices = {OneOf(set.Intersection(NeedNoEscape()))};
  const CharacterSet rest = set.Intersection(NeedNoEscape().Complement());
  for (const CharacterRange& range : rest.ranges()) {
    for (char32_t code = range.first; code <= range.last; ++code) choices.push_back(Escaped(code));
  }
  return Choice(std::move(choices));
}

ExpressionPtr InJson(const ExpressionPtr& e) {
  std::vector<ExpressionPtr> parts;
  for (const ExpressionPtr& part : e->parts) parts.push_back(InJson(part));
  switch (e->kind) {
    case Expression::Kind::kClass:
      return JsonCharacter(e->set);
    case Expression::Kind::kSequence:
      return Sequence(std::move(parts));
    case Expression::Kind::kChoice:
      return Choice(std::move(parts));
    case Expression::Kind::kRepeat:
      return Repeat(std::move(parts[0]), e->least, e->most);
    case Expression::Kind::kList: {
      std::vector<ListItem> items;
      for (size_t i = 1; i < parts.size(); ++i) items.push_back({parts[i], e->required[i]});
      return List(parts[0], std::move(items));
    }
    case Expression::Kind::kSpan:
      return SpanOf(e->source, SpanForm::kJson);
    case Expression::Kind::kNever:
    case Expression::Kind::kNothing:
      break;
  }
  return e;
}

}  // namespace

ExpressionPtr AnyJsonCharacter() {
  static const ExpressionPtr any =
      Choice({OneOf(NeedNoEscape()),
              WholeMatch(ParsePattern(
                  R"(\\(["\\/bfnrt]|u([0-9a-ce-fA-CE-F][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2}|)"
                  R"([dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})))"))});
  return any;
}

ExpressionPtr QuotedJson(const ExpressionPtr& expression) {
  return Sequence({Literal("\""), InJson(expression), Literal("\"")});
}

}  // namespace banyan
