// Tensors of one group have memory of their own, on every backend; on the CPU groups share it.
#include "kernels/operation_fixture.h"

namespace banyan::optest {
namespace {

using TensorGroups = OperationTest;

TEST_P(TensorGroups, TensorsOfAGroupDoNotTouch) {
  const std::vector<TensorGroup> shapes = {{{3, 5}, {7, 33}, {1, 1}}, {{2, 16}, {40, 17}}};
  std::vector<std::vector<Tensor>> groups = tested_->NewTensorGroups(shapes);
  ASSERT_EQ(groups.size(), shapes.size());
  for (size_t g = 0; g < groups.size(); ++g) {
    ASSERT_EQ(groups[g].size(), shapes[g].size());
    const auto values = [&](size_t i) {
      return RandomMatrix(shapes[g][i].rows, shapes[g][i].columns, static_cast<std::uint32_t>(i));
    };
    for (size_t i = 0; i < groups[g].size(); ++i) {
      Tensor& tensor = groups[g][i];
      ASSERT_EQ(tensor.rows, shapes[g][i].rows);
      ASSERT_EQ(tensor.columns, shapes[g][i].columns);
      const auto step = tested_->Upload(PlainBatch(tensor.rows), EmptyPlan(tensor.rows));
      tested_->Embed(*step, *LoadFloats(*tested_, values(i)), tensor);
    }
    for (size_t i = 0; i < groups[g].size(); ++i) {
      const Tensor alone = Fill(*tested_, values(i));
      EXPECT_EQ(Read(*tested_, groups[g][i]).values, Read(*tested_, alone).values) << g << ' ' << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, TensorGroups, testing::ValuesIn(AllBackends()), BackendName);

TEST(CpuTensorGroups, BeginAtOnePlace) {
  const auto kernels = MakeKernels("cpu", {});
  const std::vector<TensorGroup> shapes = {{{3, 5}, {7, 33}}, {{2, 16}}, {{40, 17}}};
  const auto groups = kernels->NewTensorGroups(shapes);
  EXPECT_EQ(groups[0][0].memory.get(), groups[1][0].memory.get());
  EXPECT_EQ(groups[0][0].memory.get(), groups[2][0].memory.get());
  EXPECT_NE(groups[0][0].memory.get(), groups[0][1].memory.get());
}

}  // namespace
}  // namespace banyan::optest
