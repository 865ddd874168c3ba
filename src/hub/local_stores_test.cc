// Models of other programs' stores.
#include "hub/local_stores.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include "support/error_message.h"
#include "support/temp_directory.h"

namespace banyan {
namespace {

using testing::HasSubstr;

const std::string kHash(64, 'a');

std::string Manifest(const std::string& digest, const std::string& more = "") {
  return R"({"schemaVersion":2,"config":{"digest":"sha256:0"},"layers":[{"mediaType":
"application/vnd.ollama.image.template","digest":"sha256:1"},)" +
         more + R"({"mediaType":"application/vnd.ollama.image.model","digest":")" + digest +
         R"(","size":4}]})";
}

class Stores : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : kNames) {
      const char* before = ::getenv(name);
      before_.push_back(before == nullptr ? "" : before);
      ::unsetenv(name);
    }
    ::setenv("HOME", directory_.path().c_str(), 1);
  }
  void TearDown() override {
    for (size_t i = 0; i < std::size(kNames); ++i) {
      before_[i].empty() ? ::unsetenv(kNames[i]) : ::setenv(kNames[i], before_[i].c_str(), 1);
    }
  }

  static constexpr const char* kNames[] = {"HOME", "OLLAMA_MODELS", "LLAMA_CACHE",
                                           "XDG_CACHE_HOME"};
  std::vector<std::string> before_;
  testing_support::TempDirectory directory_;
};

TEST_F(Stores, OllamasManifests) {
  const std::string manifests = ".ollama/models/manifests/";
  directory_.Write(manifests + "registry.ollama.ai/library/qwen3/4b", Manifest("sha256:" + kHash));
  directory_.Write(manifests + "hf.co/Qwen/Qwen3-GGUF/Q4_K_M", Manifest("sha256:" + kHash));
  directory_.Write(manifests + "registry.ollama.ai/library/gone/latest",
                   Manifest("sha256:" + std::string(64, 'b')));
  const auto blob = directory_.Write(".ollama/models/blobs/sha256-" + kHash, "GGUF");
  std::vector<std::string> names;
  for (const StoredModel& model : ModelsOfStores()) {
    if (model.file.string().starts_with(directory_.path().string())) names.push_back(model.name);
  }
  EXPECT_THAT(names,
              testing::ElementsAre("ollama:hf.co/Qwen/Qwen3-GGUF:Q4_K_M", "ollama:qwen3:4b"));
  EXPECT_EQ(FindStored("ollama:qwen3:4b")->file, blob);
  EXPECT_EQ(FindStored("ollama:hf.co/Qwen/Qwen3-GGUF:Q4_K_M")->file, blob);
  EXPECT_FALSE(FindStored("ollama:qwen3"));
  EXPECT_FALSE(FindStored("ollama:../../qwen3:4b"));
  EXPECT_THAT(
      testing_support::ErrorMessage(ErrorKind::kNotFound, [] { FindStored("ollama:gone"); }),
      HasSubstr("pull the model again"));
}

TEST_F(Stores, FoldersOfLmStudioAndLlamaCpp) {
  const auto one = directory_.Write(".lmstudio/models/org/repo/m-Q4_K_M.gguf", "GGUF");
  directory_.Write(".lmstudio/models/org/repo/mmproj-m.gguf", "GGUF");
  const auto two = directory_.Write(".cache/llama.cpp/org_repo_m-00001-of-00002.gguf", "GGUF");
  directory_.Write(".cache/llama.cpp/org_repo_m-00002-of-00002.gguf", "GGUF");
  EXPECT_EQ(FindStored("lmstudio:org/repo/m-Q4_K_M.gguf")->file, one);
  EXPECT_EQ(FindStored("llamacpp:org_repo_m-00001-of-00002.gguf")->file, two);
  EXPECT_FALSE(FindStored("llamacpp:../x.gguf"));
  int found = 0;
  for (const StoredModel& model : ModelsOfStores()) {
    found += model.store != LocalStore::kOllama ? 1 : 0;
  }
  EXPECT_EQ(found, 2);
}

TEST(OllamaManifest, Damaged) {
  const auto message = [](const std::string& text, ErrorKind kind = ErrorKind::kFormat) {
    return testing_support::ErrorMessage(kind, [&] { DigestOfManifest(text, "m"); });
  };
  EXPECT_EQ(DigestOfManifest(Manifest("sha256:" + kHash), "m"), kHash);
  message("{");
  message("[]");
  EXPECT_THAT(message(R"({"layers":[]})"), HasSubstr("no model"));
  EXPECT_THAT(message(Manifest("sha256:../../x")), HasSubstr("digest"));
  EXPECT_THAT(message(Manifest("sha256:" + kHash,
                               R"({"mediaType":"application/vnd.ollama.image.adapter"},)"),
                      ErrorKind::kUnsupported),
              HasSubstr("adapter"));
}

}  // namespace
}  // namespace banyan
