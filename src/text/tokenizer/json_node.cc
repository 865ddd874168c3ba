#include "text/tokenizer/json_node.h"

#include <cmath>
#include <limits>

namespace banyan {

void JsonNode::Expected(std::string_view what) const {
  std::string found = value_->type_name();
  if (value_->is_string())
    found += " '" + value_->get_ref<const std::string&>().substr(0, 64) + "'";
  if (value_->is_number()) found += " " + value_->dump();
  Throw(ErrorKind::kFormat, "{}: expected {}, found {}", place_, what, found);
}

void JsonNode::Unsupported(std::string_view name) const {
  Throw(ErrorKind::kUnsupported, "{}: '{}' is not supported", place_, name.substr(0, 64));
}

std::optional<JsonNode> JsonNode::Find(const std::string& key) const {
  if (!value_->is_object()) Expected("an object");
  const auto it = value_->find(key);
  if (it == value_->end() || it->is_null()) return std::nullopt;
  const bool top = place_.ends_with(':');
  return JsonNode(*it, place_ + (top ? " " : ".") + key);
}

JsonNode JsonNode::Get(const std::string& key) const {
  std::optional<JsonNode> node = Find(key);
  if (!node) {
    Throw(ErrorKind::kFormat, "{}{}{}: missing", place_, place_.ends_with(':') ? " " : ".", key);
  }
  return *std::move(node);
}

JsonNode JsonNode::At(size_t index) const {
  return {(*value_)[index], fmt::format("{}[{}]", place_, index)};
}

std::vector<JsonNode> JsonNode::Elements() const {
  if (!value_->is_array()) Expected("an array");
  std::vector<JsonNode> out;
  out.reserve(value_->size());
  for (size_t i = 0; i < value_->size(); ++i) out.push_back(At(i));
  return out;
}

std::string JsonNode::String() const {
  if (!value_->is_string()) Expected("a string");
  return value_->get<std::string>();
}

bool JsonNode::Bool() const {
  if (!value_->is_boolean()) Expected("true or false");
  return value_->get<bool>();
}

std::int64_t JsonNode::Integer() const {
  if (value_->is_number_unsigned()) {
    const auto n = value_->get<std::uint64_t>();
    if (n > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      Expected("a smaller integer");
    }
    return static_cast<std::int64_t>(n);
  }
  if (!value_->is_number_integer()) Expected("an integer");
  return value_->get<std::int64_t>();
}

double JsonNode::Number() const {
  if (!value_->is_number()) Expected("a number");
  const double n = value_->get<double>();
  if (!std::isfinite(n)) Expected("a finite number");
  return n;
}

std::string JsonNode::StringOr(const std::string& key, std::string fallback) const {
  const std::optional<JsonNode> node = Find(key);
  return node ? node->String() : std::move(fallback);
}

bool JsonNode::BoolOr(const std::string& key, bool fallback) const {
  const std::optional<JsonNode> node = Find(key);
  return node ? node->Bool() : fallback;
}

}  // namespace banyan
