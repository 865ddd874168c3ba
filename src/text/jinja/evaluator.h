// Evaluates a template's expressions, and the variables that they see.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/parser.h"
#include "text/jinja/value.h"

namespace banyan::jinja {

// Variables visible at one place of a template.
struct Scope {
  std::shared_ptr<Scope> parent;  // null for the globals
  Variables variables;

  // Null when neither this scope nor one around it has the name.
  const Value* Find(std::string_view name) const;
};

// The scopes of one rendering, and what may outlive them: namespaces and macros' scopes.
class Environment {
 public:
  // Scopes from the outermost: built-in functions, then `variables`.
  Environment(Runtime& runtime, Variables variables);
  // Namespaces and macros' scopes may form reference cycles: clears them one by one.
  ~Environment();
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

  Scope& scope() { return *scope_; }  // the innermost one
  const Value* Find(std::string_view name) const { return scope_->Find(name); }
  // Throws kInput when `value` cannot be unpacked, or for an attribute of what is no namespace.
  void Assign(const Target& target, const Value& value);
  Value MakeNamespace(const Arguments& arguments);
  // The innermost scope, for a macro that is defined here.
  std::shared_ptr<Scope> CaptureScope();

  // Makes a new innermost scope for its own lifetime: inside the current one, or inside the scope
  // where a macro was defined.
  class ScopeGuard {
   public:
    explicit ScopeGuard(Environment& environment) : ScopeGuard(environment, environment.scope_) {}
    ScopeGuard(Environment& environment, const std::shared_ptr<Scope>& parent);
    ~ScopeGuard() { environment_.scope_ = outer_; }
    ScopeGuard(const ScopeGuard&) = delete;
    ScopeGuard& operator=(const ScopeGuard&) = delete;

   private:
    Environment& environment_;
    std::shared_ptr<Scope> outer_;
  };

 private:
  void Unpack(const Target& target, const Value& value);

  Runtime& runtime_;
  std::shared_ptr<Scope> scope_;
  std::vector<std::shared_ptr<Namespace>> namespaces_;
  std::vector<std::shared_ptr<Scope>> captured_;
};

// A function of templates. function(arguments) → Value.
template <typename Function>
Value MakeCallable(std::string name, Function function) {
  auto callable = std::make_shared<Callable>();
  callable->name = std::move(name);
  callable->call = [function](Runtime&, const Arguments& arguments) { return function(arguments); };
  return Value(std::shared_ptr<const Callable>(std::move(callable)));
}

class Evaluator {
 public:
  Evaluator(Runtime& runtime, Environment& environment)
      : runtime_(runtime), environment_(environment) {}

  Value Eval(const Expr& e);

 private:
  Value EvalName(const Expr& e);
  std::vector<Value> EvalAll(const Expr& e);
  Value EvalDict(const Expr& e);
  Value EvalUnary(const Expr& e);
  Value EvalBinary(const Expr& e);
  Value EvalCompare(const Expr& e);
  Value EvalConditional(const Expr& e);
  Value EvalAttribute(const Expr& e);
  Value EvalItem(const Expr& e);
  Value EvalSlice(const Expr& e);
  Value EvalFilter(const Expr& e);
  Value EvalTest(const Expr& e);
  // Children from 1 on; the last names.size() of them are named.
  Arguments EvalArguments(const Expr& e);
  Value EvalCall(const Expr& e);

  Runtime& runtime_;
  Environment& environment_;
};

}  // namespace banyan::jinja
