// Names of the hub, and paths that may be written.
#include "hub/hub_name.h"

#include <gtest/gtest.h>

namespace banyan {
namespace {

TEST(HubName, AllParts) {
  const auto plain = ParseHubName("Qwen/Qwen3-4B-GGUF");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->repository, "Qwen/Qwen3-4B-GGUF");
  EXPECT_EQ(plain->revision, "main");
  EXPECT_FALSE(plain->revision_given || plain->explicit_hub);
  const auto quantised = ParseHubName("Qwen/Qwen3-4B-GGUF:Q4_K_M");
  ASSERT_TRUE(quantised);
  EXPECT_EQ(quantised->quantisation, "Q4_K_M");
  const auto revised = ParseHubName("hf:a/b@refs/pr/3:q8_0");
  ASSERT_TRUE(revised);
  EXPECT_TRUE(revised->explicit_hub && revised->revision_given);
  EXPECT_EQ(revised->revision, "refs/pr/3");
  EXPECT_EQ(revised->quantisation, "q8_0");
  EXPECT_EQ(revised->Text(), "a/b@refs/pr/3:q8_0");
  const auto file = ParseHubName("a/b@v1/Q4/m-00001-of-00002.gguf");
  ASSERT_TRUE(file);
  EXPECT_EQ(file->revision, "v1");
  EXPECT_EQ(file->file, "Q4/m-00001-of-00002.gguf");
  EXPECT_EQ(file->Text(), "a/b@v1/Q4/m-00001-of-00002.gguf");
}

TEST(HubName, NotNames) {
  for (const char* name :
       {"",     "a",        "/a/b",      "./a",     "../a",
        "a/",   "/",        "a//b",      "a/b/c",   "a/b:",
        "a/b@", "a/b@../c", "a/b:x/y",   "a b/c",   "a/b.gguf",
        "a/..", ".a/b",     "-a/b",      "a--b/c",  "a/b/../c.gguf",
        "hf:a", "hf:",      "a/b/c.bin", "a/b@x y", "https://huggingface.co/a/b"}) {
    EXPECT_FALSE(ParseHubName(name)) << name;
  }
  EXPECT_FALSE(ParseHubName("a/" + std::string(97, 'b')));
}

TEST(PlainPath, StaysBelowItsFolder) {
  for (const char* path :
       {"a", "a/b.json", "1_Pooling/config.json", "..a", "a..", "\xc3\xa9.json"}) {
    EXPECT_TRUE(IsPlainPath(path)) << path;
  }
  for (const char* path : {"", "/", "/a", "a/", "a//b", ".", "..", "a/../b", "../a", "a/..", "a\\b",
                           "a\nb", "a/./b"}) {
    EXPECT_FALSE(IsPlainPath(path)) << path;
  }
  EXPECT_FALSE(IsPlainPath(std::string_view("a\0b", 3)));
  EXPECT_FALSE(IsPlainPath(std::string(513, 'a')));
}

}  // namespace
}  // namespace banyan
