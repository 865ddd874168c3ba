// Low-rank products that are kept apart, against the reference and against themselves: a row's bits
// depend on its own variant alone, and rows without a product stay as they are.
#include "kernels/operation_fixture.h"

namespace banyan::optest {
namespace {

using LowRank = OperationTest;

constexpr std::int64_t kColumns = 72, kOutputs = 96;

// Factors of one part, and the tensors that view them.
struct TestPart {
  TestPart(std::int64_t rank, std::int64_t rows, std::int64_t first, std::uint32_t seed)
      : a(RandomMatrix(rank, kColumns, seed)),
        b(RandomMatrix(rows, rank, seed + 1)),
        first_row(first) {}
  LowRankPart View() {
    a_tensor = {"a", DType::kF32, {a.rows, a.columns}, std::as_bytes(std::span(a.values))};
    b_tensor = {"b", DType::kF32, {b.rows, b.columns}, std::as_bytes(std::span(b.values))};
    return {&a_tensor, &b_tensor, 0.25f, first_row};
  }

  HostMatrix a, b;
  std::int64_t first_row;
  HostTensor a_tensor, b_tensor;
};

// Variant 1 has two parts of the rows with a gap between them, 2 all rows, 3 none, 4 a part that
// begins and ends in the middle of everything, and a rank that is larger than most.
class TestTable {
 public:
  // With `in_all` variant 3 has a part too.
  explicit TestTable(bool in_all = false) {
    if (in_all) variants_[2].emplace_back(3, 50, 20, 9);
  }

  std::shared_ptr<const LowRankTable> Load(Kernels& kernels) {
    std::vector<std::vector<LowRankPart>> views;
    for (std::vector<TestPart>& variant : variants_) {
      std::vector<LowRankPart>& parts = views.emplace_back();
      for (TestPart& part : variant) parts.push_back(part.View());
    }
    return kernels.LoadLowRank({kOutputs, kColumns, views});
  }

  // Bound of |what output n of a row gets|, term by term.
  double Size(std::int32_t variant, std::span<const float> x, std::int64_t n) const {
    double size = 0.0;
    if (variant == 0) return size;
    for (const TestPart& part : variants_[static_cast<size_t>(variant) - 1]) {
      if (n < part.first_row || n >= part.first_row + part.b.rows) continue;
      for (std::int64_t k = 0; k < part.a.rows; ++k) {
        double inner = 0.0;
        for (size_t c = 0; c < x.size(); ++c) inner += std::fabs(double{x[c]} * part.a.Row(k)[c]);
        size += 0.25 * inner * std::fabs(part.b.Row(n - part.first_row)[k]);
      }
    }
    return size;
  }

