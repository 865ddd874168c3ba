// Operators from the loosest to the tightest, primary expressions, then postfix.
#include "text/jinja/expression_parser.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace banyan::jinja {
namespace {

// Whether what follows "is NAME" is the test's argument, written without brackets.
bool AtTestArgument(const TokenStream& tokens) {
  switch (tokens.Peek().kind) {
    case TokenKind::kString:
    case TokenKind::kInteger:
    case TokenKind::kFloat:
      return true;
    case TokenKind::kName: {
      const std::string& name = tokens.Peek().text;
      return name != "else" && name != "or" && name != "and" && name != "is" && name != "if" &&
             name != "in" && name != "not";
    }
    default:
      return tokens.IsOperator("[") || tokens.IsOperator("{");
  }
}

}  // namespace

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

// Primary expressions: names, constants, and what stands in brackets.

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

// Postfix: attributes, subscripts, calls, filters and tests.

ExprPtr ExprParser::Postfix(ExprPtr node) {
  while (true) {
    if (tokens_.IsOperator(".") || tokens_.IsOperator("[")) {
      node = Subscript(std::move(node));
    } else if (tokens_.IsOperator("(")) {
      auto call = Make(ExprKind::kCall);
      Adopt(*call, std::move(node));
      CallArguments(*call);
      node = std::move(call);
    } else {
      return node;
    }
  }
}

ExprPtr ExprParser::Subscript(ExprPtr object) {
  if (tokens_.SkipOperator(".")) {
    if (tokens_.Is(TokenKind::kInteger)) {
      auto item = Make(ExprKind::kItem);
      Adopt(*item, std::move(object));
      Adopt(*item, Integer());
      return item;
    }
    auto attribute = Make(ExprKind::kAttribute);
    attribute->name = tokens_.TakeName("a name after '.'");
    Adopt(*attribute, std::move(object));
    return attribute;
  }
  auto node = Make(ExprKind::kItem);
  tokens_.ExpectOperator("[");
  Adopt(*node, std::move(object));
  ExprPtr first = tokens_.IsOperator(":") ? nullptr : TupleOrExpression(true);
  if (tokens_.IsOperator(":")) {
    node->kind = ExprKind::kSlice;
    Adopt(*node, std::move(first));
    while (tokens_.SkipOperator(":")) {
      if (node->children.size() == 4) tokens_.Unexpected("']'");
      const bool absent = tokens_.IsOperator(":") || tokens_.IsOperator("]");
      Adopt(*node, absent ? nullptr : Expression());
    }
    while (node->children.size() < 4) node->children.push_back(nullptr);
  } else {
    Adopt(*node, std::move(first));
  }
  tokens_.ExpectOperator("]");
  return node;
}

ExprPtr ExprParser::FiltersAndTests(ExprPtr node) {
  while (true) {
    if (tokens_.SkipOperator("|")) {
      node = Filter(std::move(node));
    } else if (tokens_.SkipName("is")) {
      node = Test(std::move(node));
    } else if (tokens_.IsOperator("(")) {
      node = Postfix(std::move(node));
    } else {
      return node;
    }
  }
}

ExprPtr ExprParser::Filter(ExprPtr input) {
  auto filter = Make(ExprKind::kFilter);
  filter->name = tokens_.TakeName("a filter's name");
  Adopt(*filter, std::move(input));
  if (tokens_.IsOperator("(")) CallArguments(*filter);
  return filter;
}

ExprPtr ExprParser::Test(ExprPtr input) {
  const bool negated = tokens_.SkipName("not");
  auto test = Make(ExprKind::kTest);
  test->name = tokens_.TakeName("a test's name");
  Adopt(*test, std::move(input));
  if (tokens_.IsOperator("(")) {
    CallArguments(*test);
  } else if (AtTestArgument(tokens_)) {
    Adopt(*test, Postfix(Primary()));
  }
  if (!negated) return test;
  auto node = Make(ExprKind::kUnary, "not");
  Adopt(*node, std::move(test));
  return node;
}

void ExprParser::CallArguments(Expr& call) {
  tokens_.ExpectOperator("(");
  bool first = true;
  while (!tokens_.SkipOperator(")")) {
    if (!first) {
      tokens_.ExpectOperator(",");
      if (tokens_.SkipOperator(")")) break;
    }
    first = false;
    const bool named = tokens_.Is(TokenKind::kName) &&
                       tokens_.Peek(1).kind == TokenKind::kOperator && tokens_.Peek(1).text == "=";
    if (named) {
      call.names.push_back(tokens_.Take().text);
      tokens_.Take();
    } else if (!call.names.empty()) {
      tokens_.Unexpected("a named argument");
    }
    Adopt(call, Expression());
  }
}

}  // namespace banyan::jinja
