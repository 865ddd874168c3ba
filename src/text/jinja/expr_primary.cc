// Names, constants and what stands in brackets: where an expression begins.
#include <charconv>
#include <utility>

#include "text/jinja/expr_parser.h"

namespace banyan::jinja {

ExprPtr ExprParser::Primary() {
  const Token& token = tokens_.Peek();
  auto node = Make(ExprKind::kConstant);
  switch (token.kind) {
    case TokenKind::kName: {
      const std::string name = tokens_.Take().text;
      if (name == "true" || name == "True" || name == "false" || name == "False") {
        node->constant = Value((name[0] | 0x20) == 't');
      } else if (name == "none" || name == "None") {
        node->constant = None{};
      } else {
        node->kind = ExprKind::kName;
        node->name = name;
      }
      return node;
    }
    case TokenKind::kString: {
      std::string text;
      while (tokens_.Is(TokenKind::kString)) text += tokens_.Take().text;
      node->constant = Value::String(std::move(text));
      return node;
    }
    case TokenKind::kInteger:
      return Integer();
    case TokenKind::kFloat: {
      double number = 0;
      const std::string text = tokens_.Take().text;
      if (std::from_chars(text.data(), text.data() + text.size(), number).ec != std::errc()) {
        Throw(ErrorKind::kFormat, "chat template line {}: the number {} is out of range",
              node->line, text);
      }
      node->constant = Value(number);
      return node;
    }
    default:
      if (tokens_.IsOperator("(")) return Parenthesized();
      if (tokens_.IsOperator("[")) return ListLiteral();
      if (tokens_.IsOperator("{")) return DictLiteral();
      tokens_.Unexpected("an expression");
  }
}

ExprPtr ExprParser::Integer() {
  auto node = Make(ExprKind::kConstant);
  const std::string text = tokens_.Take().text;
  int64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end) {
    Throw(ErrorKind::kUnsupported, "chat template line {}: the integer {}", node->line, text);
  }
  node->constant = Value(number);
  return node;
}

ExprPtr ExprParser::Parenthesized() {
  tokens_.ExpectOperator("(");
  if (tokens_.SkipOperator(")")) return Make(ExprKind::kTuple);
  ExprPtr inner = TupleOrExpression(true);
  tokens_.ExpectOperator(")");
  return inner;
}

ExprPtr ExprParser::ListLiteral() {
  auto node = Make(ExprKind::kList);
  tokens_.ExpectOperator("[");
  while (!tokens_.SkipOperator("]")) {
    if (!node->children.empty()) {
      tokens_.ExpectOperator(",");
      if (tokens_.SkipOperator("]")) break;
    }
    Adopt(*node, Expression());
  }
  return node;
}

ExprPtr ExprParser::DictLiteral() {
  auto node = Make(ExprKind::kDict);
  tokens_.ExpectOperator("{");
  while (!tokens_.SkipOperator("}")) {
    if (!node->children.empty()) {
      tokens_.ExpectOperator(",");
      if (tokens_.SkipOperator("}")) break;
    }
    Adopt(*node, Expression());
    tokens_.ExpectOperator(":");
    Adopt(*node, Expression());
  }
  return node;
}

}  // namespace banyan::jinja
