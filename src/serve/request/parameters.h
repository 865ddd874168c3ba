// The fields of a request's body, read by name. Unknown fields are refused: a parameter without
// effect must not look as if it worked. Below, the same for options of a table
// (program/options.h).
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_text.h"
#include "program/json_library.h"
#include "program/options.h"
#include "program/serve.h"

namespace banyan {

// Of a body: 0.7 million objects or names, or 2 million numbers.
inline constexpr JsonLimits kBodyLimits{size_t{64} << 20, 1024};

// Throws ApiError 400 when the body is no JSON object, nests too deep, has more values than 64 MiB
// hold or an object with more than 1024 names. Numbers are kept as they are written (json_row.h).
Json ReadBody(std::string_view body);

// The text of a field of the body as it was written, a string's without its quotes; the way there:
// "response_format", "json_schema", "schema". Empty: there is none. REQUIRES: ReadBody took it.
std::string OrderedText(std::string_view body, std::initializer_list<const char*> way);

class Parameters {
 public:
  // `where` is what messages put before names: "response_format."
  explicit Parameters(const Json& object, std::string where = "");

  // Null: absent, or null in the request.
  const Json* Find(const char* name);
  const Json& Needed(const char* name);
  bool Flag(const char* name, bool otherwise);
  double Number(const char* name, double otherwise, double least, double most);
  std::int64_t Integer(const char* name, std::int64_t otherwise, std::int64_t least,
                       std::int64_t most);
  std::string Text(const char* name, const std::string& otherwise);
  std::vector<std::string> Texts(const char* name, size_t most);  // one text, or a list of them
  // A parameter that has no effect here; only this value is accepted.
  void OnlyAs(const char* name, const Json& value);

  // Throws for a field that was not read by name.
  void RefuseOthers() const;
  [[noreturn]] void Refuse(const char* name, const std::string& expected) const;

 private:
  const Json& object_;
  std::string where_;
  std::set<std::string> known_;
};

// A number, also one that is kept as its text.
double NumberOf(const Json& value);

// Sets every option that the body has. Throws ApiError naming the field for a value of another type
// or out of range, and for two names of one option.
void ReadOptions(Parameters& parameters, std::string_view body, const ServeOptions& server,
                 const BoundOptions& options);

// The property of an option in a JSON Schema.
nlohmann::ordered_json OptionSchema(const OptionFacts& facts);

// openapi.json with the properties of every schema that says "x-banyan-options": TABLE.
std::string FilledOpenApi(std::string_view openapi);

}  // namespace banyan
