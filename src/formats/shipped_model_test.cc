#include "formats/shipped_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include "banyan/error.h"
#include "formats/locate.h"
#include "program/models.h"
#include "support/error_message.h"
#include "support/temp_directory.h"

namespace banyan {
namespace {

using testing::HasSubstr;
using testing_support::TempDirectory;

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
