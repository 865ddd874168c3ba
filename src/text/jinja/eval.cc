// Statements. Expressions are in eval_expr.cc, calls in eval_call.cc.
#include "text/jinja/eval.h"

#include <utility>

#include "text/jinja/evaluator.h"
#include "text/jinja/ops.h"
#include "text/jinja/print.h"

namespace banyan::jinja {

Evaluator::Evaluator(Runtime& runtime, Variables variables) : runtime_(runtime) {
  auto globals = std::make_shared<Scope>();
  globals->variables = GlobalFunctions();
  globals->variables.emplace("namespace", MakeCallable("namespace", [this](const Arguments& a) {
                               return MakeNamespace(a);
                             }));
  scope_ = std::make_shared<Scope>();
  scope_->parent = std::move(globals);
  scope_->variables = std::move(variables);
}

Evaluator::~Evaluator() {
  for (const auto& space : namespaces_) space->attributes.clear();
  for (const auto& scope : captured_) scope->variables.clear();
}

Text Evaluator::Run(const Block& block) {
  Exec(block);
  return std::move(out_);
}

Evaluator::Flow Evaluator::Exec(const Block& block) {
  const DepthScope depth(runtime_);
  for (const Statement& statement : block) {
    const Flow flow = ExecOne(statement);
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Evaluator::Flow Evaluator::ExecOne(const Statement& s) {
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
      Assign(s.target, Capture(s.body));
      break;
    case StatementKind::kMacro:
      Assign(s.target, MakeMacro(s));
      break;
    case StatementKind::kScope: {
      const ScopeGuard guard(*this);
      return Exec(s.body);
    }
    case StatementKind::kBreak:
      return Flow::kBreak;
    case StatementKind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNext;
}

void Evaluator::Write(const Text& text) {
  runtime_.Bytes(text.size());
  if (out_.size() + text.size() > runtime_.limits.output_bytes) {
    runtime_.Fail(ErrorKind::kLimit, "more than {} bytes of output", runtime_.limits.output_bytes);
  }
  out_.Append(text);
}

void Evaluator::Print(const Value& value) {
  if (const Text* text = value.text()) return Write(*text);
  Write(Str(runtime_, value));
}

Evaluator::Flow Evaluator::ExecIf(const Statement& s) {
  for (const Branch& branch : s.branches) {
    if (Truthy(Eval(*branch.condition))) return Exec(branch.body);
  }
  return Exec(s.body);
}

// A break or continue in the else block belongs to the loop around.
Evaluator::Flow Evaluator::ExecFor(const Statement& s) {
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

std::vector<Value> Evaluator::Filtered(const Statement& s, std::vector<Value> items) {
  std::vector<Value> kept;
  for (Value& item : items) {
    const ScopeGuard guard(*this);
    Assign(s.target, item);
    if (Truthy(Eval(*s.condition))) kept.push_back(std::move(item));
  }
  return kept;
}

Text Evaluator::Capture(const Block& body) {
  Text outer = std::exchange(out_, Text());
  {
    const ScopeGuard guard(*this);
    Exec(body);
  }
  return std::exchange(out_, std::move(outer));
}

void Evaluator::Assign(const Target& target, const Value& value) {
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

void Evaluator::AssignParts(const Target& target, const Value& value) {
  const std::vector<Value> items = Items(runtime_, value);
  if (items.size() != target.parts.size()) {
    runtime_.Fail(ErrorKind::kInput, "expected {} values to unpack, found {}", target.parts.size(),
                  items.size());
  }
  for (size_t i = 0; i < items.size(); ++i) Assign(target.parts[i], items[i]);
}

Text Render(Runtime& runtime, const Block& block, Variables variables) {
  return Evaluator(runtime, std::move(variables)).Run(block);
}

}  // namespace banyan::jinja
