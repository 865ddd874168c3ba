#include "text/jinja/eval.h"

#include <algorithm>
#include <utility>

#include "text/jinja/filters.h"
#include "text/jinja/globals.h"
#include "text/jinja/ops.h"
#include "text/jinja/print.h"
#include "text/jinja/scope.h"

namespace banyan::jinja {
namespace {

enum class Flow { kNext, kBreak, kContinue };

class Evaluator {
 public:
  Evaluator(Runtime& runtime, Variables variables) : runtime_(runtime) {
    auto globals = std::make_shared<Scope>();
    globals->variables = GlobalFunctions();
    globals->variables.emplace("namespace", MakeCallable("namespace", [this](const Arguments& a) {
                                 return MakeNamespace(a);
                               }));
    scope_ = std::make_shared<Scope>();
    scope_->parent = std::move(globals);
    scope_->variables = std::move(variables);
  }
  // Namespaces and macros' scopes may hold each other in circles: empty them one by one.
  ~Evaluator() {
    for (const auto& space : namespaces_) space->attributes.clear();
    for (const auto& scope : captured_) scope->variables.clear();
  }
  Evaluator(const Evaluator&) = delete;
  Evaluator& operator=(const Evaluator&) = delete;

  Text Run(const Block& block) {
    Exec(block);
    return std::move(out_);
  }

 private:
  // Statements.

  Flow Exec(const Block& block) {
    const DepthScope depth(runtime_);
    for (const Statement& statement : block) {
      const Flow flow = ExecOne(statement);
      if (flow != Flow::kNext) return flow;
    }
    return Flow::kNext;
  }

  Flow ExecOne(const Statement& s) {
    runtime_.line = s.line;
    runtime_.Step();
    switch (s.kind) {
      case StatementKind::kText:
        Write(s.text);
        break;
      case StatementKind::kPrint:
        Print(Eval(*s.expr));
        break;
      case StatementKind::kIf:
        return ExecIf(s);
      case StatementKind::kFor:
        return ExecFor(s);
      case StatementKind::kSet:
        Assign(s.target, Eval(*s.expr));
        break;
      case StatementKind::kSetBlock:
        ExecSetBlock(s);
        break;
      case StatementKind::kMacro:
        Assign(s.target, MakeMacro(s, s.target.name));
        break;
      case StatementKind::kCall:
        Print(EvalCall(*s.expr, &s));
        break;
      case StatementKind::kFilter:
        Print(EvalFilterChain(*s.expr, Capture(s.body)));
        break;
      case StatementKind::kScope:
        return ExecScope(s);
      case StatementKind::kBreak:
        return Flow::kBreak;
      case StatementKind::kContinue:
        return Flow::kContinue;
    }
    return Flow::kNext;
  }

  void Write(const Text& text) {
    runtime_.Bytes(text.size());
    if (out_.size() + text.size() > runtime_.limits.output_bytes) {
      runtime_.Fail(ErrorKind::kLimit, "more than {} bytes of output",
                    runtime_.limits.output_bytes);
    }
    out_.Append(text);
  }

  void Print(const Value& value) {
    if (const Text* text = value.text()) return Write(*text);
    Write(Str(runtime_, value));
  }

  Flow ExecIf(const Statement& s) {
    for (const Branch& branch : s.branches) {
      if (Truthy(Eval(*branch.condition))) return Exec(branch.body);
    }
    return Exec(s.body);
  }

  // A break or continue in the else block belongs to the loop around.
  Flow ExecFor(const Statement& s) {
    std::vector<Value> items = Items(runtime_, Eval(*s.expr));
    if (s.condition != nullptr) items = Filtered(s, std::move(items));
    if (items.empty()) {
      const ScopeGuard guard(*this);
      return Exec(s.otherwise);
    }
    const Value list = MakeList(runtime_, std::move(items));
    auto loop = std::make_shared<Loop>();
    loop->items = std::shared_ptr<const List>(std::make_shared<Value>(list), list.list());
    const Value loop_value{std::shared_ptr<const Loop>(loop)};
    for (; loop->index < loop->items->items.size(); ++loop->index) {
      const ScopeGuard guard(*this);
      Assign(s.target, loop->items->items[loop->index]);
      scope_->variables.insert_or_assign("loop", loop_value);
      if (Exec(s.body) == Flow::kBreak) break;
    }
    return Flow::kNext;
  }

