// Operations run by a recorder give what they give by themselves, whether it replays them or not:
// each step has its own tokens, and a backend that replays must find them.
#include "kernels/operation_fixture.h"

namespace banyan::optest {
namespace {

using Recorders = OperationTest;

constexpr int kColumns = 48;

TEST_P(Recorders, EveryStepGetsItsOwnTokens) {
  const HostMatrix table = RandomMatrix(101, kColumns, 1);
  const auto loaded = LoadFloats(*tested_, table);
  const HostMatrix ones = ConstantMatrix(1, kColumns, 1.0f);
  const auto weight = tested_->LoadVector(ones.values);
  const auto kv = tested_->NewKvMemory({1, 1, 16}, 4);
  const auto recorder = tested_->NewRecorder();
  for (const int rows : {5, 300}) {
    struct Tensors {
      Tensor x, normed, chosen;
    };
    const auto make = [&] {
      return Tensors{Poisoned(*tested_, rows, kColumns), Poisoned(*tested_, rows, kColumns),
                     Poisoned(*tested_, 2, kColumns)};
    };
    Tensors alone = make(), recorded = make();
    int calls = 0;
    for (int round = 0; round < 6; ++round) {
      Batch batch = PlainBatch(rows);
      for (int r = 0; r < rows; ++r) batch.tokens[r] = (r * 11 + 37 * round) % 101;
      batch.logit_rows = {round % rows, rows - 1};
      std::sort(batch.logit_rows.begin(), batch.logit_rows.end());
      const auto run = [&](const StepInputs& step, Tensors& to) {
        tested_->Embed(step, *loaded, to.x);
        tested_->GatherLogitRows(step, to.x, to.chosen);
        tested_->RmsNorm(to.x, *weight, 1e-5f, to.normed);
      };
      const auto step = tested_->Upload(batch, EmptyPlan(rows));
      run(*step, alone);
      recorder->Run(*step, *kv, 0, [&] {
        ++calls;
        run(*step, recorded);
      });
      ExpectSameBits(Read(*tested_, recorded.chosen).values, Read(*tested_, alone.chosen).values,
                     "gathered");
      ExpectSameBits(Read(*tested_, recorded.normed).values, Read(*tested_, alone.normed).values,
                     "normed");
    }
    // Run, recorded, then replayed.
    EXPECT_EQ(calls, GetParam().device == "cuda" ? 2 : 6);
  }
}

// What differs in anything but the contents of its arrays is not mistaken for the same.
TEST_P(Recorders, OtherVariantsAndCountsAreOthers) {
  const auto loaded = LoadFloats(*tested_, RandomMatrix(101, kColumns, 1));
  const auto kv = tested_->NewKvMemory({1, 1, 16}, 4);
  const auto recorder = tested_->NewRecorder();
  Tensor x = tested_->NewTensor(9, kColumns);
  for (int round = 0; round < 4; ++round) {
    for (const int rows : {9, 4}) {
      for (const int variant : {0, 1}) {
        Tensor some = x.Prefix(rows);
        const auto step = tested_->Upload(PlainBatch(rows), EmptyPlan(rows));
        tested_->Clear(x);
        recorder->Run(*step, *kv, variant, [&] {
          tested_->Embed(*step, *loaded, some);
          if (variant == 1) tested_->Add(some, some);
        });
        const HostMatrix found = Read(*tested_, x);
        tested_->Clear(x);
        tested_->Embed(*step, *loaded, some);
        if (variant == 1) tested_->Add(some, some);
        ExpectSameBits(found.values, Read(*tested_, x).values, "rows");
      }
    }
  }
}

// Operations that need memory are not recorded, and run all the same.
TEST_P(Recorders, OperationsThatAllocateRun) {
  const HostMatrix table = RandomMatrix(101, kColumns, 1);
  const auto loaded = LoadFloats(*tested_, table);
  const auto kv = tested_->NewKvMemory({1, 1, 16}, 4);
  const auto recorder = tested_->NewRecorder();
  for (int round = 0; round < 4; ++round) {
    Tensor fresh;
    {
      const auto step = tested_->Upload(PlainBatch(7), EmptyPlan(7));
      recorder->Run(*step, *kv, 0, [&] {
        fresh = tested_->NewTensor(7, kColumns);
        tested_->Embed(*step, *loaded, fresh);
      });
    }
    const HostMatrix found = Read(*tested_, fresh);
    for (int r = 0; r < 7; ++r) {
      for (int c = 0; c < kColumns; ++c) {
        ASSERT_NEAR(found.Row(r)[c], table.Row(r)[c], std::fabs(table.Row(r)[c]) * ActivationEps());
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, Recorders, testing::ValuesIn(AllBackends()), BackendName);

}  // namespace
}  // namespace banyan::optest
