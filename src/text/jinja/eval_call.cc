// Calls of functions, methods and macros, and what makes macros and namespaces.
#include <algorithm>
#include <utility>

#include "text/jinja/evaluator.h"
#include "text/jinja/ops.h"
#include "text/jinja/print.h"

namespace banyan::jinja {

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

Value Evaluator::MakeNamespace(const Arguments& arguments) {
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

Value Evaluator::MakeMacro(const Statement& s) {
  captured_.push_back(scope_);
  return MakeCallable(s.target.name, [this, &s, scope = scope_](const Arguments& arguments) {
    return CallMacro(s, scope, arguments);
  });
}

Value Evaluator::CallMacro(const Statement& s, const std::shared_ptr<Scope>& scope,
                           const Arguments& arguments) {
  const DepthScope depth(runtime_);
  const std::shared_ptr<Scope> outer = std::exchange(scope_, scope);
  Text outer_text = std::exchange(out_, Text());
  const int outer_line = runtime_.line;
  {
    const ScopeGuard guard(*this);
    BindParameters(s, arguments);
    Exec(s.body);
  }
  scope_ = outer;
  runtime_.line = outer_line;
  return Value(std::exchange(out_, std::move(outer_text)));
}

void Evaluator::BindParameters(const Statement& s, const Arguments& arguments) {
  const std::string& name = s.target.name;
  if (arguments.positional.size() > s.parameters.size()) {
    runtime_.Fail(ErrorKind::kInput, "the macro '{}' takes at most {} arguments, {} given", name,
                  s.parameters.size(), arguments.positional.size());
  }
  Variables& variables = scope_->variables;
  for (size_t i = 0; i < arguments.positional.size(); ++i) {
    variables.insert_or_assign(s.parameters[i], arguments.positional[i]);
  }
  for (const auto& [key, value] : arguments.named) {
    const bool known =
        std::find(s.parameters.begin(), s.parameters.end(), key) != s.parameters.end();
    if (!known || !variables.emplace(key, value).second) {
      runtime_.Fail(ErrorKind::kInput, "the macro '{}' got an unexpected argument '{}'", name, key);
    }
  }
  for (size_t i = arguments.positional.size(); i < s.parameters.size(); ++i) {
    if (variables.contains(s.parameters[i])) continue;
    Value value =
        s.defaults[i] != nullptr ? Eval(*s.defaults[i]) : Value::MakeUndefined(s.parameters[i]);
    variables.emplace(s.parameters[i], std::move(value));
  }
}

}  // namespace banyan::jinja
