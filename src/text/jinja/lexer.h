// Template source → tokens, with white-space control as Transformers sets Jinja up: trim_blocks and
// lstrip_blocks on, one trailing newline dropped.
#pragma once

#include <string>
#include <string_view>
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

// Ends with a kEnd token. Throws kLimit for a long source, kFormat for what is no Jinja.
std::vector<Token> Tokenize(std::string_view source, const Limits& limits);

}  // namespace banyan::jinja
