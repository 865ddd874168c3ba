// Adapters that are kept apart, one for each request: an answer has the bits that it has alone,
// whoever else is computed beside it and with which adapter; nothing is shared between adapters;
// answers agree with merged weights and with other software's (../shared/golden/lora).
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "banyan/engine.h"
#include "banyan/kv_store.h"
#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "support/error_message.h"
#include "support/oracle_folders.h"
#include "support/temp_directory.h"
#include "support/tiny_adapter.h"
#include "support/tiny_model.h"
#include "support/workload.h"

namespace banyan {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing_support::AnswersByTag;
using testing_support::ErrorMessage;
using testing_support::ExpectSameAnswer;
using testing_support::ExpectSameAnswers;
using testing_support::RunAll;
using testing_support::TempDirectory;
using testing_support::TinyModule;
using testing_support::TinyShape;
using testing_support::Workload;

constexpr Strategy kAllExact[] = {Strategy::kFlat, Strategy::kPaged, Strategy::kStacked,
                                  Strategy::kTree, Strategy::kAuto};

// Products for the layers' matrices whose names end with one of `ends`.
std::vector<TinyModule> ModulesEnding(const TinyShape& shape, int rank,
                                      const std::vector<std::string>& ends) {
  std::vector<TinyModule> modules;
  const testing_support::TinyWeights weights(shape);
  for (const testing_support::TinyTensor& tensor : weights.tensors()) {
    if (tensor.shape.size() != 2 || !tensor.hf_name.ends_with(".weight")) continue;
    const std::string name = tensor.hf_name.substr(0, tensor.hf_name.size() - 7);
    for (const std::string& end : ends) {
      if (!name.ends_with(end)) continue;
      modules.push_back(
          testing_support::RandomModule(name, tensor.shape[0], tensor.shape[1], rank));
      break;
    }
  }
  return modules;
}

// A tiny model with three adapters: "all" (every matrix of the layers), "attention" (queries and
// values of a larger rank), "ffn" (feed-forward and logits).
class TinyVariants {
 public:
  explicit TinyVariants(const TinyShape& shape) : shape_(shape) {
    testing_support::WriteTinyGguf(shape, folder_.path() / "m.gguf");
    testing_support::WriteTinyHuggingFace(shape, folder_.path() / "hf");
    Add("all", 2, {"_proj"});
    Add("attention", 17, {"q_proj", "v_proj", "qkv_proj"});
    Add("ffn", 3, {"gate_proj", "up_proj", "gate_up_proj", "down_proj", "lm_head"});
  }

  void Add(const std::string& name, int rank, const std::vector<std::string>& ends) {
    Add(name, rank, ModulesEnding(shape_, rank, ends));
  }
  void Add(const std::string& name, int rank, const std::vector<TinyModule>& modules) {
    const std::string config =
        testing_support::LoraConfig(fmt::format(R"("r":{},"lora_alpha":{})", rank, 0.5 * rank));
    testing_support::WriteTinyAdapter(config, modules, folder_.path() / name);
    names_.push_back(name);
  }

  std::string directory(const std::string& name) const { return (folder_.path() / name).string(); }
  const TempDirectory& folder() const { return folder_; }
  const std::vector<std::string>& names() const { return names_; }

  // With all adapters.
  LoadOptions Options(const std::string& device = "cpu", const std::string& precision = "f32") {
    LoadOptions options;
    options.model = directory("m.gguf");
    options.device = device;
    options.precision = precision;
    options.threads = 2;
    for (const std::string& name : names_) options.adapters.push_back({name, directory(name)});
    return options;
  }

