// Layers that keep states: every backend against the reference on ugly shapes, and the same bits
// however a path is cut, whatever runs beside it, and with any number of threads.
#include "kernels/states.h"

#include <random>

#include "kernels/operation_fixture.h"

namespace banyan::optest {
namespace {

constexpr int kSlots = 6;

std::vector<StateShape> Shapes() {
  return {
      {StateRule::kConvolution, 1, 2},
      {StateRule::kConvolution, 150, 3},
      {StateRule::kConvolution, 257, 9},
      {StateRule::kDelta, 2 * 1 * 1 + 1, 4, 1, 1, 1, 1},
      {StateRule::kDelta, 2 * 2 * 6 + 4 * 10, 4, 4, 2, 6, 10},
      {StateRule::kDelta, 2 * 3 * 33 + 3 * 70, 2, 3, 3, 33, 70},
      {StateRule::kDelta, 2 * 1 * 128 + 2 * 128, 4, 2, 1, 128, 128},
      {StateRule::kMamba2, 5 * 7 + 2 * 5 * 3, 4, 5, 5, 3, 7},
      {StateRule::kMamba2, 8 * 64 + 2 * 2 * 16, 4, 8, 2, 16, 64},
      {StateRule::kMamba2, 2 * 33 + 2 * 1 * 130, 3, 2, 1, 130, 33},
  };
}

std::string NameOf(const StateShape& shape) {
  return "rule " + std::to_string(static_cast<int>(shape.rule)) + ", " +
         std::to_string(shape.channels) + " channels, " + std::to_string(shape.heads) + " heads";
}

// One layer of random weights; its inputs have the width that the operations read.
class Layer {
 public:
  Layer(Kernels& kernels, const StateShape& shape) : kernels_(kernels), shape_(shape) {
    taps_ = kernels.LoadVector(RandomMatrix(shape.taps, shape.channels, 1).values);
    bias_ = kernels.LoadVector(RandomMatrix(1, shape.channels, 2).values);
    if (shape.heads == 0) return;
    HostMatrix rates = RandomMatrix(1, shape.heads, 3);
    for (float& rate : rates.values) rate = -std::exp(rate);
    rates_ = kernels.LoadVector(rates.values);
    step_bias_ = kernels.LoadVector(RandomMatrix(1, shape.heads, 4).values);
    if (shape.rule == StateRule::kMamba2) {
      skip_ = kernels.LoadVector(RandomMatrix(1, shape.heads, 5).values);
    }
  }

  int inputs() const {
    return shape_.heads == 0 ? 3 * shape_.channels : shape_.channels + 2 * shape_.heads;
  }

  std::shared_ptr<StateMemory> NewStates() const {
    return kernels_.NewStateMemory(shape_, /*layers=*/2, kSlots);
  }

  // What the rows of `x` become in one step; the second layer's state changes.
  HostMatrix Compute(const HostMatrix& x, std::vector<StateRun> runs, StateMemory& states) const {
    Batch batch = PlainBatch(x.rows);
    batch.states = std::move(runs);
    const auto step = kernels_.Upload(batch, EmptyPlan(x.rows));
    const Tensor inputs = Fill(kernels_, x);
    Tensor convolved = Poisoned(kernels_, x.rows, shape_.channels);
    ConvolutionCall convolution{shape_, 1, inputs, *taps_};
    convolution.bias = bias_.get();
    if (shape_.heads == 0) {
      convolution.gate_in = 0;
      convolution.gate_out = shape_.channels;
      convolution.first_column = 2 * shape_.channels;
    } else {
      convolution.silu = true;
    }
    kernels_.Convolve(*step, convolution, states, convolved);
    if (shape_.heads == 0) return Read(kernels_, convolved);
    ScanCall scan{.shape = shape_,
                  .layer = 1,
                  .mixed = convolved,
                  .inputs = inputs,
                  .rates = *rates_,
                  .step_bias = *step_bias_};
    scan.step_column = shape_.channels;
    scan.strength_column = shape_.channels + shape_.heads;
    scan.skip = skip_.get();
    scan.least_step = 0.05f;
    scan.most_step = 1.5f;
    Tensor out = Poisoned(kernels_, x.rows, shape_.values());
    kernels_.Scan(*step, scan, states, out);
    return Read(kernels_, out);
  }

  HostMatrix Whole(const HostMatrix& x) const {
    const auto states = NewStates();
    return Compute(x, {{0, static_cast<std::int32_t>(x.rows), -1, 0}}, *states);
  }

