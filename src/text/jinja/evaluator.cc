// Scopes and assignment first, then one function for each kind of expression.
#include "text/jinja/evaluator.h"

#include <utility>

#include "text/jinja/filters.h"
#include "text/jinja/functions.h"
#include "text/jinja/operators.h"

namespace banyan::jinja {

const Value* Scope::Find(std::string_view name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->parent.get()) {
    const auto found = scope->variables.find(name);
    if (found != scope->variables.end()) return &found->second;
  }
  return nullptr;
}

Environment::Environment(Runtime& runtime, Variables variables) : runtime_(runtime) {
  auto globals = std::make_shared<Scope>();
  globals->variables = GlobalFunctions();
  globals->variables.emplace("namespace", MakeCallable("namespace", [this](const Arguments& a) {
                               return MakeNamespace(a);
                             }));
  scope_ = std::make_shared<Scope>();
  scope_->parent = std::move(globals);
  scope_->variables = std::move(variables);
}

Environment::~Environment() {
  for (const auto& space : namespaces_) space->attributes.clear();
  for (const auto& scope : captured_) scope->variables.clear();
}

Environment::ScopeGuard::ScopeGuard(Environment& environment, const std::shared_ptr<Scope>& parent)
    : environment_(environment), outer_(environment.scope_) {
  auto scope = std::make_shared<Scope>();
  scope->parent = parent;
  environment.scope_ = std::move(scope);
}

std::shared_ptr<Scope> Environment::CaptureScope() {
  captured_.push_back(scope_);
  return scope_;
}

void Environment::Assign(const Target& target, const Value& value) {
  if (!target.parts.empty()) return Unpack(target, value);
  if (target.attribute.empty()) {
    scope_->variables.insert_or_assign(target.name, value);
    return;
  }
  const Value* space = scope_->Find(target.name);
  if (space == nullptr || space->space() == nullptr) {
    runtime_.Fail(ErrorKind::kInput, "cannot assign an attribute of '{}': it is no namespace",
                  target.name);
  }
  space->space()->attributes.insert_or_assign(target.attribute, value);
}

void Environment::Unpack(const Target& target, const Value& value) {
  const std::vector<Value> items = Items(runtime_, value);
  if (items.size() != target.parts.size()) {
    runtime_.Fail(ErrorKind::kInput, "expected {} values to unpack, found {}", target.parts.size(),
                  items.size());
  }
  for (size_t i = 0; i < items.size(); ++i) Assign(target.parts[i], items[i]);
}

Value Environment::MakeNamespace(const Arguments& arguments) {
  auto space = std::make_shared<Namespace>();
  for (const Value& source : arguments.positional) {
    if (source.dict() == nullptr) {
      runtime_.Fail(ErrorKind::kInput, "namespace() of a {}", source.TypeName());
    }
    for (const auto& [key, value] : source.dict()->entries) {
      space->attributes.insert_or_assign(Str(runtime_, key).bytes(), value);
    }
  }
  for (const auto& [name, value] : arguments.named) {
    space->attributes.insert_or_assign(name, value);
  }
  namespaces_.push_back(space);
  return Value(std::move(space));
}

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
  const Value* value = environment_.Find(e.name);
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

Arguments Evaluator::EvalArguments(const Expr& e) {
  Arguments arguments;
  const size_t positional = e.children.size() - e.names.size();
  for (size_t i = 1; i < e.children.size(); ++i) {
    Value value = Eval(*e.children[i]);
    if (i < positional) {
      arguments.positional.push_back(std::move(value));
    } else {
      arguments.named.emplace_back(e.names[i - positional], std::move(value));
    }
  }
  runtime_.line = e.line;
  return arguments;
}

Value Evaluator::EvalCall(const Expr& e) {
  const Expr& callee = *e.children[0];
  Value function;
  if (callee.kind == ExprKind::kAttribute) {
    const Value object = Eval(*callee.children[0]);
    function = GetAttribute(runtime_, object, callee.name);
    if (function.IsUndefined() && (object.text() != nullptr || object.list() != nullptr)) {
      runtime_.Fail(ErrorKind::kUnsupported, "the method '{}' of {}", callee.name,
                    object.TypeName());
    }
  } else {
    function = Eval(callee);
  }
  const Arguments arguments = EvalArguments(e);
  if (function.IsUndefined()) FailUndefined(runtime_, function);
  if (function.callable() == nullptr) {
    runtime_.Fail(ErrorKind::kInput, "a value of type {} cannot be called", function.TypeName());
  }
  return function.callable()->call(runtime_, arguments);
}

}  // namespace banyan::jinja