  std::vector<Value> Filtered(const Statement& s, std::vector<Value> items) {
    std::vector<Value> kept;
    for (Value& item : items) {
      const ScopeGuard guard(*this);
      Assign(s.target, item);
      if (Truthy(Eval(*s.condition))) kept.push_back(std::move(item));
    }
    return kept;
  }

  void ExecSetBlock(const Statement& s) {
    Value text(Capture(s.body));
    if (s.expr != nullptr) text = EvalFilterChain(*s.expr, std::move(text));
    Assign(s.target, text);
  }

  Flow ExecScope(const Statement& s) {
    std::vector<Value> values;
    for (const ExprPtr& value : s.defaults) values.push_back(Eval(*value));
    const ScopeGuard guard(*this);
    for (size_t i = 0; i < values.size(); ++i) {
      scope_->variables.insert_or_assign(s.parameters[i], std::move(values[i]));
    }
    return Exec(s.body);
  }

  Text Capture(const Block& body) {
    Text outer = std::exchange(out_, Text());
    {
      const ScopeGuard guard(*this);
      Exec(body);
    }
    return std::exchange(out_, std::move(outer));
  }

  void Assign(const Target& target, const Value& value) {
    if (!target.parts.empty()) return AssignParts(target, value);
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

  void AssignParts(const Target& target, const Value& value) {
    const std::vector<Value> items = Items(runtime_, value);
    if (items.size() != target.parts.size()) {
      runtime_.Fail(ErrorKind::kInput, "expected {} values to unpack, found {}",
                    target.parts.size(), items.size());
    }
    for (size_t i = 0; i < items.size(); ++i) Assign(target.parts[i], items[i]);
  }

  // Functions.

  template <typename Function>
  Value MakeCallable(std::string name, Function function) {
    auto callable = std::make_shared<Callable>();
    callable->name = std::move(name);
    callable->call = [function](Runtime&, const Arguments& arguments) {
      return function(arguments);
    };
    return Value(std::shared_ptr<const Callable>(std::move(callable)));
  }

  Value MakeNamespace(const Arguments& arguments) {
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

  Value MakeMacro(const Statement& s, const std::string& name) {
    captured_.push_back(scope_);
    return MakeCallable(name, [this, &s, name, scope = scope_](const Arguments& arguments) {
      return CallMacro(s, name, scope, arguments);
    });
  }

  Value CallMacro(const Statement& s, const std::string& name, const std::shared_ptr<Scope>& scope,
                  const Arguments& arguments) {
    const DepthScope depth(runtime_);
    const std::shared_ptr<Scope> outer = std::exchange(scope_, scope);
    Text outer_text = std::exchange(out_, Text());
    const int outer_line = runtime_.line;
    {
      const ScopeGuard guard(*this);
      BindParameters(s, name, arguments);
      Exec(s.body);
    }
    scope_ = outer;
    runtime_.line = outer_line;
    return Value(std::exchange(out_, std::move(outer_text)));
  }

  void BindParameters(const Statement& s, const std::string& name, const Arguments& arguments) {
    if (arguments.positional.size() > s.parameters.size()) {
      runtime_.Fail(ErrorKind::kInput, "the macro '{}' takes at most {} arguments, {} given", name,
                    s.parameters.size(), arguments.positional.size());
    }
    Variables& variables = scope_->variables;
    for (size_t i = 0; i < arguments.positional.size(); ++i) {
      variables.insert_or_assign(s.parameters[i], arguments.positional[i]);
    }
    for (const auto& [key, value] : arguments.named) {
      const bool known = key == "caller" || std::find(s.parameters.begin(), s.parameters.end(),
                                                      key) != s.parameters.end();
      if (!known || !variables.emplace(key, value).second) {
        runtime_.Fail(ErrorKind::kInput, "the macro '{}' got an unexpected argument '{}'", name,
                      key);
      }
    }
    for (size_t i = arguments.positional.size(); i < s.parameters.size(); ++i) {
      if (variables.contains(s.parameters[i])) continue;
      Value value =
          s.defaults[i] != nullptr ? Eval(*s.defaults[i]) : Value::MakeUndefined(s.parameters[i]);
      variables.emplace(s.parameters[i], std::move(value));
    }
  }

  // Expressions.

  Value Eval(const Expr& e) {
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
        return EvalCall(e, nullptr);
      case ExprKind::kFilter:
        return EvalFilter(e);
      case ExprKind::kTest:
        return EvalTest(e);
    }
    return Value();
  }

  Value EvalName(const Expr& e) {
    const Value* value = scope_->Find(e.name);
    return value != nullptr ? *value : Value::MakeUndefined(e.name);
  }

  std::vector<Value> EvalAll(const Expr& e) {
    std::vector<Value> items;
    for (const ExprPtr& child : e.children) items.push_back(Eval(*child));
    return items;
  }

  Value EvalDict(const Expr& e) {
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

  Value EvalUnary(const Expr& e) {
    const Value value = Eval(*e.children[0]);
    if (e.name == "not") return Value(!Truthy(value));
    if (e.name == "-") return Negate(runtime_, value);
    if (!value.IsNumber()) Negate(runtime_, value);  // throws
    return value;
  }

  Value EvalBinary(const Expr& e) {
    Value left = Eval(*e.children[0]);
    if (e.name == "and") return Truthy(left) ? Eval(*e.children[1]) : left;
    if (e.name == "or") return Truthy(left) ? left : Eval(*e.children[1]);
    const Value right = Eval(*e.children[1]);
    runtime_.line = e.line;
    return Arithmetic(runtime_, e.name, left, right);
  }

  Value EvalCompare(const Expr& e) {
    Value left = Eval(*e.children[0]);
    for (size_t i = 0; i < e.names.size(); ++i) {
      Value right = Eval(*e.children[i + 1]);
      if (!CompareValues(runtime_, e.names[i], left, right)) return Value(false);
      left = std::move(right);
    }
    return Value(true);
  }

  Value EvalConditional(const Expr& e) {
    if (Truthy(Eval(*e.children[0]))) return Eval(*e.children[1]);
    return e.children[2] != nullptr ? Eval(*e.children[2])
                                    : Value::MakeUndefined("an inline if without else");
  }

  Value EvalAttribute(const Expr& e) {
    const Value object = Eval(*e.children[0]);
    runtime_.line = e.line;
    return GetAttribute(runtime_, object, e.name);
  }

  Value EvalItem(const Expr& e) {
    const Value object = Eval(*e.children[0]);
    const Value key = Eval(*e.children[1]);
    return GetItem(runtime_, object, key);
  }

  Value EvalSlice(const Expr& e) {
    const Value object = Eval(*e.children[0]);
    SliceBounds bounds{None{}, None{}, None{}};
    Value* const targets[] = {&bounds.begin, &bounds.end, &bounds.step};
    for (size_t i = 0; i < 3; ++i) {
      if (e.children[i + 1] != nullptr) *targets[i] = Eval(*e.children[i + 1]);
    }
    return GetSlice(runtime_, object, bounds);
  }

  // Children from 1 on; the last names.size() of them are named.
  Arguments EvalArguments(const Expr& e) {
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

  // `block`: the {% call %} block around, whose body becomes caller().
  Value EvalCall(const Expr& e, const Statement* block) {
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
    Arguments arguments = EvalArguments(e);
    if (block != nullptr) arguments.named.emplace_back("caller", MakeMacro(*block, "caller"));
    if (function.IsUndefined()) FailUndefined(runtime_, function);
    if (function.callable() == nullptr) {
      runtime_.Fail(ErrorKind::kInput, "a value of type {} cannot be called", function.TypeName());
    }
    return function.callable()->call(runtime_, arguments);
  }

  Value EvalFilter(const Expr& e) {
    const Value input = Eval(*e.children[0]);
    const Arguments arguments = EvalArguments(e);
    return ApplyFilter(runtime_, e.name, input, arguments);
  }

  // A chain whose innermost filter has no input of its own.
  Value EvalFilterChain(const Expr& e, Value input) {
    if (e.children[0] != nullptr) input = EvalFilterChain(*e.children[0], std::move(input));
    return ApplyFilter(runtime_, e.name, input, EvalArguments(e));
  }

  Value EvalTest(const Expr& e) {
    const Value input = Eval(*e.children[0]);
    const Arguments arguments = EvalArguments(e);
    return Value(ApplyTest(runtime_, e.name, input, arguments));
  }

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

  Runtime& runtime_;
  std::shared_ptr<Scope> scope_;
  Text out_;
  std::vector<std::shared_ptr<Namespace>> namespaces_;
  std::vector<std::shared_ptr<Scope>> captured_;
};

}  // namespace

Text Render(Runtime& runtime, const Block& block, Variables variables) {
  return Evaluator(runtime, std::move(variables)).Run(block);
}

}  // namespace banyan::jinja
