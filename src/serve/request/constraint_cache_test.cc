#include <fmt/format.h>
#include <gtest/gtest.h>
#include <chrono>
#include <future>

#include "banyan/model.h"
#include "base/work_budget.h"
#include "serve/request/api_error.h"
#include "serve/request/constraint_cache.h"

namespace banyan {

namespace {

ConstraintCache& Cache() {
  static ConstraintCache* cache = [] {
    LoadOptions load;
    load.model = BANYAN_SOURCE_DIR "/models/banyan-reader-34m.gguf";
    load.threads = 1;
    return new ConstraintCache(Model::Load(load));
  }();
  return *cache;
}

// How long a compilation takes must not tell one tenant what another asked for.
TEST(ConstraintCache, ScopesShareNothing) {
  const std::string schema = R"({"type":"object","properties":{"a":{"type":"integer"}}})";
  const auto first = Cache().OfSchema(1, schema, "p");
  EXPECT_EQ(Cache().OfSchema(1, schema, "p"), first);
  EXPECT_NE(Cache().OfSchema(2, schema, "p"), first);
  EXPECT_NE(Cache().OfRegex(1, "[a-z]+", "p"), Cache().OfRegex(2, "[a-z]+", "p"));
  for (int i = 0; i < 100; ++i) Cache().OfRegex(2, "a{" + std::to_string(i + 1) + "}", "p");
  EXPECT_EQ(Cache().OfSchema(1, schema, "p"), first);  // another's many put nothing of it out
  EXPECT_THROW(Cache().OfRegex(1, "(", "p"), ApiError);
}

// What is kept has a limit in bytes, whatever the texts say.
TEST(ConstraintCache, KeepsNoMoreThanItsLimit) {
  constexpr std::uint64_t kScope = 40;
  const auto small = Cache().OfRegex(kScope, "[a-z]+", "p");
  const size_t before = Cache().BytesOf(kScope);
  EXPECT_GT(before, 0u);
  const std::string long_words(1 << 20, 'x');
  Cache().OfSchema(kScope, R"({"type":"boolean","description":")" + long_words + "\"}", "p");
  EXPECT_LT(Cache().BytesOf(kScope), before + (64u << 10));
  for (int i = 0; i < 6; ++i) {
    const auto large =
        Cache().OfRegex(kScope, fmt::format("[0-9]{{9000}}[a-z]{{{}}}", 9000 + i), "p");
    EXPECT_GT(large->states(), 18'000u);
    EXPECT_LE(Cache().BytesOf(kScope), ConstraintCache::kMostBytes);
  }
  EXPECT_NE(Cache().OfRegex(kScope, "[a-z]+", "p"), small);  // it had to go
}

TEST(ConstraintCache, NobodyWaitsForAnothersCompilation) {
  Cache().OfRegex(1, "warm", "p");
  std::atomic<bool> over = false;
  auto slow = std::async(std::launch::async, [&] {
    WorkBudget budget;
    budget.unwanted = [&] { return over.load(); };
    const BudgetScope scope(budget);
    // Each of these takes long; the budget ends them.
    try {
      for (int i = 0;; ++i) Cache().OfRegex(1, "(a|b)*a(a|b){12}" + std::to_string(i), "p");
    } catch (const WorkStopped&) {
      return true;
    }
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const auto began = std::chrono::steady_clock::now();
  for (int i = 0; i < 3; ++i) Cache().OfRegex(3, "x{" + std::to_string(i + 1) + "}", "p");
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(60));
  over = true;
  EXPECT_TRUE(slow.get());
}

}  // namespace

}  // namespace banyan
