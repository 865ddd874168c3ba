// For the operation tests: backends to test, tensors with known contents, and comparison. Tensors
// are opaque, so they are filled by Embed from a float32 table and read by Download.
// Tests only; not part of the library.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "banyan/error.h"
#include "kernels/kernels.h"

namespace banyan::optest {

inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
inline constexpr double kEps32 = 0x1p-24;  // half a unit in the last place of 1.0

// Row-major values on the host.
struct HostMatrix {
  std::int64_t rows = 0, columns = 0;
  std::vector<float> values;

  std::span<const float> Row(std::int64_t r) const {
    return std::span(values).subspan(static_cast<size_t>(r * columns),
                                     static_cast<size_t>(columns));
  }
  HostMatrix Rows(std::int64_t begin, std::int64_t end) const {
    return {end - begin, columns,
            std::vector<float>(values.begin() + begin * columns, values.begin() + end * columns)};
  }
};

// Normal values; every row a function of (seed, row) alone.
inline HostMatrix RandomMatrix(std::int64_t rows, std::int64_t columns, std::uint32_t seed) {
  HostMatrix m{rows, columns, {}};
  for (std::int64_t r = 0; r < rows; ++r) {
    std::mt19937 generator(seed * 7919u + static_cast<std::uint32_t>(r));
    std::normal_distribution<float> normal;
    for (std::int64_t c = 0; c < columns; ++c) m.values.push_back(normal(generator));
  }
  return m;
}

inline HostMatrix ConstantMatrix(std::int64_t rows, std::int64_t columns, float value) {
  return {rows, columns, std::vector<float>(static_cast<size_t>(rows * columns), value)};
}

inline std::shared_ptr<const Matrix> LoadFloats(Kernels& kernels, const HostMatrix& m) {
  HostTensor tensor;
  tensor.name = "test";
  tensor.shape = {m.rows, m.columns};
  tensor.bytes = std::as_bytes(std::span(m.values));
  const HostTensor* part = &tensor;
  return kernels.LoadMatrix(std::span(&part, 1), {});
}

// A batch of `rows` rows that feeds tokens 0, 1, 2, … at positions 0, 1, 2, … .
inline Batch PlainBatch(std::int64_t rows) {
  Batch batch;
  batch.tokens.resize(static_cast<size_t>(rows));
  std::iota(batch.tokens.begin(), batch.tokens.end(), 0);
  batch.positions = batch.tokens;
  batch.slots = batch.tokens;
  return batch;
}

inline AttentionPlan EmptyPlan(std::int64_t rows) {
  AttentionPlan plan;
  plan.merge_begin.assign(static_cast<size_t>(rows) + 1, 0);
  return plan;
}

inline Tensor Fill(Kernels& kernels, const HostMatrix& m) {
  Tensor tensor = kernels.NewTensor(m.rows, m.columns);
  const auto step = kernels.Upload(PlainBatch(m.rows), EmptyPlan(m.rows));
  kernels.Embed(*step, *LoadFloats(kernels, m), tensor);
  return tensor;
}

// An output that shows every value that was not written.
inline Tensor Poisoned(Kernels& kernels, std::int64_t rows, std::int64_t columns) {
  return Fill(kernels, ConstantMatrix(rows, columns, kNaN));
}

inline HostMatrix Read(Kernels& kernels, const Tensor& tensor) {
  HostMatrix m = ConstantMatrix(tensor.rows, tensor.columns, kNaN);
  for (std::int64_t r = 0; r < tensor.rows; ++r) {
    kernels.Download(tensor, r,
                     std::span(m.values).subspan(static_cast<size_t>(r * tensor.columns),
                                                 static_cast<size_t>(tensor.columns)));
  }
  return m;
}

inline double MaxAbs(std::span<const float> x) {
  double largest = 0.0;
  for (const float v : x) largest = std::max(largest, std::fabs(double{v}));
  return largest;
}

inline double Norm(std::span<const float> x) {
  double sum = 0.0;
  for (const float v : x) sum += double{v} * v;
  return std::sqrt(sum);
}

// `tolerance(row, column)` bounds the difference; a NaN is never near.
template <typename Tolerance>
void ExpectNear(const HostMatrix& found, const HostMatrix& expected, Tolerance tolerance) {
  ASSERT_EQ(found.rows, expected.rows);
  ASSERT_EQ(found.columns, expected.columns);
  for (std::int64_t r = 0; r < found.rows; ++r) {
    for (std::int64_t c = 0; c < found.columns; ++c) {
      const float a = found.Row(r)[c];
      const float b = expected.Row(r)[c];
      ASSERT_LE(std::fabs(double{a} - b), tolerance(r, c))
          << "row " << r << " of " << found.rows << ", column " << c << ": found " << a
          << ", expected " << b;
    }
  }
}

inline void ExpectSameBits(std::span<const float> found, std::span<const float> expected,
                           const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(std::bit_cast<std::uint32_t>(found[i]), std::bit_cast<std::uint32_t>(expected[i]))
        << what << ", value " << i << ": " << found[i] << " and " << expected[i];
  }
}

