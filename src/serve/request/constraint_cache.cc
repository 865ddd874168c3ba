// Compiled constraints by scope, least recently used out first.
#include "serve/request/constraint_cache.h"

#include <fmt/format.h>
#include <algorithm>

#include "base/error.h"
#include "serve/request/api_error.h"

namespace banyan {
namespace {

constexpr size_t kConstraintsKept = 32;              // of a scope
constexpr size_t kMaskBytes = std::size_t{8} << 20;  // of a constraint

// About at most: a table with a number for every state and byte, and the masks that were made.
size_t MostBytesOf(const Constraint& constraint, int vocabulary) {
  constexpr size_t kBytes = 256;
  const size_t mask = static_cast<size_t>(vocabulary) / 8 + sizeof(std::uint32_t);
  return constraint.states() * kBytes * sizeof(std::uint32_t) +
         std::min(kMaskBytes, constraint.masks_computed() * mask);
}

}  // namespace

std::shared_ptr<const Constraint> ConstraintCache::OfSchema(std::uint64_t scope,
                                                            const std::string& schema,
                                                            const std::string& param) {
  return Get(scope, Kind::kSchema, schema, param);
}

std::shared_ptr<const Constraint> ConstraintCache::OfRegex(std::uint64_t scope,
                                                           const std::string& pattern,
                                                           const std::string& param) {
  return Get(scope, Kind::kRegex, pattern, param);
}

size_t ConstraintCache::BytesOf(std::uint64_t scope) {
  const std::lock_guard lock(mutex_);
  return SumOf(recent_[scope]);
}

size_t ConstraintCache::SumOf(const Kept& kept) const {
  size_t bytes = 0;
  for (const auto& [key, constraint] : kept) {
    bytes += MostBytesOf(*constraint, model_->text()->vocab_size());
  }
  return bytes;
}

std::shared_ptr<const Constraint> ConstraintCache::Find(std::uint64_t scope, const Digest& key) {
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
std::shared_ptr<const Constraint> ConstraintCache::Get(std::uint64_t scope, Kind kind,
                                                       const std::string& source,
                                                       const std::string& param) {
  const bool regex = kind == Kind::kRegex;
  const Digest key = Sha256().Add(regex ? "r" : "s").Add(source).Finish();
  if (std::shared_ptr<const Constraint> found = Find(scope, key)) return found;
  ConstraintOptions options;
  options.end_tokens = model_->end_tokens();
  options.mask_bytes = kMaskBytes;
  std::shared_ptr<const Constraint> made;
  try {
    const std::shared_ptr<const TokenTrie> trie = MakeTokenTrie(*model_->text());
    made = regex ? Constraint::FromRegex(source, trie, options)
                 : Constraint::FromJsonSchema(source, trie, options);
  } catch (const Error& error) {
    throw ApiError(400, fmt::format("'{}': {}", param, error.what()), param);
  }
  const std::lock_guard lock(mutex_);
  Kept& kept = recent_[scope];
  kept.emplace_front(key, made);
  // Masks are made as answers are written, so all are measured again.
  while (kept.size() > kConstraintsKept || (!kept.empty() && SumOf(kept) > kMostBytes)) {
    kept.pop_back();
  }
  return made;
}

}  // namespace banyan
