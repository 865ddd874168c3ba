// The syntax tree of a template, plain data, and the parser that builds it from the source.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/value.h"

namespace banyan::jinja {

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

enum class ExprKind {
  kConstant,     // constant
  kName,         // name
  kList,         // children: items
  kTuple,        // children: items
  kDict,         // children: key, value, key, value…
  kUnary,        // name: "-", "+" or "not"; children: operand
  kBinary,       // name: operator, "and", "or" or "~"; children: left, right
  kCompare,      // children: first, then one per entry of names ("==", "in", "not in"…)
  kConditional,  // children: condition, then, otherwise (null: undefined)
  kAttribute,    // name; children: object
  kItem,         // children: object, key
  kSlice,        // children: object, begin, end, step (null where absent)
  kCall,         // children: function, then arguments
  kFilter,       // name; children: input, then arguments
  kTest,         // name; children: input, then arguments
};

struct Expr {
  ExprKind kind;
  int line;
  int depth = 1;  // of the tree below, bounded by Limits::nesting
  std::string name;
  Value constant;
  std::vector<ExprPtr> children;
  // kCompare: the operators. kCall, kFilter, kTest: the last names.size() arguments are named so.
  std::vector<std::string> names;
};

struct Statement;
using Block = std::vector<Statement>;

// What `set`, `for` and macros assign to: a name, namespace.attribute, or several of them.
struct Target {
  std::string name;
  std::string attribute;  // of the namespace `name`; empty for a plain name
  std::vector<Target> parts;
};

enum class StatementKind {
  kText,      // text
  kPrint,     // expr
  kIf,        // branches; body: else
  kFor,       // target, expr, condition (or null); body, otherwise
  kSet,       // target, expr
  kSetBlock,  // target; body
  kMacro,     // target.name, parameters, defaults; body
  kScope,     // {% generation %}: body
  kBreak,
  kContinue,
};

struct Branch;

struct Statement {
  StatementKind kind = StatementKind::kText;
  int line = 0;
  Text text;
  ExprPtr expr;
  ExprPtr condition;
  Target target;
  std::vector<std::string> parameters;
  std::vector<ExprPtr> defaults;  // one per parameter, null where there is none
  std::vector<Branch> branches;
  Block body;
  Block otherwise;
};

struct Branch {
  ExprPtr condition;
  Block body;
};

// Throws kFormat for bad syntax, kUnsupported for tags outside the subset, kLimit when the source
// is too long or nests too deeply. The message names the line.
Block ParseTemplate(std::string_view source, const Limits& limits);

}  // namespace banyan::jinja
