// Jinja's tests: what may follow "is".
#include <unordered_map>

#include "text/jinja/arguments.h"
#include "text/jinja/case.h"
#include "text/jinja/filters.h"

namespace banyan::jinja {
namespace {

using Test = bool (*)(Runtime&, const Value&, const Arguments&);

bool DividesEvenly(Runtime& runtime, const Value& value, int64_t by, int64_t remainder) {
  return Equals(runtime, Arithmetic(runtime, "%", value, Value(by)), Value(remainder));
}

template <char const* kOperator>
bool Comparison(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const BoundArguments bound(runtime, "is", arguments, {"other"});
  return CompareValues(runtime, kOperator, value, bound.Required(0));
}

constexpr char kEqual[] = "==";
constexpr char kNotEqual[] = "!=";
constexpr char kLess[] = "<";
constexpr char kLessOrEqual[] = "<=";
constexpr char kGreater[] = ">";
constexpr char kGreaterOrEqual[] = ">=";
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
      {"callable",
       [](Runtime&, const Value& v, const Arguments&) { return v.callable() != nullptr; }},
      {"lower", [](Runtime& r, const Value& v, const Arguments&) { return IsLower(r, Str(r, v)); }},
      {"upper", [](Runtime& r, const Value& v, const Arguments&) { return IsUpper(r, Str(r, v)); }},
      {"odd",
       [](Runtime& r, const Value& v, const Arguments&) { return DividesEvenly(r, v, 2, 1); }},
      {"even",
       [](Runtime& r, const Value& v, const Arguments&) { return DividesEvenly(r, v, 2, 0); }},
      {"divisibleby",
       [](Runtime& r, const Value& v, const Arguments& a) {
         const BoundArguments bound(r, "divisibleby", a, {"num"});
         return DividesEvenly(r, v, bound.Int(0, 0), 0);
       }},
      {"filter",
       [](Runtime& r, const Value&, const Arguments&) -> bool {
         r.Fail(ErrorKind::kUnsupported, "the test 'filter'");
       }},
      {"equalto", Comparison<kEqual>},
      {"eq", Comparison<kEqual>},
      {"sameas",
       [](Runtime& r, const Value& v, const Arguments& a) {
         const BoundArguments bound(r, "sameas", a, {"other"});
         return std::string_view(v.TypeName()) == bound.Required(0).TypeName() &&
                Equals(r, v, bound.Required(0));
       }},
      {"ne", Comparison<kNotEqual>},
      {"lt", Comparison<kLess>},
      {"lessthan", Comparison<kLess>},
      {"le", Comparison<kLessOrEqual>},
      {"gt", Comparison<kGreater>},
      {"greaterthan", Comparison<kGreater>},
      {"ge", Comparison<kGreaterOrEqual>},
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
