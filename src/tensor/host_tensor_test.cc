#include "tensor/host_tensor.h"

#include <gtest/gtest.h>

namespace banyan {
namespace {

TEST(DType, RowBytesCountsBlocks) {
  EXPECT_EQ(RowBytes(DType::kF32, 3), 12u);
  EXPECT_EQ(RowBytes(DType::kBF16, 3), 6u);
  EXPECT_EQ(RowBytes(DType::kQ4_0, 64), 36u);
  EXPECT_EQ(RowBytes(DType::kQ6_K, 512), 420u);
  EXPECT_EQ(RowBytes(DType::kIQ4_NL, 0), 0u);
  EXPECT_STREQ(TraitsOf(DType::kIQ4_NL).name, "IQ4_NL");
}

TEST(DTypeDeath, PartOfABlockIsABug) { EXPECT_DEATH(RowBytes(DType::kQ4_0, 33), "CHECK failed"); }

TEST(HostTensor, RowsAndColumns) {
  HostTensor tensor;
  EXPECT_EQ(tensor.rows(), 1);
  EXPECT_EQ(tensor.columns(), 1);
  tensor.shape = {2, 3, 5};
  EXPECT_EQ(tensor.rows(), 6);
  EXPECT_EQ(tensor.columns(), 5);
  EXPECT_EQ(ShapeText(tensor.shape), "[2, 3, 5]");
}

}  // namespace
}  // namespace banyan
