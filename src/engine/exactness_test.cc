// Invariant 5: every answer is bit for bit what it is alone with an empty cache, whatever the
// strategy, the batch, the budget, the threads, steps ahead, the order of submission and what is
// cached. BANYAN_TEST_ROUNDS=N runs the random part with N times as many forests.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <array>
#include <cstdlib>

#include "base/error.h"
#include "load/model_parts.h"
#include "support/temp_directory.h"
#include "support/tiny_gemma4.h"
#include "support/tiny_model.h"
#include "support/workload.h"

namespace banyan {
namespace {

using testing_support::AnswersByTag;
using testing_support::ExpectSameAnswers;
using testing_support::PageBytes;
using testing_support::RunAll;
using testing_support::TempDirectory;
using testing_support::TestRounds;
using testing_support::TinyShape;
using testing_support::Workload;
using testing_support::WorkloadLimits;

struct NamedShape {
  const char* name;
  TinyShape shape;
};

// Head sizes that are and are not multiples of 16, head ratios 1 to 4, tied logits, windows that
// prompts cross, in all layers or in some, layers that turn nothing, queries that grow.
std::vector<NamedShape> Shapes() {
  return {
      {"llama", {.family = "llama", .tied = true, .seed = 11}},
      {"qwen3", {.family = "qwen3", .hidden = 32, .kv_heads = 1, .head_dim = 16, .seed = 12}},
      {"mistral", {.family = "mistral", .head_dim = 20, .window = 40, .seed = 13}},
      {"olmo2", {.family = "olmo2", .layers = 1, .kv_heads = 4, .seed = 14}},
      {"phi3", {.family = "phi3", .hidden = 40, .head_dim = 10, .window = 150, .seed = 15}},
      {"qwen3_moe", {.family = "qwen3_moe", .hidden = 32, .head_dim = 16, .seed = 16}},
      {"gpt_oss", {.family = "gpt_oss", .hidden = 32, .ffn = 32, .window = 40, .seed = 17}},
      {"gemma3",
       {.family = "gemma3_text",
        .layers = 3,
        .kv_heads = 1,
        .head_dim = 16,
        .window = 40,
        .theta = 50000.0,
        .tied = true,
        .seed = 16}},
      {"smollm3", {.family = "smollm3", .hidden = 32, .layers = 4, .head_dim = 8, .seed = 17}},
      {"ministral3", {.family = "ministral3", .layers = 1, .head_dim = 16, .seed = 18}},
  };
}

struct Setting {
  const char* precision;
  const char* kv_type;
};
constexpr Setting kSettings[] = {{"f32", ""}, {"mixed", "f16"}, {"mixed", "bf16"}, {"mixed", "q8"}};

std::shared_ptr<Model> Load(const std::string& path, const Setting& setting, int threads,
                            const char* device = "cpu") {
  LoadOptions options;
  options.model = path;
  options.device = device;
  options.precision = setting.precision;
  options.kv_type = setting.kv_type;
  options.threads = threads;
  return Model::Load(options);
}

AnswersByTag Alone(const std::shared_ptr<Model>& model, const Workload& work) {
  EngineOptions options;
  options.strategy = Strategy::kFlat;
  options.one_by_one = true;
  options.steps_ahead = 0;
  options.replay = false;
  Engine engine(model, options);
  return RunAll(engine, work.requests());
}

// One way to run a workload.
struct Way {
  EngineOptions options;
  bool tiny_memory = false;
  int steps_between = -1;

