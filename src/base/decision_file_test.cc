#include "base/decision_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <map>
#include <string>

namespace banyan {
namespace {

namespace fs = std::filesystem;

class DecisionFileTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("banyan_decisions_" + std::to_string(::getpid()));
    fs::remove_all(folder_);
    path_ = folder_ / "deep" / "file";
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string Contents() const {
    std::ifstream file(path_);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  fs::path folder_, path_;
};

TEST_F(DecisionFileTest, KeepsAndFinds) {
  DecisionFile file(path_, "machine a");
  EXPECT_FALSE(file.Find("x"));
  file.Keep("x", "1 2 3");
  file.Keep("y", "");
  file.Keep("x", "4");
  EXPECT_EQ(file.Find("x"), "4");
  const DecisionFile again(path_, "machine a");
  EXPECT_EQ(again.Find("x"), "4");
  EXPECT_EQ(again.Find("y"), "");
  EXPECT_EQ(std::distance(fs::directory_iterator(path_.parent_path()), {}), 1) << "nothing is left";
}

TEST_F(DecisionFileTest, AnotherIdentityIsNotSeenAndReplaced) {
  DecisionFile(path_, "machine a").Keep("x", "1");
  DecisionFile other(path_, "machine b");
  EXPECT_FALSE(other.Find("x"));
  other.Keep("z", "2");
  EXPECT_FALSE(DecisionFile(path_, "machine a").Find("x"));
  EXPECT_EQ(DecisionFile(path_, "machine b").Find("z"), "2");
}

TEST_F(DecisionFileTest, ProcessesKeepEachOthersDecisions) {
  DecisionFile one(path_, "m"), two(path_, "m");
  one.Keep("x", "1");
  two.Keep("y", "2");
  EXPECT_EQ(DecisionFile(path_, "m").Find("x"), "1");
  EXPECT_EQ(DecisionFile(path_, "m").Find("y"), "2");
}

TEST_F(DecisionFileTest, DamageIsNoError) {
  DecisionFile(path_, "m").Keep("x", "1");
  const std::string whole = Contents() + "y\t2\n";
  for (size_t length = 0; length < whole.size(); ++length) {
    std::ofstream(path_) << whole.substr(0, length);
    const DecisionFile file(path_, "m");
    EXPECT_TRUE(!file.Find("x") || *file.Find("x") == "1") << length;
    EXPECT_FALSE(file.Find("y")) << length;
  }
}

TEST(ParseDecisions, TextGoesThereAndBack) {
  const std::map<std::string, std::string> decisions = {{"a", "1"}, {"b c, d", "x y"}, {"e", ""}};
  EXPECT_EQ(ParseDecisions(DecisionText(decisions, "one, sm_90"), "one, sm_90"), decisions);
  EXPECT_TRUE(ParseDecisions(DecisionText(decisions, "one, sm_90"), "one").empty());
  EXPECT_TRUE(ParseDecisions(DecisionText(decisions, "one"), "one, sm_90").empty());
  EXPECT_TRUE(ParseDecisions(DecisionText({}, "one"), "one").empty());
}

TEST(ParseDecisions, HostileTextGivesWholeLinesOnly) {
  using namespace std::string_literals;
  const std::string head = DecisionText({}, "m");
  const auto parse = [&](const std::string& rest) { return ParseDecisions(head + rest, "m"); };
  using Map = std::map<std::string, std::string>;
  EXPECT_EQ(parse("x\t1\nx\t2\n"), (Map{{"x", "2"}}));
  EXPECT_EQ(parse("\n\t\n\t1\nno tab\nx\t1\n"), (Map{{"x", "1"}}));
  EXPECT_EQ(parse("x\t1\ty\nz\t1\r\n"), Map());       // a tab or a carriage return in a value
  EXPECT_EQ(parse("x\t1\ny\t2"), (Map{{"x", "1"}}));  // torn
  EXPECT_EQ(parse("x\0y\t\0\n"s), (Map{{"x\0y"s, "\0"s}}));
  EXPECT_EQ(parse(std::string(1 << 20, 'k') + "\t" + std::string(1 << 20, 'v') + "\n").size(), 1u);
  for (const std::string& other : {""s, "\n"s, "banyan decisions 2\tm\nx\t1\n"s,
                                   "banyan decisions 1\tm"s, "banyan decisions 1 m\nx\t1\n"s}) {
    EXPECT_TRUE(ParseDecisions(other, "m").empty()) << other;
  }
}

TEST_F(DecisionFileTest, WithoutAPlaceNothingIsKept) {
  DecisionFile none;
  none.Keep("x", "1");
  EXPECT_FALSE(none.Find("x"));
  fs::create_directories(path_);  // a folder in the file's place
  DecisionFile blocked(path_, "m");
  blocked.Keep("x", "1");
  EXPECT_EQ(blocked.Find("x"), "1");  // for this process
  EXPECT_EQ(std::distance(fs::directory_iterator(path_.parent_path()), {}), 1) << "nothing is left";
}

}  // namespace
}  // namespace banyan
