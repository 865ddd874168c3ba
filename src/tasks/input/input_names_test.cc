// Files that stand for something else: rows have the name that was given, and the problem that who
// wrote the file found.
#include <gtest/gtest.h>

#include <fstream>

#include "support/temp_directory.h"
#include "tasks/input/input.h"

namespace banyan {
namespace {

class InputNames : public testing::Test {
 protected:
  void SetUp() override {
    std::ofstream(file_) << "{\"context\":\"a\"}\n"
                            "{\"id\":7,\"context\":\"b\",\"banyan:problem\":\"column 'n': NaN\"}\n"
                            "{\"context\":\"c\",\"banyan:problem\":3}\n";
    options_.files = {file_};
  }
  std::vector<InputRow> Rows() const {
    InputReader reader(options_);
    std::vector<InputRow> rows;
    for (InputRow row; reader.Next(row);) rows.push_back(row);
    return rows;
  }

  testing_support::TempDirectory folder_;
  std::string file_ = (folder_.path() / "rows.jsonl").string();
  InputOptions options_;
};

TEST_F(InputNames, AreWhatRowsSay) {
  EXPECT_EQ(Rows().at(0).file, file_);
  options_.names = {{file_, "boats.parquet"}};
  EXPECT_EQ(Rows().at(0).file, "boats.parquet");
  options_.files = {file_, file_};
  EXPECT_EQ(Rows().at(0).value["id"], "boats.parquet:1");
}

TEST_F(InputNames, NumbersOfRowsAreNobodysIds) {
  const std::string with_ids = R"({"context":"a"}
{"context":"the \"id\" is said"}
{"id":1,"name":2,"context":"c"}
{"context":"d"}
)";
  const auto ids = [&](const std::string& text) {
    std::ofstream(file_) << text;
    std::vector<Json> found;
    for (const InputRow& row : Rows()) found.push_back(row.value.value("id", Json()));
    return found;
  };
  const auto place = [&](int line) { return file_ + ":" + std::to_string(line); };
  EXPECT_EQ(ids(with_ids), (std::vector<Json>{place(1), place(2), 1, place(4)}));
  options_.limit = 2;  // the row with an id is not wanted
  EXPECT_EQ(ids(with_ids).at(0), 1);
  options_.limit = 3;
  EXPECT_EQ(ids(with_ids).at(0), place(1));
  options_.limit = -1;
  EXPECT_EQ(ids("{\"context\":\"the \\\"id\\\"\"}\n{\"id\":null}\n{\"a\":{\"id\":1}}\n"),
            (std::vector<Json>{1, 2, 3}));
  EXPECT_EQ(ids("{\"context\":\"a\"}\nno JSON \"id\"\n{\"id\":1}\n").at(0), place(1));
  options_.fields = {{"id", "name"}};
  EXPECT_EQ(ids(with_ids), (std::vector<Json>{place(1), place(2), 2, place(4)}));
  options_.fields.clear();
  options_.format = "json";
  EXPECT_EQ(ids(R"([{"context":"a"},{"id":1}])"), (std::vector<Json>{place(1), 1}));
}

TEST_F(InputNames, ARowBringsItsProblemWhereThatIsAskedFor) {
  for (const InputRow& row : Rows()) EXPECT_FALSE(row.problem);
  options_.problem_field = "banyan:problem";
  const std::vector<InputRow> rows = Rows();
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_FALSE(rows[0].problem);
  ASSERT_TRUE(rows[1].problem);
  EXPECT_EQ(rows[1].problem->message, "column 'n': NaN");
  EXPECT_EQ(rows[1].value["id"], 7);
  EXPECT_FALSE(rows[1].value.contains("banyan:problem"));
  EXPECT_FALSE(rows[2].problem);  // no text: a field like any other
}

TEST_F(InputNames, WhatOneReaderFoundWrongAnotherSaysTheSame) {
  std::ofstream(file_) << R"({"banyan:problem":{"kind":"limit","message":"too long"},"text":"x"})"
                       << "\n";
  options_.problem_field = "banyan:problem";
  const std::vector<InputRow> rows = Rows();
  ASSERT_EQ(rows.size(), 1u);
  ASSERT_TRUE(rows[0].problem);
  EXPECT_EQ(rows[0].problem->kind, ErrorKind::kLimit);
  EXPECT_EQ(rows[0].problem->message, "too long");
  EXPECT_FALSE(rows[0].value.contains("id"));
}

}  // namespace
}  // namespace banyan
