// Recently used constraints, compiled: a number and a memory of each scope at most. Their texts are
// not kept. Thread-safe.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "banyan/constrain.h"
#include "banyan/model.h"
#include "base/hash.h"

namespace banyan {

class ConstraintCache {
 public:
  explicit ConstraintCache(std::shared_ptr<const Model> model) : model_(std::move(model)) {}

  // `scope`: scopes share no entries, so that response times reveal nothing about other tenants.
  // Throws ApiError 400 naming the parameter, WorkStopped when the thread's budget is over.
  std::shared_ptr<const Constraint> OfSchema(std::uint64_t scope, const std::string& schema,
                                             const std::string& param);
  std::shared_ptr<const Constraint> OfRegex(std::uint64_t scope, const std::string& pattern,
                                            const std::string& param);
  // Memory of the constraints that are kept for a scope, at most.
  size_t BytesOf(std::uint64_t scope);

  static constexpr size_t kMostBytes = std::size_t{64} << 20;  // of a scope

 private:
  using Kept = std::list<std::pair<Digest, std::shared_ptr<const Constraint>>>;  // latest first
  enum class Kind { kRegex, kSchema };

  std::shared_ptr<const Constraint> Get(std::uint64_t scope, Kind kind, const std::string& source,
                                        const std::string& param);
  std::shared_ptr<const Constraint> Find(std::uint64_t scope, const Digest& key);
  size_t SumOf(const Kept& kept) const;

  const std::shared_ptr<const Model> model_;
  std::mutex mutex_;                      // guards what follows
  std::map<std::uint64_t, Kept> recent_;  // by scope
};

}  // namespace banyan
