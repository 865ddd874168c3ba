// Executes the statements of a template: output, loops, assignments, macros.
#include "text/jinja/render.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/evaluator.h"
#include "text/jinja/operators.h"

namespace banyan::jinja {
namespace {

// Executes statements and collects what they write.
class Renderer {
 public:
  Renderer(Runtime& runtime, Variables variables)
      : runtime_(runtime),
        environment_(runtime, std::move(variables)),
        expressions_(runtime, environment_) {}

  Text Run(const Block& block) {
    Exec(block);
    return std::move(out_);
  }

 private:
  enum class Flow { kNext, kBreak, kContinue };
  using ScopeGuard = Environment::ScopeGuard;

  Flow Exec(const Block& block);
  Flow ExecOne(const Statement& s);
  Flow ExecIf(const Statement& s);
  Flow ExecFor(const Statement& s);
  std::vector<Value> Filtered(const Statement& s, std::vector<Value> items);
  void Write(const Text& text);
  void Print(const Value& value);
  Text Capture(const Block& body);  // what the body writes
  Value MakeMacro(const Statement& s);
  Value CallMacro(const Statement& s, const std::shared_ptr<Scope>& scope,
                  const Arguments& arguments);
  void BindParameters(const Statement& s, const Arguments& arguments);
  Value Eval(const Expr& e) { return expressions_.Eval(e); }

  Runtime& runtime_;
  Environment environment_;
  Evaluator expressions_;
  Text out_;
};

Renderer::Flow Renderer::Exec(const Block& block) {
  const DepthScope depth(runtime_);
  for (const Statement& statement : block) {
    const Flow flow = ExecOne(statement);
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Renderer::Flow Renderer::ExecOne(const Statement& s) {
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
      environment_.Assign(s.target, Eval(*s.expr));
      break;
    case StatementKind::kSetBlock:
      environment_.Assign(s.target, Capture(s.body));
      break;
    case StatementKind::kMacro:
      environment_.Assign(s.target, MakeMacro(s));
      break;
    case StatementKind::kScope: {
      const ScopeGuard guard(environment_);
      return Exec(s.body);
    }
    case StatementKind::kBreak:
      return Flow::kBreak;
    case StatementKind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNext;
}

void Renderer::Write(const Text& text) {
  runtime_.Bytes(text.size());
  if (out_.size() + text.size() > runtime_.limits.output_bytes) {
    runtime_.Fail(ErrorKind::kLimit, "more than {} bytes of output", runtime_.limits.output_bytes);
  }
  out_.Append(text);
}

void Renderer::Print(const Value& value) {
  if (const Text* text = value.text()) return Write(*text);
  Write(Str(runtime_, value));
}

Renderer::Flow Renderer::ExecIf(const Statement& s) {
  for (const Branch& branch : s.branches) {
    if (Truthy(Eval(*branch.condition))) return Exec(branch.body);
  }
  return Exec(s.body);
}

// A break or continue in the else block belongs to the loop around.
Renderer::Flow Renderer::ExecFor(const Statement& s) {
  std::vector<Value> items = Items(runtime_, Eval(*s.expr));
  if (s.condition != nullptr) items = Filtered(s, std::move(items));
  if (items.empty()) {
    const ScopeGuard guard(environment_);
    return Exec(s.otherwise);
  }
  const Value list = MakeList(runtime_, std::move(items));
  auto loop = std::make_shared<Loop>();
  loop->items = std::shared_ptr<const List>(std::make_shared<Value>(list), list.list());
  const Value loop_value{std::shared_ptr<const Loop>(loop)};
  for (; loop->index < loop->items->items.size(); ++loop->index) {
    const ScopeGuard guard(environment_);
    environment_.Assign(s.target, loop->items->items[loop->index]);
    environment_.scope().variables.insert_or_assign("loop", loop_value);
    if (Exec(s.body) == Flow::kBreak) break;
  }
  return Flow::kNext;
}

std::vector<Value> Renderer::Filtered(const Statement& s, std::vector<Value> items) {
  std::vector<Value> kept;
  for (Value& item : items) {
    const ScopeGuard guard(environment_);
    environment_.Assign(s.target, item);
    if (Truthy(Eval(*s.condition))) kept.push_back(std::move(item));
  }
  return kept;
}

Text Renderer::Capture(const Block& body) {
  Text outer = std::exchange(out_, Text());
  {
    const ScopeGuard guard(environment_);
    Exec(body);
  }
  return std::exchange(out_, std::move(outer));
}

Value Renderer::MakeMacro(const Statement& s) {
  return MakeCallable(s.target.name,
                      [this, &s, scope = environment_.CaptureScope()](const Arguments& arguments) {
                        return CallMacro(s, scope, arguments);
                      });
}

Value Renderer::CallMacro(const Statement& s, const std::shared_ptr<Scope>& scope,
                          const Arguments& arguments) {
  const DepthScope depth(runtime_);
  Text outer_text = std::exchange(out_, Text());
  const int outer_line = runtime_.line;
  {
    const ScopeGuard guard(environment_, scope);
    BindParameters(s, arguments);
    Exec(s.body);
  }
  runtime_.line = outer_line;
  return Value(std::exchange(out_, std::move(outer_text)));
}

void Renderer::BindParameters(const Statement& s, const Arguments& arguments) {
  const std::string& name = s.target.name;
  if (arguments.positional.size() > s.parameters.size()) {
    runtime_.Fail(ErrorKind::kInput, "the macro '{}' takes at most {} arguments, {} given", name,
                  s.parameters.size(), arguments.positional.size());
  }
  Variables& variables = environment_.scope().variables;
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

}  // namespace

Text Render(Runtime& runtime, const Block& block, Variables variables) {
  return Renderer(runtime, std::move(variables)).Run(block);
}

}  // namespace banyan::jinja