 private:
  TinyShape shape_;
  TempDirectory folder_;
  std::vector<std::string> names_;
};

void Retag(PromptSegment& segment, std::uint64_t more) {
  for (AnswerRequest& answer : segment.answers) answer.tag += more;
  for (ExpertRequest& expert : segment.experts) expert.tag += more;
  for (PromptSegment& below : segment.below) Retag(below, more);
}

// Every request once without an adapter and once with each: what could be shared wrongly is there.
std::vector<PromptSegment> WithEach(const std::vector<PromptSegment>& requests,
                                    const std::vector<std::string>& names, std::uint64_t answers) {
  std::vector<PromptSegment> all;
  for (const PromptSegment& request : requests) {
    for (size_t n = 0; n <= names.size(); ++n) {
      PromptSegment& added = all.emplace_back(request);
      if (n > 0) added.adapter = names[n - 1];
      Retag(added, n * answers);
    }
  }
  return all;
}

AnswersByTag OneByOne(const std::shared_ptr<Model>& model,
                      const std::vector<PromptSegment>& requests) {
  EngineOptions options;
  options.strategy = Strategy::kFlat;
  options.one_by_one = true;
  options.steps_ahead = 0;
  Engine engine(model, options);
  return RunAll(engine, requests);
}

struct Amount {
  int forests = 2;
  testing_support::WorkloadLimits limits;
  bool preempts = true;  // it is known to, with the least memory
};

// Random forests with all adapters, in every way: batches that divide prompts anywhere, hardly any
// memory, steps ahead, requests that come between steps.
void ExpectApartExact(const LoadOptions& load, const Amount& amount) {
  const std::shared_ptr<Model> model = Model::Load(load);
  std::int64_t preempted = 0;
  for (int seed = 1; seed <= amount.forests * testing_support::TestRounds(); ++seed) {
    const Workload work(static_cast<std::uint32_t>(seed), amount.limits);
    const std::vector<PromptSegment> requests =
        WithEach(work.requests(), model->adapters(), work.answers());
    const AnswersByTag expected = OneByOne(model, requests);
    // What adapters change is seen.
    std::set<std::vector<float>> first_answers;
    for (size_t n = 0; n <= model->adapters().size(); ++n) {
      for (std::uint64_t tag = n * work.answers(); tag < (n + 1) * work.answers(); ++tag) {
        if (expected.at(tag).logprobs.empty()) continue;
        first_answers.insert(expected.at(tag).logprobs);
        break;
      }
    }
    EXPECT_EQ(first_answers.size(), model->adapters().size() + 1);
    int way = 0;
    for (const Strategy strategy : kAllExact) {
      SCOPED_TRACE(fmt::format("seed {}, {}", seed, StrategyName(strategy)));
      EngineOptions options;
      options.strategy = strategy;
      options.batch_rows = way % 2 == 0 ? 24 : 0;
      options.steps_ahead = way % 2;
      options.contexts_per_stack = 2;
      options.stacks = 3;
      if (way % 3 == 0) {
        options.kv_memory =
            testing_support::PageBytes(*model) * (work.LargestStreamPages(kPageTokens) + 2);
      }
      Engine engine(model, options);
      ExpectSameAnswers(expected, RunAll(engine, requests, way % 2 == 0 ? -1 : 2));
      preempted += engine.receipt().preempted;
      ++way;
      if (::testing::Test::HasFailure()) return;
    }
  }
  if (amount.preempts) {
    EXPECT_GT(preempted, 0);  // otherwise memory was no test
  }
}

const testing_support::WorkloadLimits kSmall = {.roots = 3,
                                                .depth = 3,
                                                .children = 2,
                                                .path_tokens = 220,
                                                .root_tokens = 300,
                                                .least_answers = 8,
                                                .max_new = 70,
                                                .around_groups = false};

TEST(AdaptersApart, AnswersAreThoseAloneOnTheCpu) {
  TinyVariants variants({.seed = 3});
  ExpectApartExact(variants.Options("cpu", "f32"), {1, kSmall});
  ExpectApartExact(variants.Options("cpu", "mixed"), {1, kSmall});
}

// SwiGLU is fused with its product where the width allows: 64 does.
TEST(AdaptersApart, AnswersAreThoseAloneWhereProductsAreFused) {
  TinyVariants variants({.family = "qwen3", .hidden = 64, .head_dim = 16, .ffn = 64, .seed = 4});
  ExpectApartExact(variants.Options("cpu", "mixed"), {1, kSmall});
}

TEST(AdaptersApart, AnswersAreThoseAloneOnTheReference) {
  TinyVariants variants({.family = "phi3", .layers = 1, .seed = 5});
  testing_support::WorkloadLimits limits = kSmall;
  limits.path_tokens = 90;
  limits.root_tokens = 100;
  limits.least_answers = 4;
  limits.max_new = 40;
  ExpectApartExact(variants.Options("reference", "f32"), {1, limits});
}

void ExpectApartExactInShards(const std::string& device) {
  TinyVariants variants({.family = "qwen3", .hidden = 64, .head_dim = 16, .ffn = 64, .seed = 7});
  for (const char* precision : {"f32", "mixed"}) {
    LoadOptions options = variants.Options(device, precision);
    const std::shared_ptr<Model> one = Model::Load(options);
    const Workload work(1, kSmall);
    const std::vector<PromptSegment> requests =
        WithEach(work.requests(), one->adapters(), work.answers());
    const AnswersByTag expected = OneByOne(one, requests);
    for (const int shards : {2, 3}) {
      SCOPED_TRACE(fmt::format("{} {} shards", precision, shards));
      options.tensor_parallel = shards;
      Engine engine(Model::Load(options), {});
      ExpectSameAnswers(expected, RunAll(engine, requests));
    }
  }
}

TEST(AdaptersApart, AnswersOfShardsAreThoseOfOne) { ExpectApartExactInShards("cpu"); }

TEST(AdaptersApart, AnswersOfShardsOnCudaAreThoseOfOne) {
  try {
    MakeKernels("cuda", {});
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUnsupported) throw;
    GTEST_SKIP() << error.what();
  }
  ExpectApartExactInShards("cuda");
}