 private:
  Kernels& kernels_;
  const StateShape shape_;
  std::shared_ptr<const Vector> taps_, bias_, rates_, step_bias_, skip_;
};

HostMatrix Stacked(const HostMatrix& above, const HostMatrix& below) {
  HostMatrix all = above;
  all.rows += below.rows;
  all.columns = below.columns;
  all.values.insert(all.values.end(), below.values.begin(), below.values.end());
  return all;
}

// The values of head h where `of[h]` of the original shape stand, in the columns from `first` on.
HostMatrix HeadsOf(const HostMatrix& x, std::int64_t first, int width, const std::vector<int>& of) {
  HostMatrix moved = x;
  for (std::int64_t r = 0; r < x.rows; ++r) {
    const auto at = [&](std::int64_t head) {
      return static_cast<size_t>(r * x.columns + first + head * width);
    };
    for (size_t head = 0; head < of.size(); ++head) {
      std::copy_n(x.values.begin() + static_cast<std::ptrdiff_t>(at(of[head])), width,
                  moved.values.begin() + static_cast<std::ptrdiff_t>(at(static_cast<int>(head))));
    }
  }
  return moved;
}

class StatesTest : public OperationTest {};

TEST_P(StatesTest, AgreeWithTheReference) {
  for (const StateShape& shape : Shapes()) {
    SCOPED_TRACE(NameOf(shape));
    const Layer tested(*tested_, shape), expected(*reference_, shape);
    const HostMatrix x = RandomMatrix(70, tested.inputs(), 11);
    const HostMatrix found = tested.Whole(x), known = expected.Whole(x);
    const double largest = MaxAbs(known.values);
    ASSERT_GT(largest, 0.0);
    ExpectNear(found, known, [&](std::int64_t, std::int64_t) { return 2e-5 * (1.0 + largest); });
  }
}

TEST_P(StatesTest, TiledHeadsAreTheSameInAnotherOrder) {
  constexpr int kHeads = 6, kKeyHeads = 2, kKey = 5, kValue = 7, kRows = 9;
  const StateShape shape{StateRule::kDelta,
                         2 * kKeyHeads * kKey + kHeads * kValue,
                         4,
                         kHeads,
                         kKeyHeads,
                         kKey,
                         kValue};
  StateShape tiled = shape;
  tiled.tiled = true;
  const std::vector<int> of = {0, 3, 1, 4, 2, 5};  // tiled head → where it stands among the others
  const auto values = std::int64_t{2} * kKeyHeads * kKey;
  const HostMatrix mixed = RandomMatrix(kRows, shape.channels, 31);
  const HostMatrix factors = RandomMatrix(kRows, 2 * kHeads, 32);
  const HostMatrix rates = RandomMatrix(1, kHeads, 33);
  const auto scan = [&](const StateShape& own, const HostMatrix& x, const HostMatrix& inputs,
                        HostMatrix own_rates) {
    for (float& rate : own_rates.values) rate = -std::exp(rate);
    const auto rate_vector = tested_->LoadVector(own_rates.values);
    const auto bias = tested_->LoadVector(std::vector<float>(kHeads));
    const auto states = tested_->NewStateMemory(own, /*layers=*/1, /*slots=*/1);
    Batch batch = PlainBatch(kRows);
    batch.states = {{0, kRows, -1, 0}};
    const auto step = tested_->Upload(batch, EmptyPlan(kRows));
    const Tensor mixed_rows = Fill(*tested_, x), input_rows = Fill(*tested_, inputs);
    ScanCall call{.shape = own,
                  .layer = 0,
                  .mixed = mixed_rows,
                  .inputs = input_rows,
                  .rates = *rate_vector,
                  .step_bias = *bias};
    call.strength_column = kHeads;
    Tensor out = Poisoned(*tested_, kRows, own.values());
    tested_->Scan(*step, call, *states, out);
    return Read(*tested_, out);
  };
  const HostMatrix expected = HeadsOf(scan(shape, mixed, factors, rates), 0, kValue, of);
  const HostMatrix found =
      scan(tiled, HeadsOf(mixed, values, kValue, of),
           HeadsOf(HeadsOf(factors, 0, 1, of), kHeads, 1, of), HeadsOf(rates, 0, 1, of));
  ExpectSameBits(found.values, expected.values, "tiled");
}

TEST_P(StatesTest, EveryCutGivesTheSameBits) {
  constexpr int kRows = 37;  // more than a thread takes at once
  for (const StateShape& shape : Shapes()) {
    const Layer layer(*tested_, shape);
    const HostMatrix x = RandomMatrix(kRows, layer.inputs(), 12);
    const HostMatrix whole = layer.Whole(x);
    for (int cut = 1; cut < kRows; ++cut) {
      const auto states = layer.NewStates();
      const std::int32_t to = cut % 2;  // in place, and into another slot
      const HostMatrix first = layer.Compute(x.Rows(0, cut), {{0, cut, -1, 0}}, *states);
      const HostMatrix second =
          layer.Compute(x.Rows(cut, kRows), {{0, kRows - cut, 0, to}}, *states);
      ExpectSameBits(Stacked(first, second).values, whole.values,
                     NameOf(shape) + ", cut at " + std::to_string(cut));
      if (HasFailure()) return;
    }
  }
}

// A stem, two branches and their branches, all in one step, among other paths.
TEST_P(StatesTest, BranchesAreWhatTheyAreAlone) {
  for (const StateShape& shape : Shapes()) {
    for (const int threads : {1, 3}) {
      const auto kernels = Make(GetParam().device, threads);
      const Layer layer(*kernels, shape);
      const HostMatrix other = RandomMatrix(4, layer.inputs(), 13);
      const HostMatrix stem = RandomMatrix(5, layer.inputs(), 14);
      const HostMatrix left = RandomMatrix(3, layer.inputs(), 15);
      const HostMatrix right = RandomMatrix(1, layer.inputs(), 16);
      const HostMatrix below = RandomMatrix(2, layer.inputs(), 17);
      const HostMatrix all = Stacked(Stacked(other, stem), Stacked(left, Stacked(below, right)));
      const auto states = layer.NewStates();
      const HostMatrix out = layer.Compute(
          all, {{0, 4, -1, 0}, {4, 9, -1, 1}, {9, 12, 1, 2}, {12, 14, 2, 3}, {14, 15, 1, 4}},
          *states);
      const HostMatrix path = layer.Whole(Stacked(stem, Stacked(left, below)));
      const HostMatrix short_path = layer.Whole(Stacked(stem, right));
      ExpectSameBits(out.Rows(0, 4).values, layer.Whole(other).values, NameOf(shape) + ", other");
      ExpectSameBits(out.Rows(4, 14).values, path.values, NameOf(shape) + ", left");
      ExpectSameBits(out.Rows(14, 15).values, short_path.Rows(5, 6).values,
                     NameOf(shape) + ", right");
    }
  }
}

TEST_P(StatesTest, CopiesGoOnAsTheirOriginals) {
  for (const StateShape& shape : Shapes()) {
    const Layer layer(*tested_, shape);
    const HostMatrix stem = RandomMatrix(5, layer.inputs(), 18);
    const HostMatrix next = RandomMatrix(2, layer.inputs(), 19);
    const auto states = layer.NewStates();
    layer.Compute(stem, {{0, 5, -1, 2}}, *states);
    const StateCopy copy{2, 5};
    tested_->CopyStates(std::span(&copy, 1), *states);
    const HostMatrix of_copy = layer.Compute(next, {{0, 2, 5, 5}}, *states);
    const HostMatrix of_original = layer.Compute(next, {{0, 2, 2, 2}}, *states);
    ExpectSameBits(of_copy.values, of_original.values, NameOf(shape));
  }
}

TEST_P(StatesTest, MovedStatesGoOnAsTheirOriginals) {
  for (const StateShape& shape : Shapes()) {
    if (!tested_->moves_states()) GTEST_SKIP() << "states stay on this device";
    const auto reference = Make("reference", 1);
    const Layer layer(*tested_, shape), slow(*reference, shape);
    const HostMatrix stem = RandomMatrix(5, layer.inputs(), 18);
    const HostMatrix next = RandomMatrix(2, layer.inputs(), 19);
    const auto states = layer.NewStates(), others = layer.NewStates(), host = slow.NewStates();
    layer.Compute(stem, {{0, 5, -1, 2}}, *states);
    std::vector<std::byte> bytes(static_cast<size_t>(2 * shape.bytes()));
    tested_->ReadState(*states, 2, bytes);
    tested_->WriteState(bytes, 4, *others);
    const HostMatrix of_copy = layer.Compute(next, {{0, 2, 4, 4}}, *others);
    const HostMatrix of_original = layer.Compute(next, {{0, 2, 2, 2}}, *states);
    ExpectSameBits(of_copy.values, of_original.values, NameOf(shape));
    if (tested_->options().precision != Precision::kF32) continue;
    // The bytes mean the same on every backend.
    reference->WriteState(bytes, 0, *host);
    const HostMatrix there = slow.Compute(next, {{0, 2, 0, 0}}, *host);
    ASSERT_EQ(there.values.size(), of_copy.values.size());
    for (size_t i = 0; i < there.values.size(); ++i) {
      ASSERT_NEAR(there.values[i], of_copy.values[i], 2e-4 * (1 + std::fabs(there.values[i])));
    }
  }
}

TEST_P(StatesTest, RowsAreGatedByOneNumber) {
  const HostMatrix x = RandomMatrix(9, 35, 20), gates = RandomMatrix(9, 1, 21);
  Tensor rows = Fill(*tested_, x);
  tested_->GateRows(Gate::kLogistic, Fill(*tested_, gates), rows);
  HostMatrix expected = x;
  for (std::int64_t r = 0; r < x.rows; ++r) {
    for (std::int64_t c = 0; c < x.columns; ++c) {
      expected.values[static_cast<size_t>(r * x.columns + c)] /=
          1.0f + std::exp(-gates.values[static_cast<size_t>(r)]);
    }
  }
  ExpectNear(Read(*tested_, rows), expected, [](std::int64_t, std::int64_t) { return 1e-5; });
}

TEST_P(StatesTest, ColumnsAreGatedByColumns) {
  const HostMatrix values = RandomMatrix(9, 91, 22), gates = RandomMatrix(9, 35, 23);
  for (const Gate gate : {Gate::kSilu, Gate::kGeluTanh, Gate::kLogistic}) {
    HostMatrix found[2], wanted[2];
    for (int other = 0; other < 2; ++other) {
      Kernels& kernels = other == 0 ? *tested_ : *reference_;
      // Into the gates' own rows, and into the values' own.
      Tensor out = Fill(kernels, gates);
      kernels.GateColumns(gate, out, Fill(kernels, values), 41, out);
      (other == 0 ? found : wanted)[0] = Read(kernels, out);
      Tensor rows = Fill(kernels, RandomMatrix(9, 35, 24));
      kernels.GateColumns(gate, Fill(kernels, gates), rows, 0, rows);
      (other == 0 ? found : wanted)[1] = Read(kernels, rows);
    }
    for (int i = 0; i < 2; ++i) {
      ExpectNear(found[i], wanted[i], [](std::int64_t, std::int64_t) { return 1e-5; });
    }
  }
}

TEST_P(StatesTest, GroupsHaveTheirOwnNorms) {
  const HostMatrix x = RandomMatrix(7, 3 * 1100, 25);
  for (const std::int64_t group : {1, 11, 100, 1100, 3300}) {
    for (const bool same : {false, true}) {
      const HostMatrix weight = RandomMatrix(1, same ? group : x.columns, 26);
      HostMatrix found, wanted;
      for (Kernels* const kernels : {tested_.get(), reference_.get()}) {
        Tensor rows = Fill(*kernels, x);  // in place
        kernels->RmsNormGroups(rows, group, *kernels->LoadVector(weight.values), 1e-6f, rows);
        (kernels == tested_.get() ? found : wanted) = Read(*kernels, rows);
      }
      ExpectNear(found, wanted, [](std::int64_t, std::int64_t) { return 1e-4; });
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(StatesTest, GatesAndNormsInEitherOrder) {
  const HostMatrix x = RandomMatrix(7, 2 * 1100, 27), gates = RandomMatrix(7, 2 * 1100, 28);
  for (const std::int64_t group : {20, 2200}) {
    for (const bool norm_first : {false, true}) {
      const HostMatrix weight = RandomMatrix(1, group, 29);
      HostMatrix found, wanted;
      for (Kernels* const kernels : {tested_.get(), reference_.get()}) {
        Tensor rows = Fill(*kernels, x);
        const Tensor gate_rows = Fill(*kernels, gates);
        const auto weights = kernels->LoadVector(weight.values);
        kernels->GateAndNorm({gate_rows, Gate::kSilu, *weights, group, 1e-6f, norm_first}, rows);
        (kernels == tested_.get() ? found : wanted) = Read(*kernels, rows);
      }
      ExpectNear(found, wanted, [](std::int64_t, std::int64_t) { return 1e-4; });
      if (HasFatalFailure()) return;
    }
  }
}

std::vector<Backend> FloatBackends() {
  std::vector<Backend> backends = AllBackends();
  std::erase_if(backends, [](const Backend& b) { return b.precision != Precision::kF32; });
  return backends;
}

INSTANTIATE_TEST_SUITE_P(Backends, StatesTest, testing::ValuesIn(FloatBackends()), BackendName);

}  // namespace
}  // namespace banyan::optest
