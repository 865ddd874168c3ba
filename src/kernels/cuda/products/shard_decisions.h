// What the shards of this process have decided about products: theirs have the same shapes, so one
// decides for all. Bits are compared on every device all the same.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "kernels/cuda/products/product_selection.h"

namespace banyan::cuda {

class ShardDecisions {
 public:
  struct Decided {
    ProductCandidate candidate;
    bool guessed = false;
    int ordinal = 0;  // of the device that compared it
  };

  static ShardDecisions& OfProcess() {
    static ShardDecisions all;
    return all;
  }

  std::optional<Decided> Find(const std::string& key) {
    const std::lock_guard lock(mutex_);
    const auto it = decided_.find(key);
    return it == decided_.end() ? std::nullopt : std::optional(it->second);
  }
  void Keep(const std::string& key, const Decided& decided) {
    const std::lock_guard lock(mutex_);
    decided_[key] = decided;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, Decided> decided_;
};

}  // namespace banyan::cuda