TEST(AdaptersApart, AnswersAreThoseAloneOnADevice) {
  testing_support::WorkloadLimits limits = kSmall;
  limits.max_new = 40;
  for (const char* family : {"qwen3", "olmo2", "llama"}) {
    for (const char* precision : {"mixed", "f32"}) {
      SCOPED_TRACE(fmt::format("{} {}", family, precision));
      TinyVariants variants(
          {.family = family, .hidden = 64, .kv_heads = 2, .head_dim = 64, .ffn = 96, .seed = 6});
      try {
        ExpectApartExact(variants.Options("cuda", precision), {1, limits, false});
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::kUnsupported) throw;
        GTEST_SKIP() << error.what();
      }
    }
  }
}

PromptSegment LongPrompt(const std::string& adapter, std::uint64_t tag = 0) {
  PromptSegment root;
  for (TokenId i = 0; i < 200; ++i) root.tokens.push_back(i % 50);
  root.adapter = adapter;
  PromptSegment& question = root.below.emplace_back();
  question.tokens.assign(70, 7);
  AnswerRequest answer;
  answer.tag = tag;
  answer.max_new = 6;
  question.answers.push_back(answer);
  return root;
}

Answer AskOne(Engine& engine, const PromptSegment& request) {
  return RunAll(engine, {request}).begin()->second;
}

TEST(AdaptersApart, ShareNothing) {
  TinyVariants variants({.seed = 7});
  Engine engine(Model::Load(variants.Options()), {});
  const Answer base = AskOne(engine, LongPrompt(""));
  const Answer first = AskOne(engine, LongPrompt("all"));
  const Answer second = AskOne(engine, LongPrompt("attention"));
  EXPECT_EQ(first.cached_tokens, 0);
  EXPECT_EQ(second.cached_tokens, 0);
  EXPECT_NE(first.logprobs, base.logprobs);
  EXPECT_NE(first.logprobs, second.logprobs);
  for (const auto& [name, answer] :
       {std::pair("", &base), std::pair("all", &first), std::pair("attention", &second)}) {
    const Answer again = AskOne(engine, LongPrompt(name));
    EXPECT_GE(again.cached_tokens, 200);
    ExpectSameAnswer(*answer, again);
  }
}