  std::string Describe() const {
    return fmt::format(
        "{}, share_levels {}, contexts {} questions {} stacks {}, batch_rows {}, {} memory{}, "
        "steps ahead {}, between {}",
        StrategyName(options.strategy), options.share_levels, options.contexts_per_stack,
        options.questions_per_stack, options.stacks, options.batch_rows,
        tiny_memory ? "tiny" : "ample", options.one_by_one ? ", one by one" : "",
        options.steps_ahead, steps_between);
  }
};

// Fresh, and once more over what the first run left in the cache.
void ExpectExact(const std::shared_ptr<Model>& model, const Workload& work, Way way,
                 const AnswersByTag& expected) {
  SCOPED_TRACE(way.Describe());
  if (way.tiny_memory) {
    way.options.kv_memory = PageBytes(*model) * (work.LargestStreamPages(kPageTokens) + 3);
  }
  Engine engine(model, way.options);
  ExpectSameAnswers(expected, RunAll(engine, work.requests(), way.steps_between));
  if (way.options.strategy == Strategy::kFlat || way.options.one_by_one) return;  // never cached
  ExpectSameAnswers(expected, RunAll(engine, work.requests(), way.steps_between));
}

Way RandomWay(std::mt19937& random) {
  const auto below = [&](int n) {
    return static_cast<int>(random() % static_cast<std::uint32_t>(n));
  };
  static constexpr Strategy kStrategies[] = {Strategy::kFlat, Strategy::kPaged, Strategy::kStacked,
                                             Strategy::kTree, Strategy::kAuto};
  static constexpr int kBatchRows[] = {3, 17, 64, 300, 512};
  Way way;
  way.options.strategy = kStrategies[below(5)];
  way.options.share_levels = below(3);
  way.options.contexts_per_stack = 1 + below(4);
  way.options.questions_per_stack = below(4);
  way.options.stacks = 1 + below(4);
  way.options.private_stacks = below(2) == 0;
  way.options.batch_rows = kBatchRows[below(5)];
  way.options.one_by_one = below(10) == 0;
  way.options.steps_ahead = below(2);
  way.tiny_memory = below(3) == 0;
  way.steps_between = below(2) == 0 ? -1 : 1 + below(4);
  return way;
}

std::vector<Way> EveryStrategy() {
  std::vector<Way> ways;
  const auto add = [&](Strategy strategy, auto set) {
    Way way;
    way.options.strategy = strategy;
    set(way.options);
    ways.push_back(way);
  };
  const auto nothing = [](EngineOptions&) {};
  add(Strategy::kFlat, nothing);
  add(Strategy::kPaged, nothing);
  add(Strategy::kAuto, nothing);
  for (int levels : {0, 1, 2}) {
    add(Strategy::kTree, [&](EngineOptions& options) { options.share_levels = levels; });
  }
  for (const auto& [contexts, questions, stacks] :
       {std::array{1, 0, 8}, std::array{1, 2, 1}, std::array{2, 1, 3}, std::array{5, 3, 8}}) {
    add(Strategy::kStacked, [&](EngineOptions& options) {
      options.contexts_per_stack = contexts;
      options.questions_per_stack = questions;
      options.stacks = stacks;
    });
    ways.push_back(ways.back());
    ways.back().options.private_stacks = true;
  }
  return ways;
}

class Exactness : public ::testing::Test {
 protected:
  std::string Write(const NamedShape& named) {
    return testing_support::WriteTinyGguf(named.shape,
                                          directory_.path() / (std::string(named.name) + ".gguf"))
        .string();
  }
  TempDirectory directory_;
};

TEST_F(Exactness, EveryStrategyWithEveryBatchSize) {
  const std::string path = Write(Shapes()[0]);
  const Workload work(1, {.roots = 2, .path_tokens = 300, .root_tokens = 450, .max_new = 6});
  const auto model = Load(path, kSettings[0], 1);
  const AnswersByTag expected = Alone(model, work);
  EXPECT_EQ(expected.size(), work.answers());
  for (Way way : EveryStrategy()) {
    for (int rows : {1, 3, 17, 64, 512}) {
      if (rows == 1 && way.options.strategy == Strategy::kStacked)
        continue;  // one stream at a time
      way.options.batch_rows = rows;
      way.options.steps_ahead = rows % 2;
      ExpectExact(model, work, way, expected);
    }
  }
}

TEST_F(Exactness, EveryPrecisionOfEveryFamilyOnRandomForests) {
  std::mt19937 random(2);
  for (int round = 0; round < TestRounds(); ++round) {
    for (const NamedShape& named : Shapes()) {
      SCOPED_TRACE(fmt::format("round {}, {}", round, named.name));
      const std::string path = Write(named);
      for (const Setting& setting : kSettings) {
        SCOPED_TRACE(fmt::format("{} {}", setting.precision, setting.kv_type));
        const auto seed = static_cast<std::uint32_t>(random());
        SCOPED_TRACE(fmt::format("workload {}", seed));
        const Workload work(seed,
                            {.roots = 1, .path_tokens = 1200, .root_tokens = 1300, .max_new = 6});
        const auto model = Load(path, setting, 1);
        const AnswersByTag expected = Alone(model, work);
        ASSERT_EQ(expected.size(), work.answers());
        for (int i = 0; i < 3; ++i) ExpectExact(model, work, RandomWay(random), expected);
        if (HasFailure()) return;
      }
    }
  }
}

TEST_F(Exactness, AnyNumberOfThreads) {
  std::mt19937 random(7);
  for (const size_t shape : {size_t{1}, size_t{4}}) {
    const std::string path = Write(Shapes()[shape]);
    for (const Setting& setting : {kSettings[0], kSettings[1], kSettings[3]}) {
      const Workload work(static_cast<std::uint32_t>(random()),
                          {.roots = 1, .path_tokens = 400, .root_tokens = 500, .max_new = 3});
      const AnswersByTag expected = Alone(Load(path, setting, 1), work);
      for (int threads : {2, 3}) {
        SCOPED_TRACE(fmt::format("{} {}, {} threads", setting.precision, setting.kv_type, threads));
        const auto model = Load(path, setting, threads);
        Way way;
        way.options.strategy = threads == 2 ? Strategy::kTree : Strategy::kStacked;
        ExpectExact(model, work, way, expected);
      }
    }
  }
}

TEST_F(Exactness, TinyMemoryEvictsAndWaits) {
  std::mt19937 random(3);
  const std::string path = Write(Shapes()[2]);
  const auto model = Load(path, kSettings[1], 1);
  for (int round = 0; round < 3 * TestRounds(); ++round) {
    const auto seed = static_cast<std::uint32_t>(random());
    SCOPED_TRACE(fmt::format("workload {}", seed));
    const Workload work(
        seed, {.roots = 4, .path_tokens = 400, .root_tokens = 800, .around_groups = false});
    const AnswersByTag expected = Alone(model, work);
    for (int i = 0; i < 4; ++i) {
      Way way = RandomWay(random);
      way.options.one_by_one = false;
      way.tiny_memory = true;
      ExpectExact(model, work, way, expected);
      if (HasFailure()) return;
    }
  }
}

TEST_F(Exactness, Reference) {
  const WorkloadLimits small{.roots = 2,
                             .depth = 3,
                             .children = 2,
                             .path_tokens = 200,
                             .root_tokens = 300,
                             .least_answers = 5,
                             .max_new = 4,
                             .around_groups = false};
  std::mt19937 random(4);
  for (const Setting& setting : {kSettings[0], kSettings[3]}) {
    for (const size_t shape : {size_t{0}, size_t{2}}) {
      const auto model = Load(Write(Shapes()[shape]), setting, 1, "reference");
      const Workload work(static_cast<std::uint32_t>(random()), small);
      const AnswersByTag expected = Alone(model, work);
      for (int i = 0; i < 5; ++i) ExpectExact(model, work, RandomWay(random), expected);
    }
  }
}

// On a GPU, with everything that is only there: steps ahead, recorded steps, KV from free memory.
TEST_F(Exactness, Device) {
  std::mt19937 random(8);
  for (int round = 0; round < TestRounds(); ++round) {
    for (const NamedShape& named : Shapes()) {
      const std::string path = Write(named);
      for (const Setting& setting : kSettings) {
        const auto seed = static_cast<std::uint32_t>(random());
        SCOPED_TRACE(fmt::format("round {}, {} {} {}, workload {}", round, named.name,
                                 setting.precision, setting.kv_type, seed));
        std::shared_ptr<Model> model;
        try {
          model = Load(path, setting, 1, "cuda");
        } catch (const Error& error) {
          if (error.kind() != ErrorKind::kUnsupported) throw;
          GTEST_SKIP() << error.what();
        }
        const Workload work(seed, {.roots = 2,
                                   .path_tokens = 1200,
                                   .root_tokens = 1300,
                                   .least_answers = 20,
                                   .max_new = 12,
                                   .take_at_once = random() % 2 == 0});
        const AnswersByTag expected = Alone(model, work);
        ASSERT_EQ(expected.size(), work.answers());
        for (int i = 0; i < 3; ++i) {
          Way way = RandomWay(random);
          way.options.steps_ahead = i == 0 ? 1 : way.options.steps_ahead;
          ExpectExact(model, work, way, expected);
        }
        if (HasFailure()) return;
      }
    }
  }
}

// Layers of several kinds of heads, some of which read the keys of others.
TEST_F(Exactness, DeviceWithLayersThatDiffer) {
  std::mt19937 random(9);
  for (const bool mixture : {false, true}) {
    const testing_support::TinyGemma4 tiny(mixture);
    const std::string path =
        tiny.WriteHuggingFace(directory_.path() / (mixture ? "mixture" : "small")).string();
    for (const Setting& setting : kSettings) {
      SCOPED_TRACE(fmt::format("mixture {}, {} {}", mixture, setting.precision, setting.kv_type));
      std::shared_ptr<Model> model;
      try {
        model = Load(path, setting, 1, "cuda");
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::kUnsupported) throw;
        GTEST_SKIP() << error.what();
      }
      const Workload work(static_cast<std::uint32_t>(random()), {.vocab = tiny.kVocab,
                                                                 .roots = 2,
                                                                 .path_tokens = 700,
                                                                 .root_tokens = 800,
                                                                 .least_answers = 20,
                                                                 .max_new = 12});
      const AnswersByTag expected = Alone(model, work);
      for (int i = 0; i < 3; ++i) {
        Way way = RandomWay(random);
        way.options.steps_ahead = i == 0 ? 1 : way.options.steps_ahead;
        ExpectExact(model, work, way, expected);
      }
      if (HasFailure()) return;
    }
  }
}

// Prompts that begin alike by less than a cut: computed, copied by the device, waited for.
TEST_F(Exactness, DeviceCopiesBeginnings) {
  std::vector<PromptSegment> requests;
  for (std::uint64_t tag = 0; tag < 40; ++tag) {
    PromptSegment& prompt = requests.emplace_back();
    const auto common = static_cast<TokenId>(16 + 37 * tag % 110);
    for (TokenId i = 0; i < common; ++i) prompt.tokens.push_back(i * 7 % 199);
    for (TokenId i = 0; i < 20; ++i) {
      prompt.tokens.push_back((11 * i + static_cast<TokenId>(tag) + 1) % 199);
    }
    AnswerRequest& answer = prompt.answers.emplace_back();
    answer.tag = tag;
    answer.max_new = 5;
  }
  const std::string path = Write(Shapes()[0]);
  for (const Setting& setting : kSettings) {
    SCOPED_TRACE(fmt::format("{} {}", setting.precision, setting.kv_type));
    std::shared_ptr<Model> model;
    try {
      model = Load(path, setting, 1, "cuda");
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kUnsupported) throw;
      GTEST_SKIP() << error.what();
    }
    EngineOptions alone;
    alone.strategy = Strategy::kFlat;
    alone.one_by_one = true;
    Engine one_by_one(model, alone);
    const AnswersByTag expected = RunAll(one_by_one, requests);
    for (const int between : {-1, 1, 3}) {
      Engine engine(model, {});
      ExpectSameAnswers(expected, RunAll(engine, requests, between));
      EXPECT_GT(engine.receipt().copied_tokens, 500) << between;
    }
  }
}

