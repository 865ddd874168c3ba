// The expression grammar, in Jinja's precedence: conditional, or, and, not, comparison, + -, ~,
// * / // %, unary, postfix, filters and tests.
#pragma once

#include <string>
#include <vector>

#include "text/jinja/lexer.h"
#include "text/jinja/parser.h"

namespace banyan::jinja {

class ExprParser {
 public:
  explicit ExprParser(TokenStream& tokens) : tokens_(tokens) {}

  ExprPtr Expression();
  // One expression, or several with commas between: a tuple. `conditional` allows "a if b else c".
  ExprPtr TupleOrExpression(bool conditional);

 private:
  ExprPtr Or();
  ExprPtr And();
  ExprPtr Not();
  ExprPtr Compare();
  ExprPtr Sum();
  ExprPtr Concat();
  ExprPtr Product();
  ExprPtr Unary();

  ExprPtr Primary();
  ExprPtr Parenthesized();
  ExprPtr ListLiteral();
  ExprPtr DictLiteral();
  ExprPtr Integer();

  ExprPtr Postfix(ExprPtr node);
  ExprPtr Subscript(ExprPtr object);
  ExprPtr FiltersAndTests(ExprPtr node);
  ExprPtr Filter(ExprPtr input);
  ExprPtr Test(ExprPtr input);
  void CallArguments(Expr& call);

  ExprPtr Make(ExprKind kind, std::string name = "") const;
  ExprPtr MakeBinary(std::string name, ExprPtr left, ExprPtr right) const;
  // Adds a child and keeps the depth; throws kLimit when the tree is too deep.
  void Adopt(Expr& parent, ExprPtr child) const;

  TokenStream& tokens_;
  int nesting_ = 0;
};

}  // namespace banyan::jinja