// A backend with its options, as a test parameter.
struct Backend {
  std::string device;
  Precision precision = Precision::kF32;
  KvType kv_type = KvType::kF32;
};

inline bool IsAvailable(const std::string& device) {
  try {
    MakeKernels(device, {});
    return true;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUnsupported) throw;
    return false;
  }
}

// All that this build and machine have.
inline std::vector<Backend> AllBackends() {
  std::vector<Backend> backends;
  for (const char* device : {"reference", "cpu", "cuda"}) {
    if (!IsAvailable(device)) continue;
    backends.push_back({device, Precision::kF32, KvType::kF32});
    for (const KvType type : {KvType::kF16, KvType::kBF16, KvType::kQ8}) {
      backends.push_back({device, Precision::kMixed, type});
    }
  }
  return backends;
}

// For tests of many plans that take minutes: of the reference, whose sums do not know how a key was
// stored, one plain type and the one with scales. AttentionTest has all.
inline std::vector<Backend> BackendsOfManyPlans() {
  std::vector<Backend> backends = AllBackends();
  std::erase_if(backends, [](const Backend& backend) {
    return backend.device == "reference" &&
           (backend.kv_type == KvType::kF16 || backend.kv_type == KvType::kBF16);
  });
  return backends;
}

inline std::string NameOf(const Backend& backend) {
  static const char* const kTypes[] = {"f32", "f16", "bf16", "q8"};
  return backend.device + (backend.precision == Precision::kF32 ? "_f32_" : "_mixed_") +
         kTypes[static_cast<int>(backend.kv_type)];
}

inline void PrintTo(const Backend& backend, std::ostream* out) { *out << NameOf(backend); }

inline std::string BackendName(const testing::TestParamInfo<Backend>& info) {
  return NameOf(info.param);
}

// Relative rounding of one stored KV value; for kQ8 relative to the head's largest.
inline double KvEps(KvType type) {
  switch (type) {
    case KvType::kF32:
      return kEps32;
    case KvType::kF16:
      return 0x1p-11;
    case KvType::kBF16:
      return 0x1p-8;
    case KvType::kQ8:
      return 1.0 / 254;
  }
  return 0.0;
}

// Holds the backend of the parameter and the reference with the same options.
class OperationTest : public testing::TestWithParam<Backend> {
 protected:
  void SetUp() override {
    tested_ = Make(GetParam().device, 0);
    reference_ = Make("reference", 1);
  }

  std::unique_ptr<Kernels> Make(const std::string& device, int threads) const {
    return MakeKernels(device, {GetParam().precision, GetParam().kv_type, threads});
  }
  bool mixed() const { return GetParam().precision == Precision::kMixed; }

  // Largest error of one activation that a backend may keep in fewer bits: bf16 when mixed.
  double ActivationEps() const { return mixed() ? 0x1p-8 : kEps32; }

  std::unique_ptr<Kernels> tested_, reference_;
};

}  // namespace banyan::optest