// A prompt's logits do not depend on where it is chunked, nor on who else is being computed.
TEST_F(Exactness, LogitsOfAnyChunking) {
  const std::string path = Write(Shapes()[1]);
  std::mt19937 random(5);
  for (const Setting& setting : kSettings) {
    const auto model = Load(path, setting, 1);
    std::vector<PromptSegment> requests;
    for (const int length : {1, 16, 17, 129, 1025}) {
      PromptSegment& request = requests.emplace_back();
      for (int i = 0; i < length; ++i)
        request.tokens.push_back(static_cast<TokenId>(random() % 200));
      AnswerRequest& answer = request.answers.emplace_back();
      answer.tag = static_cast<std::uint64_t>(length);
      answer.max_new = 0;
      answer.want_logits = true;
    }
    AnswersByTag expected;
    for (const int rows : {1200, 1, 7, 128, 1024}) {
      for (const bool alone : {true, false}) {
        SCOPED_TRACE(fmt::format("{} {}: {} rows, alone {}", setting.precision, setting.kv_type,
                                 rows, alone));
        EngineOptions options;
        options.batch_rows = rows;
        options.one_by_one = alone;
        Engine engine(model, options);
        AnswersByTag found = RunAll(engine, requests);
        if (expected.empty()) {
          expected = std::move(found);
          EXPECT_EQ(expected.at(16).prompt_logits.size(), 200u);
        } else {
          ExpectSameAnswers(expected, found);
        }
      }
    }
  }
}

}  // namespace
}  // namespace banyan
