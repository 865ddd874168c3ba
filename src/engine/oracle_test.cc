// Answers that other software gave, one by one: greedy continuations, the `stacked` forests and the
// values of skeletons, decoded together under every strategy.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <filesystem>
#include <span>

#include "banyan/engine.h"
#include "base/files.h"
#include "base/json.h"
#include "support/oracle_folders.h"
#include "support/workload.h"

namespace banyan {
namespace {

namespace fs = std::filesystem;
using testing_support::AnswersByTag;
using testing_support::RunAll;

constexpr Strategy kExactStrategies[] = {Strategy::kFlat, Strategy::kPaged, Strategy::kTree,
                                         Strategy::kAuto, Strategy::kStacked};
// Of models whose layers keep states: contexts are not stacked there.
constexpr auto kStateStrategies = std::span(kExactStrategies).first(4);

std::vector<TokenId> IdsOf(const Json& json) { return json.get<std::vector<TokenId>>(); }

// Requests of an oracle file, with the expected tokens by tag.
struct Oracle {
  std::vector<PromptSegment> requests;
  std::vector<std::vector<TokenId>> expected;
  std::vector<bool> without_stop;  // [expected] values of skeletons have no stop token

  void Ask(PromptSegment& segment, const Json& answer, int max_new,
           std::vector<TokenId> stop_tokens) {
    AnswerRequest request;
    request.tag = expected.size();
    request.max_new = max_new;
    request.stop_tokens = std::move(stop_tokens);
    segment.answers.push_back(std::move(request));
    expected.push_back(IdsOf(answer));
    without_stop.push_back(false);
  }

  // A template's pieces with a value after each, `kmax` a number or one for every piece.
  void AskSkeleton(const Json& skeleton) {
    PromptSegment root;
    root.tokens = IdsOf(skeleton.at("prompt"));
    auto position = static_cast<std::int32_t>(root.tokens.size());
    const Json& kmax = skeleton.at("kmax");
    PromptSegment* piece = &root;
    for (size_t n = 0; n < skeleton.at("attributes").size(); ++n) {
      piece = &piece->below.emplace_back();
      piece->tokens = IdsOf(skeleton.at("attributes")[n]);
      piece->first_position = position;
      const int room = kmax.is_array() ? kmax[n].get<int>() : kmax.get<int>();
      position += static_cast<std::int32_t>(piece->tokens.size()) + room;
      Ask(*piece, skeleton.at("values")[n], room, {skeleton.at("stop").get<TokenId>()});
      without_stop.back() = true;
    }
    root.below.front().skeleton = true;
    requests.push_back(std::move(root));
  }
};

Oracle ReadOracle(const fs::path& path) {
  const Json json = ParseJson(ReadTextFile(path, 64u << 20), path.string());
  Oracle oracle;
  for (const Json& prompt : json.at("prompts")) {
    PromptSegment request;
    request.tokens = IdsOf(prompt.at("ids"));
    const Json& greedy = prompt.at("greedy");
    oracle.Ask(request, greedy, static_cast<int>(greedy.size()), {});
    oracle.requests.push_back(std::move(request));
  }
  for (const char* skeleton : {"skeleton", "skeleton_k"}) {
    if (json.contains(skeleton)) oracle.AskSkeleton(json.at(skeleton));
  }
  if (!json.contains("stacked")) return oracle;
  const Json& stacked = json.at("stacked");
  PromptSegment root;
  root.tokens = IdsOf(stacked.at("p"));
  const Json& stop = stacked.at("stop");
  const std::vector<TokenId> stops =
      stop.is_array() ? IdsOf(stop) : std::vector<TokenId>{stop.get<TokenId>()};
  for (const Json& context : stacked.at("contexts")) {
    PromptSegment& below = root.below.emplace_back();
    below.tokens = IdsOf(context.at("c"));
    for (const Json& question : context.at("questions")) {
      PromptSegment& asked = below.below.emplace_back();
      asked.tokens = IdsOf(question.at("x"));
      oracle.Ask(asked, question.at("answer"), stacked.at("max_new").get<int>(), stops);
    }
  }
  oracle.requests.push_back(std::move(root));
  return oracle;
}

// The strategies must also agree on every bit of the logprobs.
void ExpectOracle(const fs::path& model_path, const fs::path& golden,
                  std::span<const Strategy> strategies = kExactStrategies,
                  const char* device = "cpu") {
  const Oracle oracle = ReadOracle(golden);
  LoadOptions load;
  load.device = device;
  load.model = model_path.string();
  load.precision = "f32";
  load.threads = 1;
  const std::shared_ptr<Model> model = Model::Load(load);
  AnswersByTag first;
  for (const Strategy strategy : strategies) {
    for (const int rows : {0, 13}) {
      SCOPED_TRACE(fmt::format("{} {} rows {}", model_path.string(), StrategyName(strategy), rows));
      EngineOptions options;
      options.strategy = strategy;
      options.batch_rows = rows;
      Engine engine(model, options);
      AnswersByTag found = RunAll(engine, oracle.requests);
      for (size_t tag = 0; tag < oracle.expected.size(); ++tag) {
        std::vector<TokenId> tokens = found.at(tag).tokens;
        const bool stopped = found.at(tag).finish == FinishReason::kStopToken;
        if (oracle.without_stop[tag] && stopped) tokens.pop_back();
        EXPECT_EQ(tokens, oracle.expected[tag]) << "answer " << tag;
      }
      if (first.empty()) {
        first = std::move(found);
      } else {
        testing_support::ExpectSameAnswers(first, found);
      }
    }
  }
}

TEST(EngineOracle, HuggingFaceModels) {
  for (const char* group : {"models", "families"}) {
    for (const fs::path& model : testing_support::OraclesOf(group)) {
      ExpectOracle(model, model / "golden.json");
    }
  }
}

TEST(EngineOracle, LayersThatKeepStates) {
  for (const fs::path& model : testing_support::OraclesOf("hybrids")) {
    for (const char* device : {"cpu", "reference"}) {
      ExpectOracle(model, model / "golden.json", kStateStrategies, device);
    }
  }
}

TEST(EngineOracle, GgufModels) {
  for (const fs::path& model : testing_support::OraclesOf("gguf", ".gguf")) {
    ExpectOracle(model, fs::path(model).replace_extension(".json"));
  }
}

}  // namespace
}  // namespace banyan
