// Expressions, but for calls.
#include <utility>

#include "text/jinja/evaluator.h"
#include "text/jinja/filters.h"
#include "text/jinja/ops.h"

namespace banyan::jinja {

Value Evaluator::Eval(const Expr& e) {
  const DepthScope depth(runtime_);
  runtime_.line = e.line;
  runtime_.Step();
  switch (e.kind) {
    case ExprKind::kConstant:
      return e.constant;
    case ExprKind::kName:
      return EvalName(e);
    case ExprKind::kList:
      return MakeList(runtime_, EvalAll(e));
    case ExprKind::kTuple:
      return MakeTuple(runtime_, EvalAll(e));
    case ExprKind::kDict:
      return EvalDict(e);
    case ExprKind::kUnary:
      return EvalUnary(e);
    case ExprKind::kBinary:
      return EvalBinary(e);
    case ExprKind::kCompare:
      return EvalCompare(e);
    case ExprKind::kConditional:
      return EvalConditional(e);
    case ExprKind::kAttribute:
      return EvalAttribute(e);
    case ExprKind::kItem:
      return EvalItem(e);
    case ExprKind::kSlice:
      return EvalSlice(e);
    case ExprKind::kCall:
      return EvalCall(e);
    case ExprKind::kFilter:
      return EvalFilter(e);
    case ExprKind::kTest:
      return EvalTest(e);
  }
  return Value();
}

Value Evaluator::EvalName(const Expr& e) {
  const Value* value = scope_->Find(e.name);
  return value != nullptr ? *value : Value::MakeUndefined(e.name);
}

std::vector<Value> Evaluator::EvalAll(const Expr& e) {
  std::vector<Value> items;
  for (const ExprPtr& child : e.children) items.push_back(Eval(*child));
  return items;
}

Value Evaluator::EvalDict(const Expr& e) {
  DictEntries entries;
  for (size_t i = 0; i < e.children.size(); i += 2) {
    Value key = Eval(*e.children[i]);
    Value value = Eval(*e.children[i + 1]);
    bool replaced = false;
    for (auto& entry : entries) {
      if (!Equals(runtime_, entry.first, key)) continue;
      entry.second = value;
      replaced = true;
    }
    if (!replaced) entries.emplace_back(std::move(key), std::move(value));
  }
  return MakeDict(runtime_, std::move(entries));
}

Value Evaluator::EvalUnary(const Expr& e) {
  const Value value = Eval(*e.children[0]);
  if (e.name == "not") return Value(!Truthy(value));
  if (e.name == "-") return Negate(runtime_, value);
  if (!value.IsNumber()) Negate(runtime_, value);  // throws
  return value;
}

Value Evaluator::EvalBinary(const Expr& e) {
  Value left = Eval(*e.children[0]);
  if (e.name == "and") return Truthy(left) ? Eval(*e.children[1]) : left;
  if (e.name == "or") return Truthy(left) ? left : Eval(*e.children[1]);
  const Value right = Eval(*e.children[1]);
  runtime_.line = e.line;
  return Arithmetic(runtime_, e.name, left, right);
}

Value Evaluator::EvalCompare(const Expr& e) {
  Value left = Eval(*e.children[0]);
  for (size_t i = 0; i < e.names.size(); ++i) {
    Value right = Eval(*e.children[i + 1]);
    if (!CompareValues(runtime_, e.names[i], left, right)) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

Value Evaluator::EvalConditional(const Expr& e) {
  if (Truthy(Eval(*e.children[0]))) return Eval(*e.children[1]);
  return e.children[2] != nullptr ? Eval(*e.children[2])
                                  : Value::MakeUndefined("an inline if without else");
}

Value Evaluator::EvalAttribute(const Expr& e) {
  const Value object = Eval(*e.children[0]);
  runtime_.line = e.line;
  return GetAttribute(runtime_, object, e.name);
}

Value Evaluator::EvalItem(const Expr& e) {
  const Value object = Eval(*e.children[0]);
  const Value key = Eval(*e.children[1]);
  return GetItem(runtime_, object, key);
}

Value Evaluator::EvalSlice(const Expr& e) {
  const Value object = Eval(*e.children[0]);
  SliceBounds bounds{None{}, None{}, None{}};
  Value* const targets[] = {&bounds.begin, &bounds.end, &bounds.step};
  for (size_t i = 0; i < 3; ++i) {
    if (e.children[i + 1] != nullptr) *targets[i] = Eval(*e.children[i + 1]);
  }
  return GetSlice(runtime_, object, bounds);
}

Value Evaluator::EvalFilter(const Expr& e) {
  const Value input = Eval(*e.children[0]);
  const Arguments arguments = EvalArguments(e);
  return ApplyFilter(runtime_, e.name, input, arguments);
}

Value Evaluator::EvalTest(const Expr& e) {
  const Value input = Eval(*e.children[0]);
  const Arguments arguments = EvalArguments(e);
  return Value(ApplyTest(runtime_, e.name, input, arguments));
}

}  // namespace banyan::jinja
