// What lies behind the opaque handles of ShardedKernels: a handle of each shard's backend.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "kernels/kernels.h"
#include "kernels/shards/division.h"

namespace banyan {

// Activations: every shard has all of them, with the same bits.
struct ShardedActivations {
  std::vector<Tensor> of_shard;
};

// The shard's memory with the rows and columns of `x`.
inline Tensor OfShard(const Tensor& x, size_t shard) {
  const auto& all = *static_cast<const ShardedActivations*>(x.memory.get());
  return {all.of_shard[shard].memory, x.rows, x.columns};
}

class ShardedMatrix : public Matrix {
 public:
  std::vector<std::shared_ptr<const Matrix>> of_shard;  // null where a shard has no rows
  // [shards] of a divided matrix; otherwise empty, and every shard has all of it.
  std::vector<std::vector<RowPiece>> pieces;
  bool in_halves = false;  // divided, in two equal blocks: a gate and what it multiplies

  bool divided() const { return !pieces.empty(); }
};
inline const ShardedMatrix& AsSharded(const Matrix& matrix) {
  return static_cast<const ShardedMatrix&>(matrix);
}

class ShardedVector : public Vector {
 public:
  std::vector<std::shared_ptr<const Vector>> of_shard;  // all values
  std::vector<float> values;
  // Parts for the one matrix, or the one layer's heads, that the vector belongs to: made when they
  // are first needed.
  mutable std::vector<std::shared_ptr<const Vector>> parts;
};
inline const ShardedVector& AsSharded(const Vector& vector) {
  return static_cast<const ShardedVector&>(vector);
}

class ShardedKv : public KvMemory {
 public:
  KvShape shape;
  std::vector<std::shared_ptr<KvMemory>> of_shard;
};
inline const ShardedKv& AsSharded(const KvMemory& kv) { return static_cast<const ShardedKv&>(kv); }

class ShardedStates : public StateMemory {
 public:
  std::vector<std::shared_ptr<StateMemory>> of_shard;  // all of them, each
};
inline ShardedStates& AsSharded(StateMemory& states) { return static_cast<ShardedStates&>(states); }

class ShardedStep : public StepInputs {
 public:
  std::vector<std::unique_ptr<StepInputs>> of_shard;
};
inline const ShardedStep& AsSharded(const StepInputs& step) {
  return static_cast<const ShardedStep&>(step);
}

// Every shard makes all choices, so that its next step knows the tokens. They are taken from all:
// none is behind by more than the others.
class ShardedChoices : public PendingChoices {
 public:
  std::vector<std::unique_ptr<PendingChoices>> of_shard;
  const std::vector<TokenChoice>& Take() override {
    for (const auto& own : of_shard) taken_ = &own->Take();
    return *taken_;
  }

 private:
  const std::vector<TokenChoice>* taken_ = nullptr;
};
inline const ShardedChoices* AsSharded(const PendingChoices* choices) {
  return static_cast<const ShardedChoices*>(choices);
}

class ShardedLowRank : public LowRankTable {
 public:
  std::vector<std::shared_ptr<const LowRankTable>> of_shard;  // all of it, each
};

class ShardedExperts : public ExpertTable {
 public:
  std::vector<std::shared_ptr<const ExpertTable>> of_shard;  // all of them, each
};

}  // namespace banyan
