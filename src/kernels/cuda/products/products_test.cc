// Products of sizes that the library's algorithms serve (smaller ones go to our own kernel, which
// the operation tests cover): a row has the same bits in every number of rows, so also under every
// algorithm that is chosen for a range of them.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "kernels/operation_fixture.h"

namespace banyan::optest {
namespace {

constexpr std::int64_t kRowCounts[] = {1,  2,   3,   4,   5,   8,   9,   16,  17,  31,  64,  65,
                                       96, 100, 129, 192, 256, 300, 385, 513, 768, 900, 1024};

class CudaProducts : public testing::Test {
 protected:
  void SetUp() override {
    if (!IsAvailable("cuda")) GTEST_SKIP() << "no GPU here, or a build without it";
  }

  void ExpectFormsIndependent(std::int64_t columns);
  void ExpectRowsIndependent(Precision precision, std::int64_t outputs, std::int64_t columns) {
    const KvType type = precision == Precision::kF32 ? KvType::kF32 : KvType::kBF16;
    const auto kernels = MakeKernels("cuda", {precision, type, 0});
    const auto weights = LoadFloats(*kernels, RandomMatrix(outputs, columns, 5));
    const HostMatrix x = RandomMatrix(1024, columns, 6);
    const auto product = [&](std::int64_t begin, std::int64_t end) {
      Tensor out = Poisoned(*kernels, end - begin, outputs);
      kernels->MatMul(Fill(*kernels, x.Rows(begin, end)), *weights, nullptr, out);
      return Read(*kernels, out);
    };
    const HostMatrix all = product(0, 1024);
    for (const std::int64_t count : kRowCounts) {
      for (const std::int64_t begin : {std::int64_t{0}, 1024 - count}) {
        const HostMatrix some = product(begin, begin + count);
        ExpectSameBits(some.values, all.Rows(begin, begin + count).values,
                       std::to_string(count) + " rows, " + std::to_string(columns) + " -> " +
                           std::to_string(outputs));
        if (HasFatalFailure()) return;
      }
    }
  }
};

TEST_F(CudaProducts, ARowHasItsBitsInEveryNumberOfRows) {
  ExpectRowsIndependent(Precision::kMixed, 1024, 512);
  if (HasFatalFailure()) return;
  ExpectRowsIndependent(Precision::kMixed, 1000, 3072);
}

// Large enough for the library, in the forms that are not plain outputs.
void CudaProducts::ExpectFormsIndependent(std::int64_t columns) {
  constexpr std::int64_t kOutputs = 1024, kMost = 300;
  const auto kernels = MakeKernels("cuda", {Precision::kMixed, KvType::kBF16, 0});
  const auto weights = LoadFloats(*kernels, RandomMatrix(kOutputs, columns, 5));
  const HostMatrix a = RandomMatrix(kMost, columns, 6), start = RandomMatrix(kMost, kOutputs, 7);
  const auto added = [&](std::int64_t begin, std::int64_t end) {
    Tensor x = Fill(*kernels, start.Rows(begin, end));
    Tensor scratch = kernels->NewTensor(end - begin, kOutputs);
    kernels->MatMulAdd(Fill(*kernels, a.Rows(begin, end)), *weights, nullptr, scratch, x);
    return Read(*kernels, x);
  };
  const auto gated = [&](std::int64_t begin, std::int64_t end) {
    Tensor scratch = Poisoned(*kernels, end - begin, kOutputs);
    Tensor out = Poisoned(*kernels, end - begin, kOutputs / 2);
    kernels->MatMulGlu(Fill(*kernels, a.Rows(begin, end)), {*weights}, scratch, out);
    return Read(*kernels, out);
  };
  const HostMatrix bias = RandomMatrix(1, kOutputs, 8);
  const auto bias_vector = kernels->LoadVector(bias.values);
  const auto biased = [&](std::int64_t begin, std::int64_t end) {
    Tensor out = Poisoned(*kernels, end - begin, kOutputs);
    kernels->MatMul(Fill(*kernels, a.Rows(begin, end)), *weights, bias_vector.get(), out);
    return Read(*kernels, out);
  };
  const HostMatrix all_added = added(0, kMost), all_gated = gated(0, kMost);
  const HostMatrix all_biased = biased(0, kMost);
  Tensor product = Poisoned(*kernels, kMost, kOutputs), sum = Fill(*kernels, start);
  kernels->MatMul(Fill(*kernels, a), *weights, nullptr, product);
  HostMatrix expected = Read(*kernels, product);
  for (size_t i = 0; i < expected.values.size(); ++i) {
    expected.values[i] += bias.values[i % kOutputs];
  }
  ExpectSameBits(all_biased.values, expected.values, "product, then bias");
  kernels->Add(product, sum);
  ExpectSameBits(all_added.values, Read(*kernels, sum).values, "product, then add");
  for (const std::int64_t count : {1, 2, 4, 5, 8, 9, 16, 17, 33, 64, 65, 100, 129, 200, 256}) {
    for (const std::int64_t begin : {std::int64_t{0}, kMost - count}) {
      const std::string what = std::to_string(count) + " rows from " + std::to_string(begin);
      ExpectSameBits(added(begin, begin + count).values,
                     all_added.Rows(begin, begin + count).values, "added, " + what);
      ExpectSameBits(biased(begin, begin + count).values,
                     all_biased.Rows(begin, begin + count).values, "biased, " + what);
      ExpectSameBits(gated(begin, begin + count).values,
                     all_gated.Rows(begin, begin + count).values, "gated, " + what);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(CudaProducts, EveryFormHasTheSameBitsInEveryNumberOfRows) {
  ExpectFormsIndependent(1040);  // not by the copy engine
  if (HasFatalFailure()) return;
  ExpectFormsIndependent(1088);
}

// Decisions come from a file in the second run, and from a file that lies in the third.
TEST_F(CudaProducts, AFileOfDecisionsChangesNoBit) {
  namespace fs = std::filesystem;
  const fs::path cache =
      fs::temp_directory_path() / ("banyan_products_" + std::to_string(::getpid()));
  fs::remove_all(cache);
  const char* old = std::getenv("BANYAN_CACHE");
  const std::string kept = old == nullptr ? "" : old;
  ::setenv("BANYAN_CACHE", cache.c_str(), 1);
  constexpr std::int64_t kOutputs = 1024, kColumns = 1024, kRows = 100;
  const HostMatrix values = RandomMatrix(kOutputs, kColumns, 5),
                   x = RandomMatrix(kRows, kColumns, 6);
  const auto products = [&] {
    const auto kernels = MakeKernels("cuda", {Precision::kMixed, KvType::kBF16, 0});
    const auto weights = LoadFloats(*kernels, values);
    std::vector<float> all;
    for (const std::int64_t rows : {std::int64_t{1}, std::int64_t{20}, kRows}) {
      Tensor out = Poisoned(*kernels, rows, kOutputs);
      kernels->MatMul(Fill(*kernels, x.Rows(0, rows)), *weights, nullptr, out);
      const HostMatrix found = Read(*kernels, out);
      all.insert(all.end(), found.values.begin(), found.values.end());
    }
    return all;
  };
  const std::vector<float> first = products();
  ASSERT_TRUE(fs::is_directory(cache / "cuda"));
  ASSERT_EQ(std::distance(fs::directory_iterator(cache / "cuda"), {}), 1);
  const fs::path file = fs::directory_iterator(cache / "cuda")->path();
  ExpectSameBits(products(), first, "from the file");
  std::string text;
  {
    std::ifstream in(file);
    text.assign(std::istreambuf_iterator<char>(in), {});
  }
  // As many as the budget for measuring allowed; the others are guesses, which are not kept.
  EXPECT_GE(std::count(text.begin(), text.end(), '\n'), 2) << text;
  EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 4) << text;
  for (const std::string lie :
       {"few rows, half", "few rows, most", "plain", "cublasLt 0", "nonsense"}) {
    std::string lies = text.substr(0, text.find('\n') + 1);
    for (size_t at = lies.size(); at < text.size(); at = text.find('\n', at) + 1) {
      lies += text.substr(at, text.find('\t', at) - at) + "\t" + lie + "\n";
    }
    std::ofstream(file) << lies;
    ExpectSameBits(products(), first, lie);
  }
  if (old == nullptr) {
    ::unsetenv("BANYAN_CACHE");
  } else {
    ::setenv("BANYAN_CACHE", kept.c_str(), 1);
  }
  fs::remove_all(cache);
}

TEST_F(CudaProducts, ARowHasItsBitsInEveryNumberOfRowsInFloat32) {
  ExpectRowsIndependent(Precision::kF32, 520, 576);
}

TEST_F(CudaProducts, TooMuchMemoryIsALimitError) {
  const auto kernels = MakeKernels("cuda", {});
  for (const std::int64_t rows : {std::int64_t{1} << 24, std::int64_t{1} << 40}) {
    try {
      kernels->NewTensor(rows, std::int64_t{1} << 20);
      FAIL() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kLimit) << error.what();
    }
  }
  // The device is still there.
  EXPECT_EQ(Read(*kernels, Fill(*kernels, ConstantMatrix(2, 3, 1.0f))).values.size(), 6u);
}

TEST_F(CudaProducts, RatesAreMeasured) {
  for (const Precision precision : {Precision::kF32, Precision::kMixed}) {
    const KvType type = precision == Precision::kF32 ? KvType::kF32 : KvType::kF16;
    const MachineRates rates = MakeKernels("cuda", {precision, type, 0})->MeasureRates();
    EXPECT_GT(rates.flops_per_second, 1e11);
    EXPECT_GT(rates.bytes_per_second, 1e10);
  }
}

}  // namespace
}  // namespace banyan::optest
