// What makes two models different, and that a remembered hash is never that of other bytes.
#include "load/model_identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <chrono>
#include <fstream>
#include <set>
#include <thread>

#include "support/temp_directory.h"
#include "support/tiny_model.h"
#include "support/tiny_quantised.h"

namespace banyan {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using testing_support::TempDirectory;
using testing_support::TinyShape;

Json Identity(const fs::path& model, const std::string& precision = "f32") {
  LoadOptions options;
  options.model = model.string();
  options.precision = precision;
  options.threads = 1;
  return Json::parse(Model::Load(options)->identity());
}

// Names of the parts that differ.
std::set<std::string> Differences(const Json& a, const Json& b) {
  std::set<std::string> names;
  for (const Json* one : {&a, &b}) {
    for (const auto& [name, value] : one->items()) {
      if (a.value(name, Json()) != b.value(name, Json())) names.insert(name);
    }
  }
  return names;
}

void FlipByte(const fs::path& path, std::int64_t from_end) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(-from_end, std::ios::end);
  const auto flipped = static_cast<char>(file.get() ^ 1);
  file.seekp(-from_end, std::ios::end);
  file.put(flipped);
}

class HuggingFaceIdentity : public testing::Test {
 protected:
  void SetUp() override {
    fs::copy(BANYAN_SOURCE_DIR "/tests/data/tokenizers/byte_level_bpe.json",
             Path("tokenizer.json"));
    Write("tokenizer_config.json", R"({"chat_template":"{{ x }}","model_max_length":100})");
    first_ = Identity(model_);
  }
  fs::path Path(const std::string& name) const { return model_ / name; }
  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(Path(name)) << text;
  }
  std::set<std::string> Changed() const { return Differences(first_, Identity(model_)); }

  TempDirectory directory_;
  const TinyShape shape_{.vocab = 2000};
  const fs::path model_ = testing_support::WriteTinyHuggingFace(shape_, directory_.path() / "hf");
  Json first_;
};

TEST_F(HuggingFaceIdentity, PartsAreNamed) {
  EXPECT_THAT(Changed(), ElementsAre());
  FlipByte(Path("model.safetensors"), 1000);
  EXPECT_THAT(Changed(), ElementsAre("weights"));
  FlipByte(Path("model.safetensors"), 1000);
  Write("tokenizer_config.json", R"({"chat_template":"{{ y }}","model_max_length":100})");
  EXPECT_THAT(Changed(), ElementsAre("chat template"));
  Write("tokenizer_config.json", R"({"chat_template":"{{ x }}","model_max_length":101})");
  EXPECT_THAT(Changed(), ElementsAre("tokenizer"));
  Write("tokenizer_config.json", R"({"chat_template":"{{ x }}","model_max_length":100})");
  Write("generation_config.json", R"({"eos_token_id":[5,6]})");
  EXPECT_THAT(Changed(), ElementsAre("end tokens"));
  fs::remove(Path("generation_config.json"));
  std::string config = testing_support::TinyConfigJson(shape_);
  config.replace(config.find("1e-5"), 4, "1e-6");
  Write("config.json", config);
  EXPECT_THAT(Changed(), ElementsAre("config rms_norm_eps"));
  Write("config.json", testing_support::TinyConfigJson(shape_));
  EXPECT_THAT(Changed(), ElementsAre());
  EXPECT_THAT(Differences(first_, Identity(model_, "mixed")),
              ElementsAre("activations", "kv type", "precision"));
}

// Experts that are blocks and scales.
TEST(ModelIdentity, BytesAreWeightsToo) {
  const TempDirectory directory;
  const TinyShape shape{.family = "gpt_oss", .hidden = 64, .ffn = 32, .window = 24};
  const auto [blocks, plain] = testing_support::WriteTinyMxfp4(shape, directory.path());
  const Json first = Identity(blocks);
  EXPECT_EQ(DescribeModel(blocks.string()).parameters, DescribeModel(plain.string()).parameters);
  const fs::path file = blocks / "model.safetensors";
  const auto size = static_cast<std::int64_t>(fs::file_size(file));
  for (std::int64_t from_end : {size / 3, size / 2}) {
    FlipByte(file, from_end);
    EXPECT_THAT(Differences(first, Identity(blocks)), ElementsAre("weights"));
    FlipByte(file, from_end);
  }
}

TEST(ModelIdentity, AFileOfTheSameSizeAndTimeIsReadAgain) {
  const TempDirectory directory;
  ::setenv("BANYAN_CACHE", directory.path().c_str(), 1);
  const TinyShape large{.vocab = 360'000, .layers = 1, .tied = true};  // worth remembering: 69 MB
  const fs::path model = testing_support::WriteTinyGguf(large, directory.path() / "m.gguf");
  const auto written = fs::last_write_time(model);
  fs::last_write_time(model, written + std::chrono::hours(1));  // however slow this machine is
  const Json first = Identity(model);
  EXPECT_FALSE(fs::exists(directory.path() / "weights.txt")) << "written just now";
  fs::last_write_time(model, written);
  std::this_thread::sleep_for(std::chrono::milliseconds(4100));
  EXPECT_EQ(Identity(model), first);
  EXPECT_TRUE(fs::exists(directory.path() / "weights.txt"));
  EXPECT_EQ(Identity(model), first);
  const auto time = fs::last_write_time(model);
  FlipByte(model, 1000);
  fs::last_write_time(model, time);
  EXPECT_THAT(Differences(first, Identity(model)), ElementsAre("weights"));
  ::unsetenv("BANYAN_CACHE");
}

TEST(ModelIdentity, FilesOfAModel) {
  const TempDirectory directory;
  const fs::path gguf = testing_support::WriteTinyGguf({}, directory.path() / "m.gguf");
  EXPECT_THAT(FilesOfModel(gguf.string()), ElementsAre(gguf.string()));
  const std::string first =
      testing_support::WriteTinyGguf({}, directory.path() / "s-00001-of-00002.gguf");
  const std::string second = directory.Write("s-00002-of-00002.gguf", "").string();
  EXPECT_THAT(FilesOfModel(first), ElementsAre(first, second));
  const fs::path hf = testing_support::WriteTinyHuggingFace({}, directory.path() / "hf");
  directory.Write("hf/out.jsonl", "not the model's");
  EXPECT_THAT(FilesOfModel(hf.string()),
              ElementsAre((hf / "config.json").string(), (hf / "model.safetensors").string()));
}

}  // namespace
}  // namespace banyan
