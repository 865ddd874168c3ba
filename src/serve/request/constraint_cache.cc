// Compiled constraints by scope, least recently used out first.
#include "serve/request/constraint_cache.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/work_budget.h"
#include "serve/request/api_error.h"

namespace banyan {
namespace {

constexpr size_t kConstraintsKept = 32;              // of a scope
constexpr size_t kMaskBytes = std::size_t{8} << 20;  // of a constraint

}  // namespace

std::shared_ptr<const Constraint> ConstraintCache::OfSchema(std::uint64_t scope,
                                                            const std::string& schema,
                                                            const std::string& param) {
  return Get(scope, "s" + schema, param);
}

std::shared_ptr<const Constraint> ConstraintCache::OfRegex(std::uint64_t scope,
                                                           const std::string& pattern,
                                                           const std::string& param) {
  return Get(scope, "r" + pattern, param);
}

std::shared_ptr<const TokenTrie> ConstraintCache::Trie() {
  std::call_once(trie_made_, [this] { trie_ = MakeTokenTrie(*model_->text()); });
  return trie_;
}

std::shared_ptr<const Constraint> ConstraintCache::Find(std::uint64_t scope,
                                                        const std::string& key) {
  const std::lock_guard lock(mutex_);
  Kept& kept = recent_[scope];
  for (auto it = kept.begin(); it != kept.end(); ++it) {
    if (it->first != key) continue;
    kept.splice(kept.begin(), kept, it);
    return kept.front().second;
  }
  return nullptr;
}

// Compiles without the lock: two threads may compile the same constraint, none waits for another.
std::shared_ptr<const Constraint> ConstraintCache::Get(std::uint64_t scope, const std::string& key,
                                                       const std::string& param) {
  if (std::shared_ptr<const Constraint> found = Find(scope, key)) return found;
  ConstraintOptions options;
  options.end_tokens = model_->end_tokens();
  options.mask_bytes = kMaskBytes;
  std::shared_ptr<const Constraint> made;
  try {
    const std::string source = key.substr(1);
    made = key[0] == 'r' ? Constraint::FromRegex(source, Trie(), options)
                         : Constraint::FromJsonSchema(source, Trie(), options);
  } catch (const WorkStopped&) {
    throw;
  } catch (const Error& error) {
    throw ApiError(400, fmt::format("'{}': {}", param, error.what()), param);
  }
  const std::lock_guard lock(mutex_);
  Kept& kept = recent_[scope];
  kept.emplace_front(key, made);
  if (kept.size() > kConstraintsKept) kept.pop_back();
  return made;
}

}  // namespace banyan
