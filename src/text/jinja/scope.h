// Variables visible at one place of a template.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "text/jinja/eval.h"

namespace banyan::jinja {

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

}  // namespace banyan::jinja
