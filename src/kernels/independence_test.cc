// Rows are independent, bit for bit: of the rows beside them, of the number of threads, and of
// broken numbers in other rows. Attention has its own file, attention_independence_test.cc.
#include <functional>
#include <utility>

#include "kernels/stored_matrix_fixture.h"

namespace banyan::optest {
namespace {

// An operation from rows to rows, with everything else it needs inside.
struct RowOperation {
  std::string name;
  std::int64_t columns = 0;  // of its input
  std::function<HostMatrix(const HostMatrix&)> apply;
};

RowOperation Product(Kernels& kernels, const BlockLayout& layout, int outputs, int columns) {
  const auto weights = Load(kernels, *RandomStored(layout, outputs, columns, 3));
  const auto bias = kernels.LoadVector(RandomMatrix(1, outputs, 4).values);
  return {std::string("MatMul ") + TraitsOf(layout.type).name + " " + std::to_string(columns) +
              " -> " + std::to_string(outputs),
          columns, [&kernels, weights, bias, outputs](const HostMatrix& x) {
            Tensor out = Poisoned(kernels, x.rows, outputs);
            kernels.MatMul(Fill(kernels, x), *weights, bias.get(), out);
            return Read(kernels, out);
          }};
}

// x + W x, with as many outputs as columns.
RowOperation AddedProduct(Kernels& kernels, const BlockLayout& layout, int columns) {
  const auto weights = Load(kernels, *RandomStored(layout, columns, columns, 6));
  const auto bias = kernels.LoadVector(RandomMatrix(1, columns, 7).values);
  return {"MatMulAdd", columns, [&kernels, weights, bias](const HostMatrix& x) {
            Tensor sum = Fill(kernels, x), scratch = Poisoned(kernels, x.rows, x.columns);
            kernels.MatMulAdd(Fill(kernels, x), *weights, bias.get(), scratch, sum);
            return Read(kernels, sum);
          }};
}

RowOperation GluOfProduct(Kernels& kernels, const BlockLayout& layout, int inner, Gate gate) {
  constexpr int columns = 256;
  const auto weights = Load(kernels, *RandomStored(layout, 2 * inner, columns, 8));
  return {"MatMulGlu", columns, [&kernels, weights, inner, gate](const HostMatrix& x) {
            Tensor out = Poisoned(kernels, x.rows, inner);
            Tensor scratch = Poisoned(kernels, x.rows, 2 * inner);
            kernels.MatMulGlu(Fill(kernels, x), {*weights, nullptr, gate}, scratch, out);
            return Read(kernels, out);
          }};
}

std::vector<RowOperation> Operations(Kernels& kernels) {
  std::vector<RowOperation> operations;
  for (const BlockLayout& layout : Layouts()) {
    operations.push_back(Product(kernels, layout, 45, 512));
  }
  operations.push_back(Product(kernels, Layouts()[0], 3, 7));
  operations.push_back(Product(kernels, Layouts()[2], 130, 75));
  for (const BlockLayout& layout : {Layouts()[0], Layouts().back()}) {
    operations.push_back(AddedProduct(kernels, layout, 512));
    for (const Gate gate : {Gate::kSilu, Gate::kGeluTanh}) {
      operations.push_back(GluOfProduct(kernels, layout, 96, gate));
      operations.push_back(GluOfProduct(kernels, layout, 40, gate));
    }
  }
  for (const int columns : {7, 80, 250}) {
    const auto weight = kernels.LoadVector(RandomMatrix(1, columns, 5).values);
    operations.push_back({"RmsNorm", columns, [&kernels, weight](const HostMatrix& x) {
                            Tensor out = Poisoned(kernels, x.rows, x.columns);
                            kernels.RmsNorm(Fill(kernels, x), *weight, 1e-5f, out);
                            return Read(kernels, out);
                          }});
    operations.push_back({"LayerNorm", columns, [&kernels, weight](const HostMatrix& x) {
                            Tensor out = Poisoned(kernels, x.rows, x.columns);
                            kernels.LayerNorm(Fill(kernels, x), *weight, *weight, 1e-5f, out);
                            return Read(kernels, out);
                          }});
    for (const Activation f : {Activation::kGelu, Activation::kTanh}) {
      operations.push_back({"Activate", columns, [&kernels, f](const HostMatrix& x) {
                              Tensor out = Fill(kernels, x);
                              kernels.Activate(f, out);
                              return Read(kernels, out);
                            }});
    }
    for (const Gate gate : {Gate::kSilu, Gate::kGeluTanh}) {
      operations.push_back({"Glu", 2 * columns, [&kernels, gate](const HostMatrix& x) {
                              Tensor out = Poisoned(kernels, x.rows, x.columns / 2);
                              kernels.Glu(gate, Fill(kernels, x), out);
                              return Read(kernels, out);
                            }});
    }
    operations.push_back({"Scale", columns, [&kernels](const HostMatrix& x) {
                            Tensor out = Fill(kernels, x);
                            kernels.Scale(0.22f, out);
                            return Read(kernels, out);
                          }});
    operations.push_back({"Add", columns, [&kernels](const HostMatrix& x) {
                            Tensor sum = Fill(kernels, x);
                            kernels.Add(Fill(kernels, x), sum);
                            return Read(kernels, sum);
                          }});
  }
  return operations;
}

using Independence = OperationTest;

TEST_P(Independence, ARowAloneEqualsTheRowInABatch) {
  for (const RowOperation& operation : Operations(*tested_)) {
    const HostMatrix x = RandomMatrix(129, operation.columns, 41);
    const HostMatrix all = operation.apply(x);
    for (const auto& [begin, end] : std::vector<std::pair<int, int>>{{0, 1},
                                                                     {128, 129},
                                                                     {5, 7},
                                                                     {3, 6},
                                                                     {60, 64},
                                                                     {60, 67},
                                                                     {100, 108},
                                                                     {0, 16},
                                                                     {1, 18},
                                                                     {20, 83}}) {
      const HostMatrix some = operation.apply(x.Rows(begin, end));
      ExpectSameBits(
          some.values, all.Rows(begin, end).values,
          operation.name + " rows " + std::to_string(begin) + ".." + std::to_string(end));
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(Independence, ThreadsDoNotChangeBits) {
  const auto one = Make(GetParam().device, 1);
  const std::vector<RowOperation> single = Operations(*one);
  for (const int threads : {2, 3, 16}) {
    const auto several = Make(GetParam().device, threads);
    const std::vector<RowOperation> operations = Operations(*several);
    for (size_t i = 0; i < operations.size(); ++i) {
      for (const int rows : {1, 5, 67}) {
        const HostMatrix x = RandomMatrix(rows, operations[i].columns, 42);
        ExpectSameBits(operations[i].apply(x).values, single[i].apply(x).values,
                       operations[i].name + " with " + std::to_string(threads) + " threads");
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(Independence, BrokenNumbersStayInTheirRow) {
  for (const RowOperation& operation : Operations(*tested_)) {
    const HostMatrix x = RandomMatrix(9, operation.columns, 43);
    const HostMatrix clean = operation.apply(x);
    HostMatrix broken = x;
    for (std::int64_t c = 0; c < x.columns; ++c) {
      broken.values[static_cast<size_t>(2 * x.columns + c)] = kNaN;
      broken.values[static_cast<size_t>(7 * x.columns + c)] =
          std::numeric_limits<float>::infinity();
    }
    const HostMatrix found = operation.apply(broken);
    for (const int r : {0, 1, 3, 4, 5, 6, 8}) {
      ExpectSameBits(found.Row(r), clean.Row(r), operation.name);
      if (HasFatalFailure()) return;
    }
    if (GetParam().precision == Precision::kF32) {
      EXPECT_TRUE(std::isnan(found.Row(2)[0])) << operation.name << " hides NaN";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, Independence, testing::ValuesIn(AllBackends()), BackendName);

}  // namespace
}  // namespace banyan::optest