// Nothing that runs without an adapter changes because some are loaded.
TEST(AdaptersApart, LeaveTheModelItselfAsItIs) {
  TinyVariants variants({.seed = 8});
  for (const char* precision : {"f32", "mixed"}) {
    LoadOptions options = variants.Options("cpu", precision);
    const std::shared_ptr<Model> with = Model::Load(options);
    options.adapters.clear();
    const std::shared_ptr<Model> without = Model::Load(options);
    EXPECT_EQ(with->adapters(), variants.names());
    EXPECT_TRUE(without->adapters().empty());
    const Workload work(9, kSmall);
    std::vector<PromptSegment> mixed = WithEach(work.requests(), with->adapters(), work.answers());
    Engine one(without, {}), other(with, {});
    const AnswersByTag expected = RunAll(one, work.requests());
    const AnswersByTag found = RunAll(other, mixed);
    for (const auto& [tag, answer] : expected) ExpectSameAnswer(answer, found.at(tag));
    Json identity = Json::parse(with->identity());
    EXPECT_EQ(identity.at("adapters").size(), 3u);
    identity.erase("adapters");
    EXPECT_EQ(identity, Json::parse(without->identity()));
  }
}

class ApartInFamily : public testing::TestWithParam<const char*> {};

// Of both formats: GGUF files may have the rows of Q and K in another order.
TEST_P(ApartInFamily, AnswersAsMergedWeightsDo) {
  const std::string family = GetParam();
  TinyVariants variants({.family = family, .window = family == "gpt_oss" ? 40 : 0, .seed = 2});
  const Workload work(11, {.roots = 1,
                           .depth = 2,
                           .path_tokens = 60,
                           .root_tokens = 60,
                           .least_answers = 2,
                           .around_groups = false,
                           .gaps = false});
  const std::shared_ptr<Model> gguf = Model::Load(variants.Options());
  LoadOptions options = variants.Options();
  options.model = variants.directory("hf");
  const std::shared_ptr<Model> hf = Model::Load(options);
  for (const std::string& name : variants.names()) {
    SCOPED_TRACE(name);
    std::vector<PromptSegment> requests = work.requests();
    for (PromptSegment& request : requests) request.adapter = name;
    Engine apart(gguf, {}), other(hf, {});
    const AnswersByTag found = RunAll(apart, requests);
    ExpectSameAnswers(found, RunAll(other, requests));
    options.adapters.clear();
    options.adapter = variants.directory(name);
    Engine merged(Model::Load(options), {});
    const AnswersByTag expected = RunAll(merged, work.requests());
    for (const auto& [tag, answer] : expected) {
      EXPECT_EQ(answer.tokens, found.at(tag).tokens);
      ASSERT_EQ(answer.logprobs.size(), found.at(tag).logprobs.size());
      for (size_t i = 0; i < answer.logprobs.size(); ++i) {
        EXPECT_NEAR(answer.logprobs[i], found.at(tag).logprobs[i], 1e-3);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, ApartInFamily,
                         testing::Values("llama", "qwen2", "qwen3", "mistral", "phi3", "olmo2",
                                         "gpt_oss"));

TEST(AdaptersApart, ExpertsAreAdaptedInTheWeightsAlone) {
  TinyVariants variants({.family = "qwen3_moe", .seed = 15});  // "all" has products for experts
  EXPECT_THAT(ErrorMessage(ErrorKind::kUnsupported, [&] { Model::Load(variants.Options()); }),
              AllOf(HasSubstr("mlp.experts.0.gate_proj"), HasSubstr("merged")));
}

// A template's values and an answer of several experts, with an adapter and beside others.
TEST(AdaptersApart, ServeSkeletonsAndPanels) {
  TinyVariants variants({.seed = 12});
  const std::shared_ptr<Model> model = Model::Load(variants.Options());
  const auto tokens = [](int count, int first) {
    std::vector<TokenId> values;
    for (int i = 0; i < count; ++i) values.push_back((first + 7 * i) % 200);
    return values;
  };
  std::vector<PromptSegment> requests;
  PromptSegment page;
  page.tokens = tokens(150, 3);
  PromptSegment* piece = &page;
  std::int32_t position = 150;
  for (int n = 0; n < 3; ++n) {
    piece = &piece->below.emplace_back();
    piece->tokens = tokens(4, 20 + n);
    piece->first_position = position;
    AnswerRequest value;
    value.tag = static_cast<std::uint64_t>(n);
    value.max_new = 9;
    piece->answers.push_back(value);
    position += 4 + 9;
  }
  page.below.front().skeleton = true;
  requests.push_back(page);
  PromptSegment panel;
  panel.tokens = tokens(30, 5);
  PromptSegment question;
  question.tokens = tokens(6, 9);
  for (int k = 0; k < 2; ++k) {
    PromptSegment& document = panel.below.emplace_back();
    document.tokens = tokens(140 + k, 40 + k);
    document.below.push_back(question);
    document.below.back().experts.push_back({3, 0.5 + 0.25 * k});
  }
  AnswerRequest answer;
  answer.tag = 3;
  answer.max_new = 8;
  answer.panel = PanelOptions{};
  question.answers.push_back(answer);
  panel.below.push_back(question);
  requests.push_back(panel);

  const std::vector<PromptSegment> all = WithEach(requests, model->adapters(), 4);
  AnswersByTag expected;
  for (const PromptSegment& request : all) expected.merge(OneByOne(model, {request}));
  EXPECT_NE(expected.at(0).logprobs, expected.at(4).logprobs);
  EXPECT_NE(expected.at(3).logprobs, expected.at(7).logprobs);
  for (const int pages : {0, 40}) {
    EngineOptions options;
    options.strategy = Strategy::kTree;
    options.batch_rows = 32;
    options.kv_memory = pages * testing_support::PageBytes(*model);
    Engine engine(model, options);
    ExpectSameAnswers(expected, RunAll(engine, all));
  }
}

// What a store has of one adapter is nothing to another, nor to the model itself.
TEST(AdaptersApart, HaveNamesOfTheirOwnInAStore) {
  TinyVariants variants({.seed = 13});
  const std::shared_ptr<Model> model = Model::Load(variants.Options());
  const auto with_store = [&](const std::string& adapter, bool save) {
    KvStoreOptions store;
    store.directory = variants.directory("store");
    store.access = save ? KvStoreOptions::Access::kWrite : KvStoreOptions::Access::kRead;
    EngineOptions options;
    options.kv_store = KvStore::Open(store);
    options.kv_save = save;
    Engine engine(model, options);
    PromptSegment request = LongPrompt(adapter);
    request.keep_as = "test";
    AnswersByTag answers = RunAll(engine, {request});
    if (save) options.kv_store->Finish();
    return std::pair(answers.begin()->second, engine.receipt());
  };
  const auto [fresh, saved] = with_store("all", true);
  EXPECT_EQ(saved.saved_tokens, 200);
  EXPECT_EQ(with_store("", false).second.loaded_tokens, 0);
  EXPECT_EQ(with_store("ffn", false).second.loaded_tokens, 0);
  const auto [loaded, receipt] = with_store("all", false);
  EXPECT_EQ(receipt.loaded_tokens, 200);
  ExpectSameAnswer(fresh, loaded);
}

TEST(AdaptersApart, RefuseWhatTheyAreNot) {
  TinyVariants variants({.seed = 14});
  Engine engine(Model::Load(variants.Options()), {});
  EXPECT_THAT(ErrorMessage(ErrorKind::kInput, [&] { engine.Submit(LongPrompt("none")); }),
              AllOf(HasSubstr("'none'"), HasSubstr("all, attention, ffn")));
  PromptSegment below = LongPrompt("");
  below.below.front().adapter = "all";
  EXPECT_THAT(ErrorMessage(ErrorKind::kInput, [&] { engine.Submit(below); }),
              AllOf(HasSubstr("below the first"), HasSubstr("'all'")));

  LoadOptions twice = variants.Options();
  twice.adapters.push_back(twice.adapters.front());
  EXPECT_THAT(ErrorMessage(ErrorKind::kUsage, [&] { Model::Load(twice); }),
              HasSubstr("a name of its own"));
  LoadOptions none = variants.Options();
  none.adapters = {{"x", variants.directory("nowhere")}};
  EXPECT_THAT(ErrorMessage(ErrorKind::kNotFound, [&] { Model::Load(none); }), HasSubstr("nowhere"));

  const auto refuse = [&](ErrorKind kind, const std::string& name,
                          const std::vector<TinyModule>& modules) {
    variants.Add(name, 2, modules);
    LoadOptions options = variants.Options();
    options.adapters = {{name, variants.directory(name)}};
    return ErrorMessage(kind, [&] { Model::Load(options); });
  };
  EXPECT_THAT(refuse(ErrorKind::kUnsupported, "embedding",
                     {testing_support::RandomModule("model.embed_tokens", 200, 48, 2, true)}),
              AllOf(HasSubstr("model.embed_tokens"), HasSubstr("merged")));
  EXPECT_THAT(
      refuse(ErrorKind::kFormat, "deep", ModulesEnding(TinyShape{.layers = 3}, 2, {"q_proj"})),
      HasSubstr("model.layers.2"));
  std::vector<TinyModule> infinite = ModulesEnding(TinyShape{}, 2, {"up_proj"});
  infinite[0].b[0] = std::numeric_limits<float>::infinity();
  EXPECT_THAT(refuse(ErrorKind::kFormat, "infinite", infinite),
              AllOf(HasSubstr("up_proj.lora_B"), HasSubstr("not finite")));
}

// Answers that PEFT gave, with adapters kept apart and the same prompts without one in between.
TEST(AdapterOracle, PeftAdaptersKeptApart) {
  for (const fs::path& adapter : testing_support::OraclesOf("lora")) {
    SCOPED_TRACE(adapter);
    const fs::path file = adapter / "golden.json";
    const Json oracle = ParseJson(ReadTextFile(file, 64u << 20), file.string());
    LoadOptions options;
    options.model = (adapter / oracle.at("model").get<std::string>()).string();
    options.adapters = {{"peft", adapter.string()}};
    options.precision = "f32";
    options.threads = 1;
    Engine engine(Model::Load(options), {});
    std::vector<PromptSegment> requests;
    for (const Json& prompt : oracle.at("prompts")) {
      for (const bool adapted : {true, false}) {
        AnswerRequest answer;
        answer.tag = requests.size();
        answer.max_new = static_cast<int>(prompt.at("greedy").size());
        answer.want_logits = true;
        PromptSegment& request = requests.emplace_back();
        request.tokens = prompt.at("ids").get<std::vector<TokenId>>();
        if (adapted) request.adapter = "peft";
        request.answers.push_back(answer);
      }
    }
    const AnswersByTag found = RunAll(engine, requests);
    size_t tag = 0;
    for (const Json& prompt : oracle.at("prompts")) {
      const Answer& answer = found.at(tag);
      EXPECT_EQ(answer.tokens, prompt.at("greedy").get<std::vector<TokenId>>());
      const auto logits = prompt.at("last_logits").get<std::vector<float>>();
      ASSERT_EQ(answer.prompt_logits.size(), logits.size());
      for (size_t i = 0; i < logits.size(); ++i) {
        EXPECT_NEAR(answer.prompt_logits[i], logits[i], 2e-3);
      }
      EXPECT_NE(answer.prompt_logits, found.at(tag + 1).prompt_logits);
      tag += 2;
    }
  }
}

}  // namespace
}  // namespace banyan
