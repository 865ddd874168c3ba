#include "hub/locate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include "banyan/error.h"
#include "program/models.h"
#include "support/error_message.h"
#include "support/temp_directory.h"

namespace banyan {
namespace {

using testing::HasSubstr;
using testing_support::TempDirectory;

class Locate : public testing::Test {
 protected:
  void SetUp() override { ::setenv("HF_HUB_CACHE", (directory_.path() / "hub").c_str(), 1); }
  void TearDown() override { ::unsetenv("HF_HUB_CACHE"); }

  std::string MessageOf(const std::string& name, ErrorKind kind = ErrorKind::kNotFound) {
    return testing_support::ErrorMessage(kind, [&] { LocateModel(name); });
  }

  TempDirectory directory_;
};

TEST_F(Locate, GgufFile) {
  const auto path = directory_.Write("m.gguf", "x");
  const ModelFiles files = LocateModel(path.string());
  EXPECT_EQ(files.kind, ModelKind::kGguf);
  EXPECT_EQ(files.weights, path);
  EXPECT_FALSE(files.tokenizer.has_value());
  const auto other = directory_.Write("m.bin", "x");
  EXPECT_THAT(MessageOf(other.string(), ErrorKind::kUsage), HasSubstr("expected a .gguf file"));
}

TEST_F(Locate, Directory) {
  directory_.Write("m/readme", "");
  const std::string name = (directory_.path() / "m").string();
  EXPECT_THAT(MessageOf(name), HasSubstr("no config.json"));
  directory_.Write("m/config.json", "{}");
  EXPECT_THAT(MessageOf(name), HasSubstr("expected model.safetensors"));
  directory_.Write("m/pytorch_model.bin", "");
  EXPECT_THAT(MessageOf(name), HasSubstr("pytorch_model.bin is not read"));
  directory_.Write("m/model.safetensors", "");
  directory_.Write("m/tokenizer.json", "");
  ModelFiles files = LocateModel(name);
  EXPECT_EQ(files.kind, ModelKind::kHuggingFace);
  EXPECT_EQ(files.weights.filename(), "model.safetensors");
  EXPECT_EQ(files.tokenizer->filename(), "tokenizer.json");
  EXPECT_FALSE(files.generation_config.has_value());
  directory_.Write("m/model.safetensors.index.json", "");
  EXPECT_EQ(LocateModel(name).weights.filename(), "model.safetensors.index.json");
}

TEST_F(Locate, NameInTheCache) {
  EXPECT_THAT(MessageOf("org/name"),
              HasSubstr((directory_.path() / "hub/models--org--name").string()));
  directory_.Write("hub/models--org--name/snapshots/abc/config.json", "{}");
  directory_.Write("hub/models--org--name/snapshots/abc/model.safetensors", "");
  EXPECT_EQ(LocateModel("org/name").root.filename(), "abc");  // the only snapshot
  directory_.Write("hub/models--org--name/snapshots/def0123/config.json", "{}");
  directory_.Write("hub/models--org--name/snapshots/def0123/model.safetensors", "");
  EXPECT_THAT(MessageOf("org/name"), HasSubstr("no snapshot of 'main'"));
  EXPECT_EQ(LocateModel("org/name@def0123").root.filename(), "def0123")
      << "a commit by its beginning";
  directory_.Write("hub/models--org--name/refs/main", "abc\n");
  EXPECT_EQ(LocateModel("org/name").root.filename(), "abc");
  directory_.Write("hub/models--org--name/refs/main", "ghi");
  EXPECT_THAT(MessageOf("org/name"), HasSubstr("no snapshot"));
  directory_.Write("hub/models--org--name/refs/main", "../../x");
  MessageOf("org/name", ErrorKind::kFormat);
}

TEST_F(Locate, GgufRepositoryInTheCache) {
  directory_.Write("hub/models--org--name/snapshots/abc/config.json", "{}");
  const auto first =
      directory_.Write("hub/models--org--name/snapshots/abc/m-00001-of-00002.gguf", "");
  directory_.Write("hub/models--org--name/snapshots/abc/m-00002-of-00002.gguf", "");
  EXPECT_EQ(LocateModel("org/name").kind, ModelKind::kGguf);
  EXPECT_EQ(LocateModel("org/name").weights, first);
  const auto larger = directory_.Write("hub/models--org--name/snapshots/abc/m-Q8_0.gguf", "1234");
  EXPECT_EQ(LocateModel("org/name").weights, larger) << "the best that fits";
  EXPECT_EQ(LocateModel("hf:org/name:q8_0").weights, larger);
  EXPECT_EQ(LocateModel("org/name/m-00001-of-00002.gguf").weights, first);
  EXPECT_THAT(MessageOf("org/name:Q4_0"), HasSubstr("Q8_0 (0.0 MB)"));
  EXPECT_THAT(NamesInCache("org/name"),
              testing::ElementsAre("org/name/m-00001-of-00002.gguf", "org/name:Q8_0"));
  directory_.Write("hub/models--org--name/snapshots/abc/model.safetensors", "");
  EXPECT_EQ(LocateModel("org/name").kind, ModelKind::kHuggingFace);
}

TEST_F(Locate, NothingThere) {
  EXPECT_THAT(MessageOf("absent.gguf"), HasSubstr("no file or directory 'absent.gguf'"));
  MessageOf("");
  MessageOf("/a/b/c");
}

TEST_F(Locate, CacheFollowsTheEnvironment) {
  ::unsetenv("HF_HUB_CACHE");
  ::setenv("HF_HOME", "/somewhere", 1);
  EXPECT_THAT(MessageOf("org/name"), HasSubstr("/somewhere/hub/models--org--name"));
  ::unsetenv("HF_HOME");
  EXPECT_THAT(MessageOf("org/name"), HasSubstr("huggingface/hub/models--org--name"));
}

TEST(ShippedModel, BesideAnInstalledProgram) {
  const auto folders = ShippedModelFolders("/opt/tools/bin/banyan");
  ASSERT_EQ(folders.size(), 2u);
  EXPECT_EQ(folders[0], "/opt/tools/share/banyan/models");
}

TEST(ShippedModel, InTheCheckoutOfABuild) {
  const auto folders = ShippedModelFolders("/home/x/banyan/build/cuda/banyan");
  ASSERT_EQ(folders.size(), 2u);
  EXPECT_EQ(folders[0], "/home/x/banyan/models");
}

TEST(ShippedModel, ElsewhereOnlyWhereItWasConfigured) {
  EXPECT_EQ(ShippedModelFolders("/home/x/banyan").size(), 1u);
  EXPECT_EQ(ShippedModelFolders("").size(), 1u);
}

// This test stands in build/NAME/ of a checkout, as the program does.
TEST(ShippedModel, IsFoundByItsName) {
  const auto file = ShippedModelFile();
  ASSERT_TRUE(file.has_value());
  EXPECT_EQ(LocateModel(kShippedModel).weights, *file);
}

class Default : public testing::Test {
 protected:
  void TearDown() override { ::unsetenv("BANYAN_MODEL"); }
};

TEST_F(Default, IsTheShippedModel) {
  ::unsetenv("BANYAN_MODEL");
  EXPECT_EQ(DefaultModel(), ShippedModelFile()->string());
  ::setenv("BANYAN_MODEL", "", 1);
  EXPECT_EQ(DefaultModel(), ShippedModelFile()->string());
}

TEST_F(Default, IsWhatTheEnvironmentSays) {
  const TempDirectory directory;
  const std::string path = directory.Write("other.gguf", "x").string();
  ::setenv("BANYAN_MODEL", path.c_str(), 1);
  EXPECT_EQ(DefaultModel(), path);
  ::setenv("BANYAN_MODEL", "/absent/other.gguf", 1);
  const std::string message =
      testing_support::ErrorMessage(ErrorKind::kNotFound, [] { DefaultModel(); });
  EXPECT_THAT(message, HasSubstr("BANYAN_MODEL: "));
  EXPECT_THAT(message, HasSubstr("/absent/other.gguf"));
}

}  // namespace
}  // namespace banyan
