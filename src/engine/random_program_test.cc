// Random programs: several threads submit, cancel, take and wait, in any order, while another makes
// steps or the engine does so itself, with hardly any memory. Every answer that ends is bit for bit
// the answer alone, or a beginning of it if it was cancelled; every request gets every end once;
// every page comes back. BANYAN_TEST_ROUNDS=N makes the programs N times as long.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <deque>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "banyan/engine.h"
#include "base/error.h"
#include "load/model_parts.h"
#include "support/temp_directory.h"
#include "support/tiny_model.h"
#include "support/tiny_states.h"
#include "support/workload.h"

namespace banyan {
namespace {

using testing_support::AnswersByTag;
using testing_support::ExpectSameAnswer;
using testing_support::RunAll;
using testing_support::SameBits;
using testing_support::TestRounds;
using testing_support::TightMemory;
using testing_support::Workload;

constexpr int kClients = 3;

void CollectTags(const PromptSegment& segment, std::vector<std::uint64_t>& tags) {
  for (const AnswerRequest& answer : segment.answers) tags.push_back(answer.tag);
  for (const PromptSegment& below : segment.below) CollectTags(below, tags);
}

// What was found is a beginning of what was expected.
void ExpectBeginning(const Answer& expected, const Answer& found) {
  ASSERT_LE(found.tokens.size(), expected.tokens.size());
  Answer beginning = expected;
  beginning.tokens.resize(found.tokens.size());
  beginning.logprobs.resize(found.tokens.size());
  EXPECT_EQ(beginning.tokens, found.tokens);
  EXPECT_TRUE(SameBits(beginning.logprobs, found.logprobs));
}

// One user: has requests of its own in the engine and checks what comes back.
class Client {
 public:
  Client(Engine& engine, const Workload& work, const AnswersByTag& expected, std::uint32_t seed)
      : engine_(engine), work_(work), expected_(expected), random_(seed) {}

  void Run(int operations) {
    for (int i = 0; i < operations && !::testing::Test::HasFailure(); ++i) {
      const int kind = Below(20);
      if (kind < 6) {
        Submit();
      } else if (kind == 6) {
        if (!open_.empty()) engine_.Cancel(Pick());
      } else if (kind < 9) {
        CancelOne();
      } else if (kind == 9) {
        std::this_thread::yield();
      } else {
        Take(0.001 * Below(4));
      }
      ++done_;
    }
  }

  // After the engine has ended: everything that was asked for has come.
  void Finish() {
    Take(0.0);
    EXPECT_TRUE(open_.empty());
  }
  int operations() const { return done_; }
  int ends() const { return ends_; }
  int whole() const { return whole_; }

 private:
  int Below(int n) { return static_cast<int>(random_() % static_cast<std::uint32_t>(n)); }
  RequestId Pick() {
    return std::next(open_.begin(), Below(static_cast<int>(open_.size())))->first;
  }

  void Submit() {
    const std::vector<PromptSegment>& requests = work_.requests();
    PromptSegment request = requests[static_cast<size_t>(Below(static_cast<int>(requests.size())))];
    std::vector<std::uint64_t> tags;
    CollectTags(request, tags);
    SubmitOptions options;
    options.priority = Below(3);
    options.queue = queue_;
    if (const std::optional<RequestId> id = engine_.TrySubmit(request, options)) {
      open_[*id] = {tags.begin(), tags.end()};
    } else {
      EXPECT_FALSE(request.tokens.empty() && request.below.empty());
      Take(0.0);
    }
  }

  void CancelOne() {
    if (open_.empty()) return;
    const auto& [id, tags] = *open_.find(Pick());
    engine_.Cancel(id, *std::next(tags.begin(), Below(static_cast<int>(tags.size()))));
  }

  void Take(double seconds) {
    for (AnswerEvent& event : queue_->Take(seconds)) {
      std::vector<TokenId>& streamed = streamed_[event.number];
      streamed.insert(streamed.end(), event.tokens.begin(), event.tokens.end());
      if (!event.ended) continue;
      ++ends_;
      const auto request = open_.find(event.request);
      ASSERT_NE(request, open_.end()) << "an end of a request that was over";
      ASSERT_EQ(request->second.erase(event.tag), 1u) << "an end that was not asked for";
      if (request->second.empty()) open_.erase(request);
      if (!streamed.empty()) {
        EXPECT_EQ(streamed, event.answer.tokens);
      }
      streamed_.erase(event.number);
      const Answer& expected = expected_.at(event.tag);
      if (event.answer.finish == FinishReason::kCancelled) {
        ExpectBeginning(expected, event.answer);
      } else {
        ++whole_;
        ExpectSameAnswer(expected, event.answer);
      }
    }
  }

