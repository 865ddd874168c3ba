// The state of one rendering, and what evaluates statements (eval.cc), expressions (eval_expr.cc)
// and calls (eval_call.cc).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/eval.h"

namespace banyan::jinja {

// What templates may call beside namespace(). In globals.cc.
Variables GlobalFunctions();

// Variables visible at one place of a template.
struct Scope {
  std::shared_ptr<Scope> parent;  // null for the globals
  Variables variables;

  // Null when no scope from here outwards has the name.
  const Value* Find(std::string_view name) const {
    for (const Scope* scope = this; scope != nullptr; scope = scope->parent.get()) {
      const auto found = scope->variables.find(name);
      if (found != scope->variables.end()) return &found->second;
    }
    return nullptr;
  }
};

class Evaluator {
 public:
  Evaluator(Runtime& runtime, Variables variables);
  // Namespaces and macros' scopes may hold each other in circles: empties them one by one.
  ~Evaluator();
  Evaluator(const Evaluator&) = delete;
  Evaluator& operator=(const Evaluator&) = delete;

  Text Run(const Block& block);

 private:
  enum class Flow { kNext, kBreak, kContinue };

  // A new innermost scope while it lives.
  class ScopeGuard {
   public:
    explicit ScopeGuard(Evaluator& evaluator) : evaluator_(evaluator), outer_(evaluator.scope_) {
      evaluator.scope_ = std::make_shared<Scope>();
      evaluator.scope_->parent = outer_;
    }
    ~ScopeGuard() { evaluator_.scope_ = outer_; }
    ScopeGuard(const ScopeGuard&) = delete;
    ScopeGuard& operator=(const ScopeGuard&) = delete;

   private:
    Evaluator& evaluator_;
    std::shared_ptr<Scope> outer_;
  };

  // Statements.
  Flow Exec(const Block& block);
  Flow ExecOne(const Statement& s);
  void Write(const Text& text);
  void Print(const Value& value);
  Flow ExecIf(const Statement& s);
  Flow ExecFor(const Statement& s);
  std::vector<Value> Filtered(const Statement& s, std::vector<Value> items);
  Text Capture(const Block& body);  // what the body writes
  void Assign(const Target& target, const Value& value);
  void AssignParts(const Target& target, const Value& value);

  // Expressions.
  Value Eval(const Expr& e);
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

  // Calls.
  // Children from 1 on; the last names.size() of them are named.
  Arguments EvalArguments(const Expr& e);
  Value EvalCall(const Expr& e);
  Value MakeNamespace(const Arguments& arguments);
  Value MakeMacro(const Statement& s);
  Value CallMacro(const Statement& s, const std::shared_ptr<Scope>& scope,
                  const Arguments& arguments);
  void BindParameters(const Statement& s, const Arguments& arguments);

  template <typename Function>
  static Value MakeCallable(std::string name, Function function) {
    auto callable = std::make_shared<Callable>();
    callable->name = std::move(name);
    callable->call = [function](Runtime&, const Arguments& arguments) {
      return function(arguments);
    };
    return Value(std::shared_ptr<const Callable>(std::move(callable)));
  }

  Runtime& runtime_;
  std::shared_ptr<Scope> scope_;
  Text out_;
  std::vector<std::shared_ptr<Namespace>> namespaces_;
  std::vector<std::shared_ptr<Scope>> captured_;
};

}  // namespace banyan::jinja
