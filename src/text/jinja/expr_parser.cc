// Operators, from the loosest to the closest, and the making of nodes.
#include "text/jinja/expr_parser.h"

#include <algorithm>
#include <utility>

namespace banyan::jinja {

ExprPtr ExprParser::Make(ExprKind kind, std::string name) const {
  auto node = std::make_unique<Expr>();
  node->kind = kind;
  node->line = tokens_.line();
  node->name = std::move(name);
  return node;
}

void ExprParser::Adopt(Expr& parent, ExprPtr child) const {
  if (child != nullptr) {
    parent.depth = std::max(parent.depth, child->depth + 1);
    if (parent.depth > tokens_.limits().nesting) {
      Throw(ErrorKind::kLimit, "chat template line {}: an expression nests deeper than {}",
            parent.line, tokens_.limits().nesting);
    }
  }
  parent.children.push_back(std::move(child));
}

ExprPtr ExprParser::MakeBinary(std::string name, ExprPtr left, ExprPtr right) const {
  auto node = Make(ExprKind::kBinary, std::move(name));
  node->line = left->line;
  Adopt(*node, std::move(left));
  Adopt(*node, std::move(right));
  return node;
}

ExprPtr ExprParser::Expression() {
  if (++nesting_ > tokens_.limits().nesting) {
    Throw(ErrorKind::kLimit, "chat template line {}: an expression nests deeper than {}",
          tokens_.line(), tokens_.limits().nesting);
  }
  ExprPtr value = Or();
  while (tokens_.SkipName("if")) {
    auto node = Make(ExprKind::kConditional);
    Adopt(*node, Or());
    Adopt(*node, std::move(value));
    Adopt(*node, tokens_.SkipName("else") ? Expression() : nullptr);
    value = std::move(node);
  }
  --nesting_;
  return value;
}

ExprPtr ExprParser::TupleOrExpression(bool conditional) {
  const auto element = [&] { return conditional ? Expression() : Or(); };
  ExprPtr first = element();
  if (!tokens_.IsOperator(",")) return first;
  auto tuple = Make(ExprKind::kTuple);
  Adopt(*tuple, std::move(first));
  while (tokens_.SkipOperator(",")) {
    if (tokens_.IsOperator(")") || tokens_.IsOperator("]") || tokens_.Is(TokenKind::kBlockEnd) ||
        tokens_.Is(TokenKind::kVariableEnd)) {
      break;
    }
    Adopt(*tuple, element());
  }
  return tuple;
}

ExprPtr ExprParser::Or() {
  ExprPtr left = And();
  while (tokens_.SkipName("or")) left = MakeBinary("or", std::move(left), And());
  return left;
}

ExprPtr ExprParser::And() {
  ExprPtr left = Not();
  while (tokens_.SkipName("and")) left = MakeBinary("and", std::move(left), Not());
  return left;
}

ExprPtr ExprParser::Not() {
  if (!tokens_.IsName("not")) return Compare();
  int count = 0;
  while (tokens_.SkipName("not")) ++count;
  ExprPtr operand = Compare();
  for (; count > 0; --count) {
    auto node = Make(ExprKind::kUnary, "not");
    Adopt(*node, std::move(operand));
    operand = std::move(node);
  }
  return operand;
}

ExprPtr ExprParser::Compare() {
  ExprPtr first = Sum();
  ExprPtr node;
  while (true) {
    std::string op;
    if (tokens_.Is(TokenKind::kOperator)) {
      for (const char* known : {"==", "!=", "<", "<=", ">", ">="}) {
        if (tokens_.IsOperator(known)) op = known;
      }
    } else if (tokens_.IsName("in")) {
      op = "in";
    } else if (tokens_.IsName("not") && tokens_.Peek(1).kind == TokenKind::kName &&
               tokens_.Peek(1).text == "in") {
      op = "not in";
      tokens_.Take();
    }
    if (op.empty()) break;
    tokens_.Take();
    if (node == nullptr) {
      node = Make(ExprKind::kCompare);
      Adopt(*node, std::move(first));
    }
    node->names.push_back(op);
    Adopt(*node, Sum());
  }
  return node != nullptr ? std::move(node) : std::move(first);
}

ExprPtr ExprParser::Sum() {
  ExprPtr left = Concat();
  while (tokens_.IsOperator("+") || tokens_.IsOperator("-")) {
    std::string op = tokens_.Take().text;
    left = MakeBinary(std::move(op), std::move(left), Concat());
  }
  return left;
}

ExprPtr ExprParser::Concat() {
  ExprPtr left = Product();
  while (tokens_.SkipOperator("~")) left = MakeBinary("~", std::move(left), Product());
  return left;
}

ExprPtr ExprParser::Product() {
  ExprPtr left = Unary();
  while (tokens_.IsOperator("*") || tokens_.IsOperator("/") || tokens_.IsOperator("//") ||
         tokens_.IsOperator("%")) {
    std::string op = tokens_.Take().text;
    left = MakeBinary(std::move(op), std::move(left), Unary());
  }
  return left;
}

ExprPtr ExprParser::Unary() {
  std::string signs;
  while (tokens_.IsOperator("-") || tokens_.IsOperator("+")) signs += tokens_.Take().text;
  ExprPtr node = Postfix(Primary());
  while (!signs.empty()) {  // a sign binds closer than a filter
    auto signed_node = Make(ExprKind::kUnary, std::string(1, signs.back()));
    Adopt(*signed_node, std::move(node));
    node = std::move(signed_node);
    signs.pop_back();
  }
  return FiltersAndTests(std::move(node));
}

}  // namespace banyan::jinja
