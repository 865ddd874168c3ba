// What may follow a value: attributes, subscripts, calls, filters and tests.
#include <utility>

#include "text/jinja/expr_parser.h"

namespace banyan::jinja {

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

bool ExprParser::AtTestArgument() const {
  switch (tokens_.Peek().kind) {
    case TokenKind::kString:
    case TokenKind::kInteger:
    case TokenKind::kFloat:
      return true;
    case TokenKind::kName: {
      const std::string& name = tokens_.Peek().text;
      return name != "else" && name != "or" && name != "and" && name != "is" && name != "if" &&
             name != "in" && name != "not";
    }
    default:
      return tokens_.IsOperator("[") || tokens_.IsOperator("{");
  }
}

ExprPtr ExprParser::Test(ExprPtr input) {
  const bool negated = tokens_.SkipName("not");
  auto test = Make(ExprKind::kTest);
  test->name = tokens_.TakeName("a test's name");
  Adopt(*test, std::move(input));
  if (tokens_.IsOperator("(")) {
    CallArguments(*test);
  } else if (AtTestArgument()) {
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
