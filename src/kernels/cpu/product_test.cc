// What follows a product of quantised weights happens within it, tile by tile: the bits are those
// of the product and the operation after it, for every stored type, one row and more than a tile
// has.
#include "kernels/stored_matrix_fixture.h"

namespace banyan::optest {
namespace {

constexpr int kRowCounts[] = {1, 7, 8, 13, 97, 301};
constexpr int kColumns = 256;

class CpuProducts : public testing::Test {
 protected:
  CpuProducts() : kernels_(MakeKernels("cpu", {Precision::kMixed, KvType::kF16, 2})) {}

  Tensor Product(const HostMatrix& x, const Matrix& w, const Vector* bias) const {
    Tensor out = Poisoned(*kernels_, x.rows, w.rows);
    kernels_->MatMul(Fill(*kernels_, x), w, bias, out);
    return out;
  }

  void ExpectSumOfBoth(const Matrix& w, const Vector* bias, const std::string& what) const {
    for (const int rows : kRowCounts) {
      const HostMatrix x = RandomMatrix(rows, kColumns, 31);
      const HostMatrix start = RandomMatrix(rows, w.rows, 32);
      Tensor found = Fill(*kernels_, start), expected = Fill(*kernels_, start);
      Tensor scratch = Poisoned(*kernels_, rows, w.rows);
      kernels_->MatMulAdd(Fill(*kernels_, x), w, bias, scratch, found);
      kernels_->Add(Product(x, w, bias), expected);
      ExpectSameBits(Read(*kernels_, found).values, Read(*kernels_, expected).values,
                     what + ", " + std::to_string(rows) + " rows");
    }
  }

  void ExpectGateOfBoth(const Matrix& w, const std::string& what) const {
    for (const int rows : kRowCounts) {
      const HostMatrix x = RandomMatrix(rows, kColumns, 33);
      Tensor found = Poisoned(*kernels_, rows, w.rows / 2);
      Tensor expected = Poisoned(*kernels_, rows, w.rows / 2);
      Tensor scratch = Poisoned(*kernels_, rows, w.rows);
      for (const Gate gate : {Gate::kSilu, Gate::kGeluTanh}) {
        kernels_->MatMulGlu(Fill(*kernels_, x), {w, nullptr, gate}, scratch, found);
        kernels_->Glu(gate, Product(x, w, nullptr), expected);
        ExpectSameBits(Read(*kernels_, found).values, Read(*kernels_, expected).values,
                       what + ", " + std::to_string(rows) + " rows");
      }
    }
  }

  std::unique_ptr<Kernels> kernels_;
};

TEST_F(CpuProducts, AddToWhatIsThere) {
  for (const BlockLayout& layout : Layouts()) {
    for (const int outputs : {77, 160}) {  // with a part of a panel at the end, and without
      const std::string what =
          std::string(TraitsOf(layout.type).name) + ", " + std::to_string(outputs) + " outputs";
      const auto stored = RandomStored(layout, outputs, kColumns, 34);
      const auto w = Load(*kernels_, *stored);
      const auto bias = kernels_->LoadVector(RandomMatrix(1, outputs, 35).values);
      ExpectSumOfBoth(*w, nullptr, what);
      ExpectSumOfBoth(*w, bias.get(), what + ", with a bias");
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(CpuProducts, AddWhereSomePartsHaveCodes) {
  const auto floats = RandomStored(Layouts()[2], 32, kColumns, 36);
  const auto codes = RandomStored(Layouts()[7], 48, kColumns, 37);
  const auto nibbles = RandomStored(Layouts()[3], 64, kColumns, 38);
  const HostTensor* mixed[] = {&codes->tensor, &floats->tensor, &nibbles->tensor};
  ExpectSumOfBoth(*kernels_->LoadMatrix(mixed, {}), nullptr, "codes, floats, nibbles");
  const HostTensor* quantized[] = {&nibbles->tensor, &codes->tensor};
  ExpectSumOfBoth(*kernels_->LoadMatrix(quantized, {}), nullptr, "nibbles, codes");
}

TEST_F(CpuProducts, AreGated) {
  for (const BlockLayout& layout : Layouts()) {
    const auto stored = RandomStored(layout, 2 * 144, kColumns, 39);  // more than a tile's panels
    ExpectGateOfBoth(*Load(*kernels_, *stored), TraitsOf(layout.type).name);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace banyan::optest
