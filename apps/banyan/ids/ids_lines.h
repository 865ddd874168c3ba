// Lines of `ids`: fields of an input line, each with an error that says what was expected and
// found, and the output line that a row becomes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "banyan/encoder.h"
#include "banyan/engine.h"
#include "banyan/error.h"
#include "banyan/types.h"
#include "program/json_library.h"

namespace banyan::app {

using Json = nlohmann::ordered_json;  // templates print objects in the order of their keys

[[noreturn]] void BadInput(const std::string& message);

// A line of the input. Throws kInput, with the line's number, for bad JSON and for JSON that nests
// deeper than 256.
Json ParseLine(const std::string& line, std::int64_t number);

// The line's "id" as JSON; a number as it is written there, whatever a double can hold.
// REQUIRES: `json` is the line and has one.
std::string IdText(const Json& json, const std::string& line);

const Json& Field(const Json& line, const char* name);
int IntField(const Json& line, const char* name, int fallback);  // 0 or more
double NumberField(const Json& line, const char* name, double fallback);
std::vector<TokenId> TokenList(const Json& value, const char* name);
std::string StringField(const Json& line, const char* name);
std::string AdapterField(const Json& line);  // empty: none
// max_new, stop and the sampling options.
AnswerRequest AnswerFields(const Json& line);

// --- Output

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

// The vectors of a text as fields of a line: the dense one always, the others where they were
// computed.
struct EmbeddingParts {
  bool sparse = false, colbert = false;
  const char* colbert_name = "colbert";
};
std::string EmbeddingFields(const Embedding& embedding, const EmbeddingParts& parts);

// Lines without their newline; `id` is JSON.
std::string AnswersLine(const IdsRow& row);  // REQUIRES: no answer is missing
std::string FieldsLine(const std::string& id, const std::string& fields);  // fields: JSON
std::string TokensLine(const std::string& id, const std::vector<TokenId>& tokens);
std::string TextLine(const std::string& id, const std::string& text);
// What a mask allows and whether the text may end; the tokens themselves when they are few.
std::string MaskLine(const std::string& id, const std::vector<TokenId>& tokens, bool may_end);
std::string ErrorLine(const std::string& id, ErrorKind kind, const std::string& message);

}  // namespace banyan::app
