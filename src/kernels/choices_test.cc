// Choices that are begun, fed to a next step and only then taken: the same tokens as when waited
// for, on every backend.
#include "kernels/fusion_fixture.h"
#include "kernels/operation_fixture.h"

namespace banyan::optest {
namespace {

using Choices = OperationTest;

std::vector<SamplingRow> SomeRequests(int count, int rows) {
  std::vector<SamplingRow> requests(static_cast<size_t>(count));
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].row = static_cast<std::int32_t>(i * 7 % static_cast<size_t>(rows));
    if (i % 5 == 2) requests[i].forced = static_cast<TokenId>(i % 29);
  }
  return requests;
}

// The rows that a step feeds when every token is one of `choices`, in reverse order.
HostMatrix FedRows(Kernels& kernels, const Matrix& table, int count,
                   const PendingChoices& choices) {
  Batch batch = PlainBatch(count);
  for (int row = 0; row < count; ++row) batch.tokens[row] = ChoiceToken(count - 1 - row);
  Tensor out = Poisoned(kernels, count, table.columns);
  kernels.Embed(*kernels.Upload(batch, EmptyPlan(count), &choices), table, out);
  return Read(kernels, out);
}

void ExpectFed(const HostMatrix& fed, const HostMatrix& table,
               const std::vector<TokenChoice>& choices, double eps) {
  for (std::int64_t row = 0; row < fed.rows; ++row) {
    const TokenId token = choices[static_cast<size_t>(fed.rows - 1 - row)].token;
    for (std::int64_t c = 0; c < fed.columns; ++c) {
      const float expected = table.Row(token)[c];
      ASSERT_NEAR(fed.Row(row)[c], expected, std::fabs(expected) * eps) << "row " << row;
    }
  }
}

TEST_P(Choices, AreFedBeforeTheyAreTaken) {
  const HostMatrix table = RandomMatrix(101, 16, 1);
  const auto loaded = LoadFloats(*tested_, table);
  for (const int count : {1, 3, 64, 300}) {
    const Tensor logits = Fill(*tested_, RandomMatrix(13, 101, 2));
    const std::vector<SamplingRow> requests = SomeRequests(count, 13);
    std::vector<TokenChoice> expected(requests.size());
    tested_->SelectTokens(logits, requests, expected);
    const auto pending = tested_->Choose(logits, requests);
    const HostMatrix fed = FedRows(*tested_, *loaded, count, *pending);
    const std::vector<TokenChoice> taken = pending->Take();
    ASSERT_EQ(taken.size(), expected.size());
    for (size_t i = 0; i < taken.size(); ++i) {
      EXPECT_EQ(taken[i].token, expected[i].token);
      EXPECT_EQ(taken[i].logprob, expected[i].logprob);
      if (requests[i].forced >= 0) {
        EXPECT_EQ(taken[i].token, requests[i].forced);
      }
    }
    ExpectFed(fed, table, taken, ActivationEps());
  }
}

// A vocabulary of which several threads take parts when rows are few.
TEST_P(Choices, ThreadsDoNotChangeBits) {
  constexpr int kRows = 9, kVocabulary = 3001;
  HostMatrix values = RandomMatrix(kRows, kVocabulary, 5);
  values.values[7] = kNaN;
  for (int t = 100; t < 200; ++t) values.values[t] = -std::numeric_limits<float>::infinity();
  const auto select = [&](int threads, int count) {
    std::vector<SamplingRow> requests = SomeRequests(count, kRows);
    for (size_t i = 0; i < requests.size(); ++i) {
      requests[i].top_logprobs = static_cast<int>(i % 3);
      requests[i].temperature = i % 4 == 1 ? 0.7f : 0.0f;
      requests[i].uniform = 0.83;
    }
    const auto kernels = Make(GetParam().device, threads);
    std::vector<TokenChoice> choices(requests.size());
    kernels->SelectTokens(Fill(*kernels, values), requests, choices);
    return choices;
  };
  for (const int count : {1, 2, 8, 20}) {
    const std::vector<TokenChoice> expected = select(1, count);
    for (const int threads : {2, 3, 16}) {
      const std::vector<TokenChoice> found = select(threads, count);
      for (size_t i = 0; i < found.size(); ++i) {
        SCOPED_TRACE(std::to_string(threads) + " threads, request " + std::to_string(i) + " of " +
                     std::to_string(count));
        EXPECT_EQ(found[i].token, expected[i].token);
        EXPECT_EQ(found[i].logprob, expected[i].logprob);
        ASSERT_EQ(found[i].top.size(), expected[i].top.size());
        for (size_t k = 0; k < found[i].top.size(); ++k) {
          EXPECT_EQ(found[i].top[k].token, expected[i].top[k].token);
          EXPECT_EQ(found[i].top[k].logprob, expected[i].top[k].logprob);
        }
      }
    }
  }
}

