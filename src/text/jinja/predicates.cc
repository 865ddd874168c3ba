// Jinja's tests: what may follow "is".
#include <unordered_map>

#include "text/jinja/arguments.h"
#include "text/jinja/filters.h"

namespace banyan::jinja {
namespace {

using Test = bool (*)(Runtime&, const Value&, const Arguments&);

template <char const* kOperator>
bool Comparison(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const BoundArguments bound(runtime, "is", arguments, {"other"});
  return CompareValues(runtime, kOperator, value, bound.Required(0));
}

constexpr char kEqual[] = "==";
constexpr char kNotEqual[] = "!=";
constexpr char kIn[] = "in";

bool IsSequence(const Value& v) {
  return v.text() != nullptr || v.list() != nullptr || v.dict() != nullptr || v.IsUndefined();
}

const std::unordered_map<std::string_view, Test>& Tests() {
  static const std::unordered_map<std::string_view, Test> tests = {
      {"defined", [](Runtime&, const Value& v, const Arguments&) { return !v.IsUndefined(); }},
      {"undefined", [](Runtime&, const Value& v, const Arguments&) { return v.IsUndefined(); }},
      {"none", [](Runtime&, const Value& v, const Arguments&) { return v.IsNone(); }},
      {"boolean", [](Runtime&, const Value& v, const Arguments&) { return v.IsBool(); }},
      {"true", [](Runtime&, const Value& v, const Arguments&) { return v.IsBool() && v.AsBool(); }},
      {"false",
       [](Runtime&, const Value& v, const Arguments&) { return v.IsBool() && !v.AsBool(); }},
      {"integer",
       [](Runtime&, const Value& v, const Arguments&) { return v.IsInt() && !v.IsBool(); }},
      {"float", [](Runtime&, const Value& v, const Arguments&) { return v.IsFloat(); }},
      {"number", [](Runtime&, const Value& v, const Arguments&) { return v.IsNumber(); }},
      {"string", [](Runtime&, const Value& v, const Arguments&) { return v.text() != nullptr; }},
      {"mapping", [](Runtime&, const Value& v, const Arguments&) { return v.dict() != nullptr; }},
      {"sequence", [](Runtime&, const Value& v, const Arguments&) { return IsSequence(v); }},
      {"iterable", [](Runtime&, const Value& v,
                      const Arguments&) { return IsSequence(v) || v.loop() != nullptr; }},
      {"equalto", Comparison<kEqual>},
      {"eq", Comparison<kEqual>},
      {"ne", Comparison<kNotEqual>},
      {"in", Comparison<kIn>},
  };
  return tests;
}

}  // namespace

bool ApplyTest(Runtime& runtime, const std::string& name, const Value& input,
               const Arguments& arguments) {
  const auto found = Tests().find(name);
  if (found == Tests().end()) runtime.Fail(ErrorKind::kUnsupported, "the test '{}'", name);
  return found->second(runtime, input, arguments);
}

}  // namespace banyan::jinja
