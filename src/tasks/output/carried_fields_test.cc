#include "tasks/output/carried_fields.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace banyan {
namespace {

TEST(CarriedNames, AFieldKeepsItsNameUnlessAResultHasIt) {
  const CarriedNames names("ask");
  EXPECT_EQ(names.Of("note"), "note");
  EXPECT_EQ(names.Of("input_note"), "input_note");
  EXPECT_EQ(names.Of("id"), "id");  // read under this name
  EXPECT_EQ(names.Of("answer"), "input_answer");
  EXPECT_EQ(names.Of("input_answer"), "input_input_answer");
  EXPECT_EQ(CarriedNames("extract").Of("answer"), "answer");
  EXPECT_EQ(CarriedNames("extract", {"brand"}).Of("brand"), "input_brand");
}

TEST(CarriedNames, TwoFieldsNeverGetOneName) {
  for (const char* task : {"ask", "extract", "rag"}) {
    const CarriedNames names(task, {"brand"});
    std::set<std::string> given;
    for (const std::string& result : ResultNames(task)) {
      for (const char* prefix : {"", "input_", "input_input_", "input", "_"}) {
        given.insert(prefix + result);
      }
    }
    std::set<std::string> shown;
    for (const std::string& name : given) {
      EXPECT_TRUE(shown.insert(names.Of(name)).second) << task << ": " << name;
      EXPECT_FALSE(ResultNames(task).contains(names.Of(name))) << task << ": " << name;
    }
  }
}

TEST(CarriedNames, WhatIsReadOrThereAlreadyStaysAway) {
  nlohmann::ordered_json row = {{"id", 1}, {"answer", "yes"}, {"note", "of the question"}};
  const Json fields = {{"id", 2}, {"answer", "mine"}, {"note", "of the record"}, {"more", 3}};
  CarriedNames("ask").Add(
      fields, [](const std::string& name) { return name == "id"; }, row);
  EXPECT_EQ(
      row.dump(),
      R"({"id":1,"answer":"yes","note":"of the question","input_answer":"mine","input_more":3})");
  CarriedNames("ask").Add(Json(7), nullptr, row);  // no object: nothing to carry
  EXPECT_EQ(row.size(), 5u);
}

}  // namespace
}  // namespace banyan
