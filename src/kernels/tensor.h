// Opaque handles to backend memory. Only the backend that made one may look inside.
#pragma once

#include <cstdint>
#include <memory>

namespace banyan {

// Activations, row-major. `rows` may be lowered to use a prefix of the memory (Prefix).
struct Tensor {
  std::shared_ptr<void> memory;
  std::int64_t rows = 0;
  std::int64_t columns = 0;

  // The first `n` rows, same memory.
  Tensor Prefix(std::int64_t n) const { return Tensor{memory, n, columns}; }
  // A tensor of fewer columns in the same memory. REQUIRES: as many rows and columns, at most.
  Tensor Narrow(std::int64_t n, std::int64_t few) const { return Tensor{memory, n, few}; }
};

// Weights of a product, [rows, columns] as in y = W x, in the backend's own layout.
class Matrix {
 public:
  virtual ~Matrix() = default;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t bytes = 0;  // resident
};

// A float32 vector of parameters: norm weights, biases.
class Vector {
 public:
  virtual ~Vector() = default;
  std::int64_t size = 0;
};

// Slots for states, each of all layers that keep one (states.h).
class StateMemory {
 public:
  virtual ~StateMemory() = default;
  int slots = 0;
};

// All pages of all layers.
class KvMemory {
 public:
  virtual ~KvMemory() = default;
  int pages = 0;
  std::shared_ptr<StateMemory> states;  // null where no layer keeps a state
};

// Of all layers.
struct PageCopy {
  std::int32_t from = 0, to = 0;
};

// A step's batch and plan in backend memory.
class StepInputs {
 public:
  virtual ~StepInputs() = default;
  int rows = 0;
  int logit_rows = 0;
  // Of Batch::variants: whether some row, and whether every row, is of another one than 0.
  bool adapted = false, all_adapted = false;
};

}  // namespace banyan
