// Fields of an input line of `ids`, each with an error that says what was expected and found.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "banyan/engine.h"
#include "banyan/types.h"

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

}  // namespace banyan::app
