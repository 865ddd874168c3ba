#include "kernels/cpu/packed_matrix.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "tensor/narrow_floats.h"

namespace banyan {
namespace {

// Whatever the number of rows and columns, each row stands in its lane, and the lanes of rows that
// there are not are zero.
TEST(PackedMatrix, HasEveryRowInItsLane) {
  std::mt19937 random(3);
  ThreadPool pool(2);
  for (const DType type : {DType::kF16, DType::kBF16, DType::kF32}) {
    for (const std::int64_t rows : {1, 7, 8, 9, 16, 23, 24, 40}) {
      for (const std::int64_t columns : {1, 7, 8, 19, 64}) {
        std::vector<float> values;
        std::vector<std::byte> bytes;
        for (std::int64_t i = 0; i < rows * columns; ++i) {
          const float value = static_cast<float>(random() % 512) / 4.0f + 1.0f;
          const std::uint16_t half = type == DType::kF16 ? FloatToF16(value) : FloatToBF16(value);
          values.push_back(type == DType::kF32   ? value
                           : type == DType::kF16 ? F16ToFloat(half)
                                                 : BF16ToFloat(half));
          const size_t size = type == DType::kF32 ? sizeof(value) : sizeof(half);
          bytes.resize(bytes.size() + size);
          const void* from = type == DType::kF32 ? static_cast<const void*>(&value) : &half;
          std::memcpy(bytes.data() + bytes.size() - size, from, size);
        }
        const HostTensor tensor{"w", type, {rows, columns}, bytes};
        const HostTensor* whole = &tensor;
        std::vector<std::int32_t> order;  // the last row first
        for (std::int64_t row = rows; row-- > 0;) order.push_back(static_cast<std::int32_t>(row));
        const auto packed = PackMatrix(std::span(&whole, 1), order, {.keep_compact = true}, pool);
        std::vector<float> found(static_cast<size_t>(columns));
        for (std::int64_t row = 0; row < rows; ++row) {
          UnpackRow(*packed, row, found.data());
          const auto wanted = values.begin() + (rows - 1 - row) * columns;
          EXPECT_TRUE(std::equal(found.begin(), found.end(), wanted)) << rows << ' ' << columns;
        }
        const PackedPart& part = packed->parts.front();
        for (std::int64_t lane = (rows - 1) % kPanelWidth + 1; lane < kPanelWidth; ++lane) {
          const std::int64_t last = (part.panels() - 1) * columns * kPanelWidth + lane;
          const auto at = static_cast<size_t>(last);
          EXPECT_EQ(type == DType::kF32 ? part.f32[at] : static_cast<float>(part.half[at]), 0.0f);
        }
      }
    }
  }
}

}  // namespace
}  // namespace banyan
