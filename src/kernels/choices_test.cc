// Choices that are begun, fed to a next step and only then taken: the same tokens as when waited
// for, on every backend.
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