// Of a product whose rows a backend need not keep, into memory that is used again.
TEST_P(Choices, FromRowsOfAProduct) {
  const auto weights = LoadFloats(*tested_, RandomMatrix(203, 32, 6));
  std::unique_ptr<PendingChoices> again;
  for (const int rows : {1, 130, 48, 49, 300}) {
    const Tensor x = Fill(*tested_, RandomMatrix(rows, 32, 7));
    Tensor logits = Poisoned(*tested_, rows, 203);
    tested_->MatMul(x, *weights, nullptr, logits);
    std::vector<SamplingRow> requests = SomeRequests(2 * rows, rows);
    for (size_t i = 0; i < requests.size(); ++i) {
      requests[i].top_logprobs = static_cast<int>(i % 3);
      requests[i].temperature = i % 4 == 1 ? 0.7f : 0.0f;
    }
    const std::vector<TokenChoice> expected = tested_->Choose(logits, requests)->Take();
    Tensor scratch = Poisoned(*tested_, rows, 203);
    tested_->MatMulChoose(x, *weights, scratch, requests, again);
    const std::vector<TokenChoice>& found = again->Take();
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) {
      SCOPED_TRACE(std::to_string(rows) + " rows, request " + std::to_string(i));
      EXPECT_EQ(found[i].token, expected[i].token);
      EXPECT_EQ(found[i].logprob, expected[i].logprob);
      EXPECT_EQ(found[i].top.size(), expected[i].top.size());
    }
  }
}

// Two at a time, taken late and in the other order; one that nobody takes.
TEST_P(Choices, DoNotDisturbEachOther) {
  const HostMatrix table = RandomMatrix(101, 16, 1);
  const auto loaded = LoadFloats(*tested_, table);
  const Tensor a = Fill(*tested_, RandomMatrix(9, 101, 3));
  const Tensor b = Fill(*tested_, RandomMatrix(9, 101, 4));
  const std::vector<SamplingRow> requests = SomeRequests(20, 9);
  std::vector<TokenChoice> of_a(20), of_b(20);
  tested_->SelectTokens(a, requests, of_a);
  tested_->SelectTokens(b, requests, of_b);
  const auto first = tested_->Choose(a, requests);
  tested_->Choose(b, requests);
  const auto second = tested_->Choose(b, requests);
  ExpectFed(FedRows(*tested_, *loaded, 20, *first), table, of_a, ActivationEps());
  ExpectFed(FedRows(*tested_, *loaded, 20, *second), table, of_b, ActivationEps());
  const std::vector<TokenChoice> late = second->Take();
  for (size_t i = 0; i < late.size(); ++i) EXPECT_EQ(late[i].token, of_b[i].token);
  const std::vector<TokenChoice> later = first->Take();
  for (size_t i = 0; i < later.size(); ++i) EXPECT_EQ(later[i].token, of_a[i].token);
}

