// Recursive descent over tags; expressions are parsed by ExprParser.
#include "text/jinja/parser.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "text/jinja/expression_parser.h"
#include "text/jinja/lexer.h"

namespace banyan::jinja {
namespace {

class Parser {
 public:
  Parser(std::string_view source, const Limits& limits)
      : tokens_(Tokenize(source, limits), limits), exprs_(tokens_) {}

  Block Run() {
    Block all = Statements({});
    if (!tokens_.Is(TokenKind::kEnd)) tokens_.Unexpected("a tag that is open here");
    return all;
  }

 private:
  using Ends = std::initializer_list<std::string_view>;

  // Until a tag named in `ends`, whose "{%" and name are then the next tokens, or the end.
  Block Statements(Ends ends) {
    if (++nesting_ > tokens_.limits().nesting) {
      Throw(ErrorKind::kLimit, "chat template line {}: blocks nest deeper than {}", tokens_.line(),
            tokens_.limits().nesting);
    }
    Block block;
    while (!tokens_.Is(TokenKind::kEnd)) {
      Statement statement;
      statement.line = tokens_.line();
      if (tokens_.Is(TokenKind::kText)) {
        statement.text = Text(tokens_.Take().text);
      } else if (tokens_.Is(TokenKind::kVariableBegin)) {
        tokens_.Take();
        statement.kind = StatementKind::kPrint;
        statement.expr = exprs_.TupleOrExpression(true);
        tokens_.ExpectKind(TokenKind::kVariableEnd, "'}}'");
      } else {
        const Token& name = tokens_.Peek(1);
        if (std::find(ends.begin(), ends.end(), name.text) != ends.end()) break;
        tokens_.Take();
        ParseTag(statement, ends);
      }
      block.push_back(std::move(statement));
    }
    --nesting_;
    return block;
  }

  void ParseTag(Statement& out, Ends ends) {
    const std::string tag = tokens_.TakeName("a tag's name");
    out.line = tokens_.line();
    if (tag == "if") return ParseIf(out);
    if (tag == "for") return ParseFor(out);
    if (tag == "set") return ParseSet(out);
    if (tag == "macro") return ParseMacro(out);
    if (tag == "generation") {
      out.kind = StatementKind::kScope;
      return ParseBody(out.body, "endgeneration");
    }
    if (tag == "break" || tag == "continue") {
      if (loops_ == 0) {
        Throw(ErrorKind::kFormat, "chat template line {}: '{}' outside a loop", out.line, tag);
      }
      out.kind = tag == "break" ? StatementKind::kBreak : StatementKind::kContinue;
      return EndTag();
    }
    if (tag.starts_with("end") || tag == "else" || tag == "elif") {
      Throw(ErrorKind::kFormat, "chat template line {}: '{}' closes nothing{}{}", out.line, tag,
            ends.size() > 0 ? ", expected " : "",
            ends.size() > 0 ? std::string(*(ends.end() - 1)) : "");
    }
    Throw(ErrorKind::kUnsupported, "chat template line {}: the tag '{}'", out.line, tag);
  }

  void EndTag() { tokens_.ExpectKind(TokenKind::kBlockEnd, "'%}'"); }

  // "%}", the statements, "{% end %}".
  void ParseBody(Block& body, std::string_view end) {
    EndTag();
    body = Statements({end});
    TakeTagName(end);
    EndTag();
  }

  std::string TakeTagName(std::string_view expected) {
    if (!tokens_.Is(TokenKind::kBlockBegin)) tokens_.Unexpected(expected);
    tokens_.Take();
    return tokens_.TakeName(expected);
  }

  void ParseIf(Statement& out) {
    out.kind = StatementKind::kIf;
    while (true) {
      Branch branch;
      branch.condition = exprs_.TupleOrExpression(false);
      EndTag();
      branch.body = Statements({"elif", "else", "endif"});
      out.branches.push_back(std::move(branch));
      const std::string tag = TakeTagName("endif");
      if (tag == "elif") continue;
      if (tag == "else") return ParseBody(out.body, "endif");
      return EndTag();
    }
  }

  void ParseFor(Statement& out) {
    out.kind = StatementKind::kFor;
    out.target = ParseTarget(false);
    tokens_.ExpectName("in");
    out.expr = exprs_.TupleOrExpression(false);
    if (tokens_.SkipName("if")) out.condition = exprs_.Expression();
    if (tokens_.IsName("recursive")) {
      Throw(ErrorKind::kUnsupported, "chat template line {}: a recursive loop", out.line);
    }
    EndTag();
    ++loops_;
    out.body = Statements({"else", "endfor"});
    --loops_;
    if (TakeTagName("endfor") == "else") return ParseBody(out.otherwise, "endfor");
    EndTag();
  }

  void ParseSet(Statement& out) {
    out.kind = StatementKind::kSet;
    out.target = ParseTarget(true);
    if (tokens_.SkipOperator("=")) {
      out.expr = exprs_.TupleOrExpression(true);
      return EndTag();
    }
    out.kind = StatementKind::kSetBlock;
    ParseNestedBody(out.body, "endset");
  }

  // A body from which break and continue do not reach the loop around it.
  void ParseNestedBody(Block& body, std::string_view end) {
    const int loops = std::exchange(loops_, 0);
    ParseBody(body, end);
    loops_ = loops;
  }

  void ParseMacro(Statement& out) {
    out.kind = StatementKind::kMacro;
    out.target.name = tokens_.TakeName("the macro's name");
    ParseParameters(out);
    ParseNestedBody(out.body, "endmacro");
  }

  void ParseParameters(Statement& out) {
    tokens_.ExpectOperator("(");
    while (!tokens_.SkipOperator(")")) {
      if (!out.parameters.empty()) {
        tokens_.ExpectOperator(",");
        if (tokens_.SkipOperator(")")) break;
      }
      out.parameters.push_back(tokens_.TakeName("a parameter's name"));
      out.defaults.push_back(tokens_.SkipOperator("=") ? exprs_.Expression() : nullptr);
    }
  }

  Target ParseTarget(bool attributes) {
    Target target = ParseTargetPart(attributes);
    if (!tokens_.IsOperator(",")) return target;
    Target all;
    all.parts.push_back(std::move(target));
    while (tokens_.SkipOperator(",")) {
      if (!tokens_.Is(TokenKind::kName) && !tokens_.IsOperator("(")) break;
      all.parts.push_back(ParseTargetPart(attributes));
    }
    return all;
  }

  Target ParseTargetPart(bool attributes) {
    Target target;
    if (tokens_.SkipOperator("(")) {  // brackets are bounded by the lexer
      target = ParseTarget(attributes);
      tokens_.ExpectOperator(")");
      return target;
    }
    target.name = tokens_.TakeName("a name to assign to");
    if (attributes && tokens_.SkipOperator(".")) {
      target.attribute = tokens_.TakeName("an attribute's name");
    }
    return target;
  }

  TokenStream tokens_;
  ExprParser exprs_;
  int nesting_ = 0;
  int loops_ = 0;  // loops that break and continue can reach here
};

}  // namespace

Block ParseTemplate(std::string_view source, const Limits& limits) {
  return Parser(source, limits).Run();
}

}  // namespace banyan::jinja
