// Operations on rows alone, against the reference: Embed, RmsNorm, LayerNorm, Add, Scale, Glu,
// Activate, GatherLogitRows, and the tensors themselves. Outputs start as NaN, so a value left
// unwritten fails.
#include "kernels/operation_fixture.h"

namespace banyan::optest {
namespace {

constexpr int kRows[] = {1, 2, 3, 7, 16, 17, 63, 129};
constexpr int kColumns[] = {1, 8, 33, 80, 257, 576};

using RowOperations = OperationTest;

TEST_P(RowOperations, EmbedGivesTheTableRows) {
  for (const int columns : kColumns) {
    const HostMatrix table = RandomMatrix(29, columns, 1);
    const auto loaded = LoadFloats(*tested_, table);
    EXPECT_EQ(loaded->rows, 29);
    EXPECT_EQ(loaded->columns, columns);
    for (const int rows : kRows) {
      Batch batch = PlainBatch(rows);
      for (int r = 0; r < rows; ++r) batch.tokens[r] = (r * 11 + 28) % 29;
      Tensor out = Poisoned(*tested_, rows, columns);
      tested_->Embed(*tested_->Upload(batch, EmptyPlan(rows)), *loaded, out);
      const HostMatrix found = Read(*tested_, out);
      for (int r = 0; r < rows; ++r) {
        for (int c = 0; c < columns; ++c) {
          const float expected = table.Row(batch.tokens[r])[c];
          ASSERT_NEAR(found.Row(r)[c], expected, std::fabs(expected) * ActivationEps());
        }
      }
    }
  }
}

TEST_P(RowOperations, RmsNorm) {
  for (const int columns : kColumns) {
    const HostMatrix weight = RandomMatrix(1, columns, 2);
    for (const int rows : kRows) {
      const Tensor x = Fill(*tested_, RandomMatrix(rows, columns, 3));
      const HostMatrix x_host = Read(*tested_, x);
      Tensor out = Poisoned(*tested_, rows, columns);
      tested_->RmsNorm(x, *tested_->LoadVector(weight.values), 1e-5f, out);
      Tensor expected = reference_->NewTensor(rows, columns);
      reference_->RmsNorm(Fill(*reference_, x_host), *reference_->LoadVector(weight.values), 1e-5f,
                          expected);
      const HostMatrix wanted = Read(*reference_, expected);
      // A sum of n squares loses at most n roundings, and each value a few more.
      const double relative = columns * kEps32 + 8 * kEps32 + (mixed() ? ActivationEps() : 0.0);
      ExpectNear(Read(*tested_, out), wanted, [&](std::int64_t r, std::int64_t c) {
        return std::fabs(wanted.Row(r)[c]) * relative;
      });
    }
  }
}

TEST_P(RowOperations, RmsNormOfZerosAndOfTinyRowsIsFinite) {
  HostMatrix x = ConstantMatrix(2, 48, 0.0f);
  for (int c = 0; c < 48; ++c) x.values[48 + c] = 1e-20f;
  Tensor out = Poisoned(*tested_, 2, 48);
  tested_->RmsNorm(Fill(*tested_, x), *tested_->LoadVector(std::vector<float>(48, 1.0f)), 1e-6f,
                   out);
  const HostMatrix found = Read(*tested_, out);
  for (int c = 0; c < 48; ++c) {
    EXPECT_EQ(found.Row(0)[c], 0.0f);
    EXPECT_NEAR(found.Row(1)[c], 1e-17, 1e-19);
  }
}

TEST_P(RowOperations, LayerNorm) {
  for (const int columns : kColumns) {
    const HostMatrix weight = RandomMatrix(1, columns, 2), bias = RandomMatrix(1, columns, 9);
    for (const int rows : kRows) {
      HostMatrix x_host = RandomMatrix(rows, columns, 3);
      for (float& v : x_host.values) v = 3.0f * v + 5.0f;  // a mean that must go
      const Tensor x = Fill(*tested_, x_host);
      x_host = Read(*tested_, x);
      Tensor out = Poisoned(*tested_, rows, columns);
      tested_->LayerNorm(x, *tested_->LoadVector(weight.values), *tested_->LoadVector(bias.values),
                         1e-5f, out);
      Tensor expected = reference_->NewTensor(rows, columns);
      reference_->LayerNorm(Fill(*reference_, x_host), *reference_->LoadVector(weight.values),
                            *reference_->LoadVector(bias.values), 1e-5f, expected);
      const HostMatrix found = Read(*tested_, out);
      // The mean loses n roundings of values of about 20, and the spread is about 3 of a row with
      // more than one value; a row of one value is its bias.
      ExpectNear(found, Read(*reference_, expected), [&](std::int64_t, std::int64_t c) {
        const double size = std::fabs(weight.values[c]) * (columns > 1 ? 20.0 : 0.0) + 1.0;
        return size * ((columns + 8) * kEps32 + (mixed() ? ActivationEps() : 0.0));
      });
      Tensor in_place = Fill(*tested_, x_host);
      tested_->LayerNorm(in_place, *tested_->LoadVector(weight.values),
                         *tested_->LoadVector(bias.values), 1e-5f, in_place);
      ExpectSameBits(Read(*tested_, in_place).values, found.values, "in place");
    }
  }
}

TEST_P(RowOperations, LayerNormOfEqualValuesIsTheBias) {
  Tensor out = Poisoned(*tested_, 2, 48);
  tested_->LayerNorm(Fill(*tested_, ConstantMatrix(2, 48, 7.0f)),
                     *tested_->LoadVector(std::vector<float>(48, 2.0f)),
                     *tested_->LoadVector(std::vector<float>(48, 0.5f)), 1e-12f, out);
  ExpectSameBits(Read(*tested_, out).values, ConstantMatrix(2, 48, 0.5f).values, "bias");
}

TEST_P(RowOperations, Add) {
  for (const int columns : kColumns) {
    for (const int rows : kRows) {
      const Tensor delta = Fill(*tested_, RandomMatrix(rows, columns, 4));
      Tensor x = Fill(*tested_, RandomMatrix(rows, columns, 5));
      const HostMatrix delta_host = Read(*tested_, delta);
      const HostMatrix x_host = Read(*tested_, x);
      tested_->Add(delta, x);
      Tensor expected = Fill(*reference_, x_host);
      reference_->Add(Fill(*reference_, delta_host), expected);
      ExpectNear(
          Read(*tested_, x), Read(*reference_, expected), [&](std::int64_t r, std::int64_t c) {
            const double size = std::fabs(x_host.Row(r)[c]) + std::fabs(delta_host.Row(r)[c]);
            return size * ActivationEps();
          });
    }
  }
}

TEST_P(RowOperations, Scale) {
  for (const int columns : kColumns) {
    for (const int rows : kRows) {
      Tensor x = Fill(*tested_, RandomMatrix(rows, columns, 5));
      const HostMatrix before = Read(*tested_, x);
      tested_->Scale(0.22f, x);
      Tensor expected = Fill(*reference_, before);
      reference_->Scale(0.22f, expected);
      ExpectSameBits(Read(*tested_, x).values, Read(*reference_, expected).values, "scaled");
    }
  }
}

TEST_P(RowOperations, ClearGivesZerosWhateverWasThere) {
  for (const int columns : kColumns) {
    Tensor x = Poisoned(*tested_, 7, columns);
    Tensor prefix = x.Prefix(5);
    tested_->Clear(prefix);
    const HostMatrix found = Read(*tested_, x);
    ExpectSameBits(found.Rows(0, 5).values, ConstantMatrix(5, columns, 0.0f).values, "cleared");
    EXPECT_TRUE(std::isnan(found.Row(5)[0])) << "cleared too much";
  }
}

class Gates : public OperationTest {
 protected:
  void Compare(Gate gate, int rows, int columns) {
    HostMatrix host = RandomMatrix(rows, 2 * columns, 6);
    for (float& v : host.values) v *= 4.0f;
    const Tensor x = Fill(*tested_, host);
    host = Read(*tested_, x);
    Tensor out = Poisoned(*tested_, rows, columns);
    tested_->Glu(gate, x, out);
    Tensor expected = reference_->NewTensor(rows, columns);
    reference_->Glu(gate, Fill(*reference_, host), expected);
    // exp(-p) in float32 is off by about |p| + 2 units; GELU's p grows with x³ / 14.
    ExpectNear(
        Read(*tested_, out), Read(*reference_, expected), [&](std::int64_t r, std::int64_t c) {
          const double value = std::fabs(host.Row(r)[c]);
          const double size = value * std::fabs(host.Row(r)[columns + c]);
          const double power = gate == Gate::kSilu ? value : 2 * value * (1 + 0.05 * value * value);
          return size * ((16 + power) * kEps32 + (mixed() ? ActivationEps() : 0.0));
        });
  }
};

TEST_P(Gates, Glu) {
  for (const Gate gate : {Gate::kSilu, Gate::kGeluTanh}) {
    for (const int columns : kColumns) {
      for (const int rows : kRows) Compare(gate, rows, columns);
    }
  }
}

TEST_P(Gates, LargeValuesStayFinite) {
  HostMatrix x{1, 12, {-1e4f, 1e4f, -100.0f, 100.0f, -88.0f, 88.0f, 1, 1, 1, 1, 1, 1}};
  for (const Gate gate : {Gate::kSilu, Gate::kGeluTanh}) {
    Tensor out = Poisoned(*tested_, 1, 6);
    tested_->Glu(gate, Fill(*tested_, x), out);
    const HostMatrix found = Read(*tested_, out);
    for (int c = 0; c < 6; ++c) {
      const double expected = std::max(0.0f, x.values[c]);
      EXPECT_NEAR(found.values[c], expected, expected * 0x1p-8 + 1e-30) << c;
    }
  }
}

TEST_P(RowOperations, Activations) {
  for (const Activation f : {Activation::kGelu, Activation::kTanh}) {
    for (const int columns : kColumns) {
      for (const int rows : kRows) {
        HostMatrix host = RandomMatrix(rows, columns, 6);
        for (float& v : host.values) v *= 4.0f;
        Tensor x = Fill(*tested_, host);
        host = Read(*tested_, x);
        tested_->Activate(f, x);
        Tensor expected = Fill(*reference_, host);
        reference_->Activate(f, expected);
        const HostMatrix wanted = Read(*reference_, expected);
        // The power in a tail is off by as many units as its exponent is large, and may be zero
        // where it has no normal number.
        ExpectNear(Read(*tested_, x), wanted, [&](std::int64_t r, std::int64_t c) {
          const double value = host.Row(r)[c], result = std::fabs(wanted.Row(r)[c]);
          return result * (16 + 2 * value * value) * kEps32 + std::fabs(value) * 0x1p-126;
        });
      }
    }
  }
}

TEST_P(RowOperations, ActivationsOfLargeValues) {
  const HostMatrix host{1, 6, {-1e4f, 1e4f, -20.0f, 20.0f, 0.0f, -0.0f}};
  Tensor x = Fill(*tested_, host), y = Fill(*tested_, host);
  tested_->Activate(Activation::kGelu, x);
  tested_->Activate(Activation::kTanh, y);
  const HostMatrix gelu = Read(*tested_, x), tanh = Read(*tested_, y);
  for (int c = 0; c < 6; ++c) {
    const float expected = std::max(0.0f, host.values[c]);
    EXPECT_NEAR(gelu.values[c], expected, expected * 0x1p-8 + 1e-30) << c;
    EXPECT_NEAR(tanh.values[c], std::tanh(host.values[c]), 1e-6) << c;
  }
}

TEST_P(RowOperations, GatherLogitRows) {
  for (const int columns : kColumns) {
    for (const int rows : kRows) {
      const Tensor x = Fill(*tested_, RandomMatrix(rows, columns, 7));
      Batch batch = PlainBatch(rows);
      for (int r = rows / 3; r < rows; r += 2) batch.logit_rows.push_back(r);
      const auto step = tested_->Upload(batch, EmptyPlan(rows));
      EXPECT_EQ(step->rows, rows);
      ASSERT_EQ(step->logit_rows, static_cast<int>(batch.logit_rows.size()));
      Tensor out = Poisoned(*tested_, step->logit_rows, columns);
      tested_->GatherLogitRows(*step, x, out);
      const HostMatrix source = Read(*tested_, x);
      const HostMatrix found = Read(*tested_, out);
      for (int i = 0; i < step->logit_rows; ++i) {
        ExpectSameBits(found.Row(i), source.Row(batch.logit_rows[i]), "gathered row");
      }
    }
  }
}

// What an operation left for a product (16 bits where mixed) is gathered as it is.
TEST_P(RowOperations, GatherLogitRowsOfProductInputs) {
  for (const int columns : kColumns) {
    Tensor x = Fill(*tested_, RandomMatrix(9, columns, 7));
    Tensor normed = Poisoned(*tested_, 9, columns);
    const auto weight = tested_->LoadVector(std::vector<float>(static_cast<size_t>(columns), 1.0f));
    tested_->RmsNorm(x, *weight, 1e-6f, normed);
    Batch batch = PlainBatch(9);
    batch.logit_rows = {8, 0, 3, 3};
    const auto step = tested_->Upload(batch, EmptyPlan(9));
    Tensor out = Poisoned(*tested_, 4, columns);
    tested_->GatherLogitRows(*step, normed, out);
    const HostMatrix found = Read(*tested_, out);
    const HostMatrix source = Read(*tested_, normed);
    for (int i = 0; i < 4; ++i) {
      ExpectSameBits(found.Row(i), source.Row(batch.logit_rows[i]), "gathered row");
    }
  }
}

TEST_P(RowOperations, PrefixIsTheSameMemory) {
  Tensor x = Fill(*tested_, RandomMatrix(17, 33, 8));
  Tensor prefix = x.Prefix(5);
  tested_->Add(Fill(*tested_, ConstantMatrix(5, 33, 1.0f)), prefix);
  const HostMatrix all = Read(*tested_, x);
  ExpectSameBits(Read(*tested_, prefix).values, all.Rows(0, 5).values, "prefix");
  const Tensor untouched = Fill(*tested_, RandomMatrix(17, 33, 8));
  ExpectSameBits(all.Rows(5, 17).values, Read(*tested_, untouched).Rows(5, 17).values, "rest");
}

INSTANTIATE_TEST_SUITE_P(Backends, Gates, testing::ValuesIn(AllBackends()), BackendName);
INSTANTIATE_TEST_SUITE_P(Backends, RowOperations, testing::ValuesIn(AllBackends()), BackendName);

}  // namespace
}  // namespace banyan::optest