// Panels: the token of the fused row, the expert that it is owed to, betas measured once and read
// by the next choice before anybody took them.
TEST_P(Choices, OfPanelsAreThoseOfFusedRows) {
  constexpr int kRows = 9, kVocabulary = 1003;
  const Tensor logits = Fill(*tested_, RandomMatrix(kRows, kVocabulary, 8));
  const Tensor next = Fill(*tested_, RandomMatrix(kRows, kVocabulary, 9));
  const std::vector<ExpertRow> experts = {{1, 0.3, 0.9}, {2, 0.1, 0.2}, {8, 0.7, 0.5}};
  const std::vector<TokenId> nulls = {4, 90, 700};
  std::vector<PanelRow> panels;
  for (const FusionRule rule : {FusionRule::kMax, FusionRule::kMixture, FusionRule::kProduct}) {
    for (const BetaSource source : {BetaSource::kGiven, BetaSource::kMeasured, BetaSource::kMean}) {
      for (const bool modern : {false, true}) {
        PanelRow& panel = panels.emplace_back();
        panel.prior = static_cast<std::int32_t>(panels.size() % 4);
        panel.rule = rule;
        panel.betas = source;
        panel.experts = std::span(experts).first(1 + panels.size() % 3);
        if (!modern) continue;
        panel.scores = PanelScores::kNormalised;
        panel.plausibility = 0.3;
        panel.abstention = 0.003;  // of three tokens among a thousand
        panel.abstentions = AbstentionSource::kMeasured;
        panel.null_tokens = nulls;
      }
    }
  }
  // Plain requests stand among those of panels.
  std::vector<SamplingRow> requests;
  for (size_t p = 0; p < panels.size(); ++p) {
    SamplingRow& plain = requests.emplace_back();
    plain.row = static_cast<std::int32_t>(p % kRows);
    plain.top_logprobs = 2;
    SamplingRow& fused = requests.emplace_back();
    fused.panel = static_cast<std::int32_t>(p);
    fused.top_logprobs = 3;
  }
  const auto pending = tested_->Choose(logits, requests, {panels, nullptr});
  std::vector<PanelRow> later = panels;
  for (size_t p = 0; p < later.size(); ++p) {
    if (panels[p].betas != BetaSource::kGiven) later[p].betas = BetaSource::kEarlier;
    if (panels[p].MeasuresAbstentions()) later[p].abstentions = AbstentionSource::kEarlier;
    later[p].earlier_choice = static_cast<std::int32_t>(2 * p + 1);
  }
  const auto after = tested_->Choose(next, requests, {later, pending.get()});
  const std::vector<TokenChoice> chosen = pending->Take();
  const std::vector<TokenChoice> chosen_after = after->Take();

  const HostMatrix host = Read(*tested_, logits);
  int silent = 0, voting = 0;
  std::vector<std::vector<ExpertRow>> known(panels.size());
  for (size_t p = 0; p < panels.size(); ++p) {
    known[p].assign(panels[p].experts.begin(), panels[p].experts.end());
    const std::vector<double>& betas = chosen[2 * p + 1].betas;
    EXPECT_TRUE(chosen_after[2 * p + 1].betas.empty());
    if (panels[p].betas == BetaSource::kGiven) {
      EXPECT_TRUE(betas.empty());
    } else {
      ASSERT_EQ(betas.size(), known[p].size());
      std::vector<double> bits;
      for (const ExpertRow& expert : known[p]) {
        bits.push_back(Divergence(host.Row(expert.row), host.Row(panels[p].prior)));
      }
      double mean = 0.0;
      for (const double bit : bits) mean += bit;
      mean /= static_cast<double>(bits.size());
      for (size_t k = 0; k < betas.size(); ++k) {
        EXPECT_NEAR(betas[k], panels[p].betas == BetaSource::kMean ? mean : bits[k], 1e-9);
        known[p][k].beta = betas[k];
      }
    }
    const std::vector<double>& abstentions = chosen[2 * p + 1].abstentions;
    EXPECT_TRUE(chosen_after[2 * p + 1].abstentions.empty());
    ASSERT_EQ(abstentions.size(), panels[p].MeasuresAbstentions() ? known[p].size() : 0);
    for (size_t k = 0; k < abstentions.size(); ++k) {
      const std::span<const float> row = host.Row(known[p][k].row);
      EXPECT_NEAR(abstentions[k], ShareOf(row, LogSumExp(row), nulls), 1e-6);
      known[p][k].abstention = abstentions[k];
      silent += abstentions[k] >= panels[p].abstention ? 1 : 0;
      voting += abstentions[k] >= panels[p].abstention ? 0 : 1;
    }
    panels[p].abstentions = AbstentionSource::kGiven;
    panels[p].betas = BetaSource::kGiven;
    panels[p].experts = known[p];
  }
  EXPECT_TRUE(silent > 0 && voting > 0) << silent << " abstain, " << voting << " vote";
  for (const auto& [rows, found] : {std::pair(&logits, &chosen), {&next, &chosen_after}}) {
    const HostMatrix rows_host = Read(*tested_, *rows);
    const LogitRows host_rows{rows_host.values.data(), kVocabulary, kVocabulary};
    for (size_t i = 0; i < requests.size(); ++i) {
      SCOPED_TRACE("request " + std::to_string(i));
      const TokenChoice& choice = (*found)[i];
      TokenChoice expected;
      if (requests[i].panel < 0) {
        tested_->SelectTokens(*rows, std::span(&requests[i], 1), std::span(&expected, 1));
      } else {  // what was measured, given
        SamplingRow request = requests[i];
        request.panel = 0;
        const StepPanels given{std::span(&panels[i / 2], 1), nullptr};
        expected = tested_->Choose(*rows, std::span(&request, 1), given)->Take().front();
        std::vector<float> fused(kVocabulary);
        FusePanel(host_rows, panels[i / 2], fused);
        EXPECT_EQ(choice.token, SelectToken(fused, requests[i]).token);
        EXPECT_NEAR(choice.logprob, SelectToken(fused, requests[i]).logprob, 1e-4);
        EXPECT_EQ(choice.expert, WinningExpert(host_rows, panels[i / 2], choice.token));
      }
      EXPECT_EQ(choice.token, expected.token);
      EXPECT_EQ(choice.logprob, expected.logprob);
      EXPECT_EQ(choice.top.size(), expected.top.size());
      EXPECT_EQ(choice.expert, expected.expert);
    }
  }
}

