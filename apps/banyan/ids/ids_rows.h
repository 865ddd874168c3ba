// An input line of `ids` on its way, and the line of output that it becomes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "banyan/engine.h"
#include "banyan/error.h"
#include "banyan/types.h"

namespace banyan::app {

struct IdsRow {
  std::string id = "null";      // as JSON
  std::uint64_t first_tag = 0;  // of its answers
  std::string kind;
  bool logprobs = false;
  std::vector<std::vector<Answer>> answers;  // [contexts][questions]; one of each unless stacked
  int missing = 0;                           // answers not there yet
  std::string text;                          // the output line, when done
};

// Shortest decimals that read back as the same float32; null where it is not finite.
std::string FloatText(float value);
std::string FloatsText(const std::vector<float>& values);

// Lines without their newline; `id` is JSON.
std::string AnswersLine(const IdsRow& row);  // REQUIRES: no answer is missing
std::string FieldsLine(const std::string& id, const std::string& fields);  // fields: JSON
std::string TokensLine(const std::string& id, const std::vector<TokenId>& tokens);
std::string TextLine(const std::string& id, const std::string& text);
// What a mask allows and whether the text may end; the tokens themselves when they are few.
std::string MaskLine(const std::string& id, const std::vector<TokenId>& tokens, bool may_end);
std::string ErrorLine(const std::string& id, ErrorKind kind, const std::string& message);

}  // namespace banyan::app