  Engine& engine_;
  const Workload& work_;
  const AnswersByTag& expected_;
  std::mt19937 random_;
  std::shared_ptr<AnswerQueue> queue_ = std::make_shared<AnswerQueue>();
  std::map<RequestId, std::set<std::uint64_t>> open_;  // tags that have not ended
  std::map<std::uint64_t, std::vector<TokenId>> streamed_;
  int done_ = 0, ends_ = 0, whole_ = 0;
};

struct Program {
  Strategy strategy = Strategy::kTree;
  bool own_thread = true;
  bool finish = true;  // at the end; else cancel
  std::uint32_t seed = 0;
};

Receipt RunProgram(const std::shared_ptr<Model>& model, const Workload& work,
                   const AnswersByTag& expected, const Program& program, int operations) {
  SCOPED_TRACE(fmt::format("{}, {}, seed {}", StrategyName(program.strategy),
                           program.own_thread ? "own thread" : "driven", program.seed));
  std::mt19937 random(program.seed);
  EngineOptions options;
  options.strategy = program.strategy;
  options.kv_memory =
      TightMemory(*model, work.LargestStreamPages(kPageTokens) + static_cast<int>(random() % 8)) *
      static_cast<std::int64_t>(model->copies());
  options.batch_rows = random() % 2 == 0 ? 24 : 128;
  options.max_waiting = 40;
  options.steps_ahead = static_cast<int>(random() % 2);
  options.contexts_per_stack = 2;
  options.stacks = 3;
  Engine engine(model, options);
  std::deque<Client> clients;
  for (std::uint32_t i = 0; i < kClients; ++i) {
    clients.emplace_back(engine, work, expected, program.seed * 10 + i);
  }
  std::atomic<bool> over{false};
  std::thread driver;
  if (program.own_thread) {
    engine.Start();
  } else {
    driver = std::thread([&] {
      while (!over) {
        if (!engine.Step()) std::this_thread::yield();
      }
    });
  }
  std::vector<std::thread> threads;
  for (Client& client : clients) {
    threads.emplace_back([&client, operations] { client.Run(operations / kClients); });
  }
  for (std::thread& thread : threads) thread.join();
  over = true;
  if (driver.joinable()) driver.join();
  engine.Shutdown(program.finish ? Unfinished::kFinish : Unfinished::kCancel);
  int ends = 0, whole = 0, made = 0;
  for (Client& client : clients) {
    client.Finish();
    made += client.operations();
    ends += client.ends();
    whole += client.whole();
  }
  const Receipt receipt = engine.receipt();
  EXPECT_EQ(receipt.kv_bytes_held, 0);
  EXPECT_EQ(receipt.failed, 0);
  EXPECT_EQ(receipt.cancelled, ends - whole);
  EXPECT_GT(whole, 0);
  EXPECT_GT(made, operations - kClients);
  EXPECT_EQ(engine.waiting(), 0);
  EXPECT_EQ(engine.running(), 0);
  return receipt;
}

// Ten programs of 1000 operations on a host; longer ones where there is a device. What is expected
// comes from one device.
void RunPrograms(const LoadOptions& load, int operations) {
  const std::shared_ptr<Model> model = Model::Load(load);
  LoadOptions load_one = load;
  load_one.device = BackendOf(load.device);
  const std::shared_ptr<Model> one = model->copies() == 1 ? model : Model::Load(load_one);
  const bool states = model->keeps_states();
  std::uint32_t seed = 1;
  std::int64_t preempted = 0, cancelled = 0;
  for (const Strategy strategy :
       {Strategy::kTree, Strategy::kAuto, Strategy::kPaged, Strategy::kStacked, Strategy::kFlat}) {
    if (states && strategy == Strategy::kStacked) continue;
    const Workload work(seed, {.roots = 6,
                               .depth = 3,
                               .children = 3,
                               .path_tokens = 100,
                               .root_tokens = 200,
                               .least_answers = 30,
                               .max_new = 100,
                               .around_groups = false,
                               .streams = true});
    EngineOptions alone;
    alone.strategy = Strategy::kFlat;
    alone.one_by_one = true;
    alone.steps_ahead = 0;
    Engine oracle(one, alone);
    const AnswersByTag expected = RunAll(oracle, work.requests());
    for (const bool own_thread : {true, false}) {
      const Receipt receipt = RunProgram(model, work, expected,
                                         {strategy, own_thread, seed % 3 != 0, seed}, operations);
      preempted += receipt.preempted;
      cancelled += receipt.cancelled;
      ++seed;
      if (::testing::Test::HasFailure()) return;
    }
  }
  EXPECT_GT(preempted, 20);  // otherwise memory was no test
  EXPECT_GT(cancelled, 100);
}

TEST(RandomPrograms, OnTheCpu) {
  const testing_support::TempDirectory directory;
  LoadOptions load;
  load.model = testing_support::WriteTinyGguf({.window = 0, .seed = 5}, directory.path() / "m.gguf")
                   .string();
  load.precision = "mixed";
  load.threads = 2;
  RunPrograms(load, 1000 * TestRounds());
}

TEST(RandomPrograms, OnSeveralDevices) {
  const testing_support::TempDirectory directory;
  LoadOptions load;
  load.model = testing_support::WriteTinyGguf({.window = 0, .seed = 5}, directory.path() / "m.gguf")
                   .string();
  load.precision = "mixed";
  for (const char* device : {"cpu,cpu", "cpu,cpu,cpu"}) {
    load.device = device;
    RunPrograms(load, 500 * TestRounds());
  }
}

TEST(RandomPrograms, OfLayersThatKeepStates) {
  const testing_support::TempDirectory directory;
  LoadOptions load;
  load.model =
      testing_support::TinyStates("qwen3_5_text", 7).Write(directory.path() / "m").string();
  load.precision = "f32";
  load.threads = 2;
  RunPrograms(load, 500 * TestRounds());
}

TEST(RandomPrograms, OnADevice) {
  const testing_support::TempDirectory directory;
  LoadOptions load;
  load.model = testing_support::WriteTinyGguf(
                   {.family = "qwen3", .hidden = 64, .kv_heads = 2, .head_dim = 64, .seed = 6},
                   directory.path() / "m.gguf")
                   .string();
  load.precision = "mixed";
  load.device = "cuda";
  try {
    RunPrograms(load, 2000 * TestRounds());
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUnsupported) throw;
    GTEST_SKIP() << error.what();
  }
}

}  // namespace
}  // namespace banyan
