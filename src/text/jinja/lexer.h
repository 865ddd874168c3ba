// Template source → tokens, with white-space control as Transformers sets Jinja up: trim_blocks and
// lstrip_blocks on, one trailing newline dropped.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/runtime.h"

namespace banyan::jinja {

enum class TokenKind {
  kText,           // literal output
  kBlockBegin,     // {%
  kBlockEnd,       // %}
  kVariableBegin,  // {{
  kVariableEnd,    // }}
  kName,
  kString,   // text: the decoded value
  kInteger,  // text: digits
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind;
  std::string text;
  int line;
};

// Ends with a kEnd token. Throws kLimit for a long source, kFormat for bad syntax.
std::vector<Token> Tokenize(std::string_view source, const Limits& limits);

// The parser's view of the tokens: looks ahead, and its errors name the line.
class TokenStream {
 public:
  TokenStream(std::vector<Token> tokens, const Limits& limits)
      : tokens_(std::move(tokens)), limits_(limits) {}

  const Limits& limits() const { return limits_; }
  const Token& Peek(size_t ahead = 0) const {
    const size_t at = next_ + ahead;
    return at < tokens_.size() ? tokens_[at] : tokens_.back();
  }
  int line() const { return Peek().line; }
  bool Is(TokenKind kind) const { return Peek().kind == kind; }
  bool IsOperator(std::string_view text) const {
    return Is(TokenKind::kOperator) && Peek().text == text;
  }
  bool IsName(std::string_view text) const { return Is(TokenKind::kName) && Peek().text == text; }

  Token Take() {
    Token token = Peek();
    if (next_ + 1 < tokens_.size()) ++next_;
    return token;
  }
  bool SkipOperator(std::string_view text) { return IsOperator(text) && (Take(), true); }
  bool SkipName(std::string_view text) { return IsName(text) && (Take(), true); }
  void ExpectOperator(std::string_view text) {
    if (!SkipOperator(text)) Unexpected(text);
  }
  void ExpectName(std::string_view text) {
    if (!SkipName(text)) Unexpected(text);
  }
  std::string TakeName(std::string_view what) {
    if (!Is(TokenKind::kName)) Unexpected(what);
    return Take().text;
  }
  void ExpectKind(TokenKind kind, std::string_view what) {
    if (!Is(kind)) Unexpected(what);
    Take();
  }

  [[noreturn]] void Unexpected(std::string_view expected) const {
    Throw(ErrorKind::kFormat, "chat template line {}: expected {}, found {}", line(), expected,
          Describe());
  }

 private:
  std::string Describe() const {
    switch (Peek().kind) {
      case TokenKind::kText:
        return "text";
      case TokenKind::kBlockBegin:
        return "'{%'";
      case TokenKind::kBlockEnd:
        return "'%}'";
      case TokenKind::kVariableBegin:
        return "'{{'";
      case TokenKind::kVariableEnd:
        return "'}}'";
      case TokenKind::kString:
        return "a string";
      case TokenKind::kEnd:
        return "the end of the template";
      default:
        return "'" + Peek().text + "'";
    }
  }

  std::vector<Token> tokens_;
  const Limits limits_;
  size_t next_ = 0;
};

}  // namespace banyan::jinja
