// How fast a store's segments come into KV memory.
#pragma once

#include <cstdint>

#include "banyan/kv_store.h"
#include "banyan/model.h"

namespace banyan {

// Seconds for all segments of a model: read as plain files from their beginning to their end, and
// read, checked and put into KV memory; after the system was asked to forget them, and right after
// that.
struct StoreReadTimes {
  std::int64_t bytes = 0;
  double plain_cold = 0.0, load_cold = 0.0, plain_warm = 0.0, load_warm = 0.0;
};
// Throws kNotFound when the store has nothing of the model.
StoreReadTimes MeasureStoreRead(const Model& model, KvStore& store);

}  // namespace banyan
