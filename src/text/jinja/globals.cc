// Functions that templates call by name.
#include <algorithm>
#include <ctime>

#include "text/jinja/arguments.h"
#include "text/jinja/evaluator.h"

namespace banyan::jinja {
namespace {

Value Range(Runtime& runtime, const Arguments& arguments) {
  const BoundArguments bound(runtime, "range", arguments, {"start", "stop", "step"});
  const bool single = !bound.Given(1);
  bound.Required(0);
  const int64_t begin = single ? 0 : bound.Int(0, 0);
  const int64_t end = single ? bound.Int(0, 0) : bound.Int(1, 0);
  const int64_t step = bound.Int(2, 1);
  if (step == 0) runtime.Fail(ErrorKind::kInput, "range() with step 0");
  std::vector<Value> items;
  // __int128 so that no bound can overflow.
  for (__int128 i = begin; step > 0 ? i < end : i > end; i += step) {
    if (static_cast<int64_t>(items.size()) >= runtime.limits.range_items) {
      runtime.Fail(ErrorKind::kLimit, "range() of more than {} items", runtime.limits.range_items);
    }
    items.emplace_back(static_cast<int64_t>(i));
  }
  return MakeList(runtime, std::move(items));
}

Value RaiseException(Runtime& runtime, const Arguments& arguments) {
  const BoundArguments bound(runtime, "raise_exception", arguments, {"message"});
  runtime.Fail(ErrorKind::kInput, "{}", Str(runtime, bound.Required(0)).bytes());
}

Value StrftimeNow(Runtime& runtime, const Arguments& arguments) {
  const BoundArguments bound(runtime, "strftime_now", arguments, {"format"});
  // A last character tells an empty result from one that did not fit.
  const std::string format = bound.String(0).bytes() + ".";
  std::string buffer(std::min<size_t>(format.size() * 32 + 256, 65536), '\0');
  const size_t size = std::strftime(buffer.data(), buffer.size(), format.c_str(), &runtime.date);
  if (size == 0) runtime.Fail(ErrorKind::kLimit, "strftime_now() of a long format");
  buffer.resize(size - 1);
  return Value::String(std::move(buffer));
}

}  // namespace

Variables GlobalFunctions() {
  Variables out;
  const auto add = [&](const char* name, Value (*function)(Runtime&, const Arguments&)) {
    out.emplace(name, Value(std::make_shared<const Callable>(Callable{name, function})));
  };
  add("range", Range);
  add("raise_exception", RaiseException);
  add("strftime_now", StrftimeNow);
  return out;
}

}  // namespace banyan::jinja