 private:
  std::vector<std::vector<TestPart>> variants_ = {
      {{4, 24, 0, 1}, {2, 40, 56, 3}}, {{7, 96, 0, 5}}, {}, {{33, 31, 13, 7}}};
};

constexpr int kRows = 29;

// Rows of all variants, alone, in runs, and longer runs than kernels take at once.
std::vector<std::int32_t> MixedVariants() {
  std::vector<std::int32_t> variants = {0, 1, 2, 3, 4, 1, 1, 1, 0, 0, 2, 4};
  for (int i = 0; i < 10; ++i) variants.push_back(4);
  while (variants.size() < kRows)
    variants.push_back(static_cast<std::int32_t>(variants.size()) % 5);
  return variants;
}

Batch BatchOf(const std::vector<std::int32_t>& variants) {
  Batch batch = PlainBatch(static_cast<std::int64_t>(variants.size()));
  batch.variants = variants;
  return batch;
}

// Random values that bf16 holds: a backend may keep what Fill embeds in it.
HostMatrix RandomBf16(std::int64_t rows, std::int64_t columns, std::uint32_t seed) {
  HostMatrix m = RandomMatrix(rows, columns, seed);
  for (float& v : m.values) {
    v = std::bit_cast<float>(std::bit_cast<std::uint32_t>(v) & 0xFFFF0000u);
  }
  return m;
}

struct AddedRows {
  const HostMatrix& x;
  const HostMatrix& out;
  std::vector<std::int32_t> variants;
};

HostMatrix Added(Kernels& kernels, const LowRankTable& table, const AddedRows& rows) {
  const auto count = rows.x.rows;
  const auto step = kernels.Upload(BatchOf(rows.variants), EmptyPlan(count));
  Tensor out = Fill(kernels, rows.out);
  kernels.AddLowRank({*step, StepRows::kAll, table, kernels.NewTensor(count, table.ranks)},
                     Fill(kernels, rows.x), out);
  return Read(kernels, out);
}

TEST_P(LowRank, AddsWhatTheReferenceAdds) {
  TestTable source;
  const auto table = source.Load(*tested_);
  EXPECT_EQ(table->ranks, 33);
  EXPECT_FALSE(table->in_all);
  const std::vector<std::int32_t> variants = MixedVariants();
  const HostMatrix x = RandomMatrix(kRows, kColumns, 11), out = RandomBf16(kRows, kOutputs, 12);
  const HostMatrix found = Added(*tested_, *table, {x, out, variants});
  const HostMatrix expected = Added(*reference_, *source.Load(*reference_), {x, out, variants});
  ExpectNear(found, expected, [&](std::int64_t r, std::int64_t c) {
    const std::int32_t variant = variants[static_cast<size_t>(r)];
    const double size = source.Size(variant, x.Row(r), c);
    return size * (ActivationEps() + kColumns * kEps32) +
           (size > 0.0 ? 2 * kEps32 * (size + std::fabs(out.Row(r)[c])) : 0.0);
  });
}

// An object of an adapted step takes one without adapters.
TEST_P(LowRank, AStepIsUsedAgain) {
  std::unique_ptr<StepInputs> step;
  tested_->Upload(BatchOf({1, 1}), EmptyPlan(2), nullptr, step);
  EXPECT_TRUE(step->adapted && step->all_adapted);
  Batch plain = BatchOf({0, 0});
  plain.variants.clear();
  tested_->Upload(plain, EmptyPlan(2), nullptr, step);
  EXPECT_FALSE(step->adapted || step->all_adapted);
}

TEST_P(LowRank, RowsAreThoseAlone) {
  TestTable source;
  const auto table = source.Load(*tested_);
  const std::vector<std::int32_t> variants = MixedVariants();
  const HostMatrix x = RandomMatrix(kRows, kColumns, 13), out = RandomBf16(kRows, kOutputs, 14);
  const HostMatrix together = Added(*tested_, *table, {x, out, variants});
  for (int r = 0; r < kRows; ++r) {
    const std::int32_t variant = variants[static_cast<size_t>(r)];
    if (variant == 0 || variant == 3) {
      ExpectSameBits(together.Row(r), out.Row(r), "a row that gets nothing");
    }
    if (variant == 0) continue;
    const HostMatrix alone =
        Added(*tested_, *table, {x.Rows(r, r + 1), out.Rows(r, r + 1), {variant}});
    ExpectSameBits(together.Row(r), alone.Row(0), "a row among others and alone");
  }
}

// Rows with logits have the variants of the rows that they were.
TEST_P(LowRank, LogitRowsHaveTheirVariants) {
  TestTable source;
  const auto table = source.Load(*tested_);
  const std::vector<std::int32_t> variants = MixedVariants();
  const HostMatrix x = RandomMatrix(kRows, kColumns, 15), out = RandomMatrix(kRows, kOutputs, 16);
  const HostMatrix all = Added(*tested_, *table, {x, out, variants});
  Batch batch = BatchOf(variants);
  batch.logit_rows = {1, 1, 2, 4, 8, 20, 28};
  HostMatrix chosen_x{7, kColumns, {}}, chosen_out{7, kOutputs, {}};
  for (const std::int32_t row : batch.logit_rows) {
    chosen_x.values.insert(chosen_x.values.end(), x.Row(row).begin(), x.Row(row).end());
    chosen_out.values.insert(chosen_out.values.end(), out.Row(row).begin(), out.Row(row).end());
  }
  const auto step = tested_->Upload(batch, EmptyPlan(kRows));
  Tensor found = Fill(*tested_, chosen_out);
  tested_->AddLowRank({*step, StepRows::kLogits, *table, tested_->NewTensor(kRows, table->ranks)},
                      Fill(*tested_, chosen_x), found);
  const HostMatrix read = Read(*tested_, found);
  for (size_t i = 0; i < batch.logit_rows.size(); ++i) {
    ExpectSameBits(read.Row(static_cast<std::int64_t>(i)), all.Row(batch.logit_rows[i]),
                   "a logit row");
  }
}

// Gate and up with products, in company and alone; rows without one as MatMulGlu leaves them.
void ExpectGlu(Kernels& tested, Kernels& reference, Gate gate, bool in_all, double activation_eps) {
  TestTable source(in_all);
  const auto table = source.Load(tested);
  const HostMatrix weights = RandomMatrix(kOutputs, kColumns, 17);
  const auto w = LoadFloats(tested, weights);
  const std::vector<std::int32_t> variants = MixedVariants();
  const HostMatrix x = RandomMatrix(kRows, kColumns, 18);
  const auto adapted = [&](Kernels& kernels, const LowRankTable& products, const Matrix& matrix,
                           const HostMatrix& input, const std::vector<std::int32_t>& of) {
    const auto rows = input.rows;
    const auto step = kernels.Upload(BatchOf(of), EmptyPlan(rows));
    Tensor scratch = Poisoned(kernels, rows, kOutputs), out = Poisoned(kernels, rows, kOutputs / 2);
    kernels.AdaptedGlu(Fill(kernels, input), {matrix, nullptr, gate},
                       {*step, StepRows::kAll, products, kernels.NewTensor(rows, products.ranks)},
                       scratch, out);
    return Read(kernels, out);
  };
  const HostMatrix together = adapted(tested, *table, *w, x, variants);
  Tensor scratch = Poisoned(tested, kRows, kOutputs), out = Poisoned(tested, kRows, kOutputs / 2);
  tested.MatMulGlu(Fill(tested, x), {*w, nullptr, gate}, scratch, out);
  const HostMatrix without = Read(tested, out);
  const HostMatrix expected =
      adapted(reference, *source.Load(reference), *LoadFloats(reference, weights), x, variants);
  for (int r = 0; r < kRows; ++r) {
    const std::int32_t variant = variants[static_cast<size_t>(r)];
    const bool nothing = variant == 0 || (variant == 3 && !in_all);
    if (nothing) {
      ExpectSameBits(together.Row(r), without.Row(r), "a row that gets nothing");
    }
    if (variant == 0) continue;
    const HostMatrix alone = adapted(tested, *table, *w, x.Rows(r, r + 1), {variant});
    ExpectSameBits(together.Row(r), alone.Row(0), "a row among others and alone");
    if (nothing) continue;
    double largest = 0.0, difference = 0.0;
    for (size_t c = 0; c < kOutputs / 2; ++c) {
      largest = std::max(largest, std::fabs(double{expected.Row(r)[c]}));
      difference = std::max(difference, std::fabs(double{expected.Row(r)[c]} - together.Row(r)[c]));
    }
    EXPECT_LE(difference, largest * 8 * activation_eps + 1e-4);
  }
}

TEST_P(LowRank, GatesFollowTheSum) {
  for (const Gate gate : {Gate::kSilu, Gate::kGeluTanh}) {
    for (const bool in_all : {false, true}) {
      ExpectGlu(*tested_, *reference_, gate, in_all, ActivationEps());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, LowRank, testing::ValuesIn(AllBackends()), BackendName);

}  // namespace
}  // namespace banyan::optest
