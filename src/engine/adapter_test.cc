// Models with an adapter answer as the merged weights do, from every kind of file, and as PEFT did.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "banyan/engine.h"
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
using ::testing::HasSubstr;
using testing_support::AnswersByTag;
using testing_support::RandomModule;
using testing_support::TempDirectory;
using testing_support::TinyModule;
using testing_support::TinyShape;
using testing_support::TinyTensor;

std::shared_ptr<Model> Load(const fs::path& model, const fs::path& adapter,
                            const std::string& precision = "f32") {
  LoadOptions options;
  options.model = model.string();
  options.adapter = adapter.string();
  options.precision = precision;
  options.threads = 1;
  return Model::Load(options);
}

AnswersByTag Answers(const std::shared_ptr<Model>& model) {
  PromptSegment request;
  request.tokens = {5, 17, 3, 111, 42, 8, 9};
  AnswerRequest answer;
  answer.max_new = 12;
  request.answers.push_back(answer);
  Engine engine(model, {});
  return testing_support::RunAll(engine, {request});
}

// A product for every matrix of every layer, under the names that the family's files have.
std::vector<TinyModule> AllModules(const TinyShape& shape) {
  std::vector<TinyModule> modules;
  const testing_support::TinyWeights weights(shape);
  for (const TinyTensor& tensor : weights.tensors()) {
    const bool in_layer = tensor.hf_name.starts_with("model.layers.");
    if (tensor.shape.size() != 2 || !in_layer || !tensor.hf_name.ends_with(".weight")) continue;
    const std::string name = tensor.hf_name.substr(0, tensor.hf_name.size() - 7);  // ".weight"
    modules.push_back(RandomModule(name, tensor.shape[0], tensor.shape[1]));
  }
  return modules;
}

constexpr double kScale = 0.5;
const std::string kConfig = testing_support::LoraConfig(R"("r":2,"lora_alpha":1)");

// The model with the products added to its weights, as a directory.
fs::path WriteMerged(const TinyShape& shape, const std::vector<TinyModule>& modules,
                     const fs::path& directory) {
  fs::create_directories(directory);
  std::ofstream(directory / "config.json") << testing_support::TinyConfigJson(shape);
  testing_support::SafetensorsWriter writer;
  const testing_support::TinyWeights weights(shape);
  for (TinyTensor tensor : weights.tensors()) {
    if (tensor.hf_name.empty()) continue;
    for (const TinyModule& module : modules) {
      if (tensor.hf_name != module.name + ".weight") continue;
      for (size_t i = 0; i < tensor.values.size(); ++i) {
        const auto row = static_cast<std::int64_t>(i) / tensor.shape[1];
        const auto column = static_cast<std::int64_t>(i) % tensor.shape[1];
        tensor.values[i] =
            static_cast<float>(tensor.values[i] + kScale * module.Product(row, column));
      }
    }
    writer.TensorF32(tensor.hf_name, tensor.shape, tensor.values);
  }
  writer.Write(directory / "model.safetensors");
  return directory;
}

void ExpectNear(const AnswersByTag& a, const AnswersByTag& b) {
  EXPECT_EQ(a.at(0).tokens, b.at(0).tokens);
  ASSERT_EQ(a.at(0).logprobs.size(), b.at(0).logprobs.size());
  for (size_t i = 0; i < a.at(0).logprobs.size(); ++i) {
    EXPECT_NEAR(a.at(0).logprobs[i], b.at(0).logprobs[i], 1e-3);
  }
}

class AdaptedFamily : public testing::TestWithParam<const char*> {};

TEST_P(AdaptedFamily, AnswersAsMergedWeightsDoFromBothFormats) {
  const TempDirectory folder;
  const std::string family = GetParam();
  const TinyShape shape{.family = family, .window = family == "gpt_oss" ? 40 : 0};
  const std::vector<TinyModule> modules = AllModules(shape);
  const fs::path adapter =
      testing_support::WriteTinyAdapter(kConfig, modules, folder.path() / "adapter");
  const fs::path directory = testing_support::WriteTinyHuggingFace(shape, folder.path() / "hf");
  const fs::path gguf = testing_support::WriteTinyGguf(shape, folder.path() / "m.gguf");
  const AnswersByTag adapted = Answers(Load(directory, adapter));
  ExpectNear(adapted, Answers(Load(WriteMerged(shape, modules, folder.path() / "merged"), {})));
  EXPECT_NE(adapted.at(0).logprobs, Answers(Load(directory, {})).at(0).logprobs);
  testing_support::ExpectSameAnswers(adapted, Answers(Load(gguf, adapter)));
}

INSTANTIATE_TEST_SUITE_P(Families, AdaptedFamily,
                         testing::Values("llama", "qwen2", "qwen3", "mistral", "phi3", "olmo2",
                                         "qwen3_moe", "gpt_oss"));

