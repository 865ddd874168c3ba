// A named tensor as a file stores it: a view of bytes that something else (a mapped file) owns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tensor/dtype.h"

namespace banyan {

struct HostTensor {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::int64_t>
      shape;  // outermost first: [rows, columns] for a matrix, any file format
  std::span<const std::byte> bytes;  // exactly the bytes that shape and dtype need

  std::int64_t columns() const { return shape.empty() ? 1 : shape.back(); }
  std::int64_t rows() const {  // product of all but the last dimension
    std::int64_t n = 1;
    for (size_t i = 0; i + 1 < shape.size(); ++i) n *= shape[i];
    return n;
  }
};

// "[64, 160]", for messages.
std::string ShapeText(std::span<const std::int64_t> shape);

}  // namespace banyan