// Rows that want alternatives or draws among greedy ones.
TEST_P(Choices, OfEveryKindAreFed) {
  const HostMatrix table = RandomMatrix(101, 16, 1);
  const auto loaded = LoadFloats(*tested_, table);
  const Tensor logits = Fill(*tested_, RandomMatrix(9, 101, 5));
  const HostMatrix host = Read(*tested_, logits);
  std::vector<SamplingRow> requests = SomeRequests(20, 9);
  for (size_t i = 0; i < requests.size(); i += 3) requests[i].top_logprobs = 4;
  for (size_t i = 1; i < requests.size(); i += 4) {
    requests[i].temperature = 0.9f;
    requests[i].uniform = 0.04 * static_cast<double>(i);
  }
  const auto pending = tested_->Choose(logits, requests);
  const HostMatrix fed = FedRows(*tested_, *loaded, 20, *pending);
  const std::vector<TokenChoice> taken = pending->Take();
  for (size_t i = 0; i < requests.size(); ++i) {
    const TokenChoice expected = SelectToken(host.Row(requests[i].row), requests[i]);
    EXPECT_EQ(taken[i].token, expected.token) << i;
    EXPECT_NEAR(taken[i].logprob, expected.logprob, 1e-5) << i;
    EXPECT_EQ(taken[i].top.size(), expected.top.size()) << i;
  }
  ExpectFed(fed, table, taken, ActivationEps());
}

TEST_P(Choices, OfNothing) {
  const Tensor logits = Fill(*tested_, RandomMatrix(2, 101, 6));
  EXPECT_TRUE(tested_->Choose(logits, {})->Take().empty());
}

INSTANTIATE_TEST_SUITE_P(Backends, Choices, testing::ValuesIn(AllBackends()), BackendName);

}  // namespace
}  // namespace banyan::optest