// Tied weights are one tensor of the file and two modules of the network.
TEST(AdaptedTies, EmbeddingAndLogitsAreAdaptedApart) {
  const TempDirectory folder;
  const TinyShape shape{.tied = true}, untied{.tied = false};
  const fs::path tied = testing_support::WriteTinyHuggingFace(shape, folder.path() / "tied");
  // The same tied weights with logits of their own, to be merged by the test.
  const auto write_apart = [&](const std::vector<TinyModule>& modules, const fs::path& directory) {
    fs::create_directories(directory);
    std::ofstream(directory / "config.json") << testing_support::TinyConfigJson(untied);
    testing_support::SafetensorsWriter writer;
    const auto put = [&](const std::string& name, const TinyTensor& tensor) {
      std::vector<float> values = tensor.values;
      for (const TinyModule& module : modules) {
        if (name != module.name + ".weight") continue;
        for (size_t i = 0; i < values.size(); ++i) {
          const auto at = static_cast<std::int64_t>(i);
          values[i] += static_cast<float>(
              kScale * module.Product(at / tensor.shape[1], at % tensor.shape[1]));
        }
      }
      writer.TensorF32(name, tensor.shape, values);
    };
    const testing_support::TinyWeights weights(shape);
    for (const TinyTensor& tensor : weights.tensors()) {
      put(tensor.hf_name, tensor);
      if (tensor.hf_name == "model.embed_tokens.weight") put("lm_head.weight", tensor);
    }
    writer.Write(directory / "model.safetensors");
    return directory;
  };
  const TinyModule logits = RandomModule("lm_head", shape.vocab, shape.hidden);
  const TinyModule embedding =
      RandomModule("model.embed_tokens", shape.vocab, shape.hidden, 2, true);
  int number = 0;
  for (const std::vector<TinyModule>& modules :
       {std::vector{logits}, std::vector{embedding}, std::vector{logits, embedding}}) {
    SCOPED_TRACE(++number);
    const fs::path place = folder.path() / std::to_string(number);
    const fs::path adapter = testing_support::WriteTinyAdapter(kConfig, modules, place / "adapter");
    ExpectNear(Answers(Load(tied, adapter)), Answers(Load(write_apart(modules, place / "m"), {})));
  }
}

TEST(AdaptedModel, NamesTheAdapterThatIsAnotherModels) {
  const TempDirectory folder;
  const TinyShape shape;
  const fs::path model = testing_support::WriteTinyHuggingFace(shape, folder.path() / "hf");
  const fs::path deeper = testing_support::WriteTinyAdapter(
      kConfig, AllModules(TinyShape{.layers = 3}), folder.path() / "deeper");
  EXPECT_THAT(testing_support::ErrorMessage(ErrorKind::kFormat, [&] { Load(model, deeper); }),
              HasSubstr("model.layers.2"));
  const fs::path wider = testing_support::WriteTinyAdapter(
      kConfig, AllModules(TinyShape{.ffn = 96}), folder.path() / "wider");
  EXPECT_THAT(testing_support::ErrorMessage(ErrorKind::kFormat, [&] { Load(model, wider); }),
              HasSubstr("gate_proj.lora_B.weight': expected shape [80, 2]"));
}

TEST(AdaptedModel, IdentityTellsOneAdapterFromAnother) {
  const TempDirectory folder;
  const TinyShape shape;
  const fs::path model = testing_support::WriteTinyHuggingFace(shape, folder.path() / "hf");
  const auto identity = [&](const fs::path& adapter) {
    return Json::parse(Load(model, adapter)->identity());
  };
  std::vector<TinyModule> modules = AllModules(shape);
  const Json first =
      identity(testing_support::WriteTinyAdapter(kConfig, modules, folder.path() / "first"));
  const Json again =
      identity(testing_support::WriteTinyAdapter(kConfig, modules, folder.path() / "again"));
  EXPECT_EQ(first, again);
  const Json scaled = identity(testing_support::WriteTinyAdapter(
      testing_support::LoraConfig(R"("r":2,"lora_alpha":2)"), modules, folder.path() / "scaled"));
  modules[0].a[0] += 1.0f;
  const Json other =
      identity(testing_support::WriteTinyAdapter(kConfig, modules, folder.path() / "other"));
  EXPECT_NE(first["adapter"], scaled["adapter"]);
  EXPECT_NE(first["adapter"], other["adapter"]);
  Json without = first;
  without.erase("adapter");
  EXPECT_EQ(without, identity({}));
}

TEST(AdapterOracle, PeftAdapters) {
  for (const fs::path& adapter : testing_support::OraclesOf("lora")) {
    SCOPED_TRACE(adapter);
    const fs::path file = adapter / "golden.json";
    const Json oracle = ParseJson(ReadTextFile(file, 64u << 20), file.string());
    Engine engine(Load(adapter / oracle.at("model").get<std::string>(), adapter), {});
    std::vector<PromptSegment> requests;
    for (const Json& prompt : oracle.at("prompts")) {
      AnswerRequest answer;
      answer.tag = requests.size();
      answer.max_new = static_cast<int>(prompt.at("greedy").size());
      PromptSegment& request = requests.emplace_back();
      request.tokens = prompt.at("ids").get<std::vector<TokenId>>();
      request.answers.push_back(answer);
    }
    const AnswersByTag found = testing_support::RunAll(engine, requests);
    for (size_t i = 0; i < requests.size(); ++i) {
      EXPECT_EQ(found.at(i).tokens,
                oracle.at("prompts")[i].at("greedy").get<std::vector<TokenId>>());
    }
  }
}

}  // namespace
}  // namespace banyan
