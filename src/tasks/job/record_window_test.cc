// Several records, with an engine that takes little at a time and with a real one.
#include "tasks/job/record_window.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/temp_directory.h"
#include "support/tiny_model.h"
#include "tasks/job/record_work_fixture.h"

namespace banyan {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing_support::EndEvent;
using testing_support::FakeWork;
using testing_support::HeardEvents;

std::uint64_t TagIn(std::uint64_t record, std::uint64_t work_tag) {
  return record << kWorkTagBits | work_tag;
}

// Takes as many prompts as it has room for, and refuses some.
struct NarrowEngine {
  std::optional<RequestId> TrySubmit(PromptSegment& prompt) {
    const std::uint64_t tag = prompt.answers.at(0).tag;
    if (tag == refused) Throw(ErrorKind::kLimit, "too long");
    if (room == 0) return std::nullopt;
    --room;
    tags.push_back(tag);
    return next++;
  }
  int room = 0;
  std::uint64_t refused = ~std::uint64_t{0};
  std::vector<std::uint64_t> tags;
  RequestId next = 1;
};

TEST(RecordWindow, TwoRecordsGoSideBySide) {
  NarrowEngine engine;
  HeardEvents listener;
  RecordWindow window([&](PromptSegment& prompt) { return engine.TrySubmit(prompt); }, listener);
  window.Add(8, std::make_unique<FakeWork>(FakeWork::Rounds{{{0, 0}, {1, 1}}, {{2, 0}}}));
  window.Add(9, std::make_unique<FakeWork>(FakeWork::Rounds{{{0, 0}}}));
  EXPECT_EQ(window.open(), 2u);
  engine.room = 1;
  EXPECT_FALSE(window.Submit());
  EXPECT_THAT(engine.tags, ElementsAre(TagIn(8, 0)));
  window.Take(EndEvent(TagIn(8, 0), "a"));  // its other prompt still waits
  engine.room = 9;
  EXPECT_TRUE(window.Submit());
  EXPECT_THAT(engine.tags, ElementsAre(TagIn(8, 0), TagIn(8, 1), TagIn(9, 0)));
  EXPECT_EQ(window.RecordOf(3), 9u);
  EXPECT_EQ(window.RecordOf(4), std::nullopt);
  window.Take(EndEvent(TagIn(8, 1), "b"));
  window.Take(EndEvent(TagIn(9, 0), "c"));
  window.Take(EndEvent(TagIn(7, 0), "of nobody"));
  EXPECT_EQ(window.open(), 1u);
  EXPECT_TRUE(window.Submit());
  EXPECT_EQ(engine.tags.back(), TagIn(8, 2));
  window.Take(EndEvent(TagIn(8, 2), "d"));
  EXPECT_EQ(window.open(), 0u);
  EXPECT_THAT(listener.New(), ElementsAre("asks 8: 2", "asks 9: 1", "row 8.1: b|", "asks 8: 1",
                                          "row 9.0: c|", "done 9", "row 8.0: ad|", "done 8"));
}

TEST(RecordWindow, ARefusalIsOfItsRecordAlone) {
  NarrowEngine engine;
  engine.room = 9;
  engine.refused = TagIn(1, 1);
  HeardEvents listener;
  RecordWindow window([&](PromptSegment& prompt) { return engine.TrySubmit(prompt); }, listener);
  window.Add(1, std::make_unique<FakeWork>(FakeWork::Rounds{{{0, 0}, {1, 1}}, {{2, 0}}}));
  window.Add(2, std::make_unique<FakeWork>(FakeWork::Rounds{{{1, 0}}}));
  EXPECT_TRUE(window.Submit());
  window.Take(EndEvent(TagIn(2, 1), "b"));
  EXPECT_EQ(window.open(), 1u);  // the answer that was not refused is still to come
  window.Take(EndEvent(TagIn(1, 0), "a"));
  EXPECT_EQ(window.open(), 0u);
  EXPECT_THAT(listener.New(), ElementsAre("asks 1: 2", "asks 2: 1", "row 2.0: b|", "done 2",
                                          "row 1.0: too long|", "row 1.1: too long|", "done 1"));
}

class WindowOfAnEngine : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    const testing_support::TempDirectory folder;
    LoadOptions load;
    load.model = testing_support::WriteTinyGguf({}, folder.path() / "tiny.gguf").string();
    load.precision = "f32";
    load.threads = 1;
    model_ = Model::Load(load);
  }
  static void TearDownTestSuite() { model_.reset(); }

  static std::unique_ptr<FakeWork> Work(std::vector<TokenId> tokens, int max_new = 4) {
    auto work = std::make_unique<FakeWork>(
        FakeWork::Rounds{{{0, 0}, {1, 1}, {2, 2}}, {{3, 1}, {4, 2}}}, std::move(tokens));
    work->max_new = max_new;
    return work;
  }
  static RecordWindow::TrySubmit To(Engine& engine) {
    return [&engine](PromptSegment& prompt) { return engine.TrySubmit(prompt); };
  }

  static std::shared_ptr<Model> model_;
};
std::shared_ptr<Model> WindowOfAnEngine::model_;

std::vector<std::string> RowsOfRecord(const std::vector<std::string>& heard, int record) {
  std::vector<std::string> rows;
  for (const std::string& event : heard) {
    const std::string begin = fmt::format("row {}.", record);
    if (event.starts_with(begin)) rows.push_back(event.substr(begin.size()));
  }
  std::ranges::sort(rows);
  return rows;
}

TEST_F(WindowOfAnEngine, RecordsSideBySideSayWhatTheySayAlone) {
  const std::vector<std::vector<TokenId>> prompts = {{1, 5, 9}, {1, 5, 9, 33}, {7}};
  Engine together(model_, EngineOptions());
  HeardEvents all;
  RecordWindow window(To(together), all);
  for (size_t i = 0; i < prompts.size(); ++i) window.Add(i, Work(prompts[i]));
  window.RunToEnd(together);
  EXPECT_EQ(window.open(), 0u);
  for (size_t i = 0; i < prompts.size(); ++i) {
    Engine engine(model_, EngineOptions());
    HeardEvents one;
    RecordWindow alone(To(engine), one);
    alone.Add(i, Work(prompts[i]));
    alone.RunToEnd(engine);
    const auto rows = RowsOfRecord(all.heard, static_cast<int>(i));
    EXPECT_EQ(rows.size(), 3u);
    EXPECT_EQ(rows, RowsOfRecord(one.heard, static_cast<int>(i)));
  }
}

TEST_F(WindowOfAnEngine, TakesWhatAnEngineWithLittleRoomTakes) {
  EngineOptions options;
  options.max_waiting = 2;
  Engine engine(model_, options);
  OneRowEach rows(20);
  RecordWindow window(To(engine), rows);
  for (std::uint64_t i = 0; i < 20; ++i) {
    window.Add(i, std::make_unique<FakeWork>(FakeWork::Rounds{{{0, 0}}, {{1, 0}}}));
  }
  EXPECT_FALSE(window.Submit());
  window.RunToEnd(engine);
  for (const OutputRow& row : rows.rows) EXPECT_EQ(row.fields, rows.rows[0].fields);
}

TEST_F(WindowOfAnEngine, CancelEndsWhatRunsAndWhatWaits) {
  for (const int steps : {0, 3}) {  // before the first tokens, and after
    EngineOptions options;
    options.max_waiting = 3;
    Engine engine(model_, options);
    HeardEvents listener;
    RecordWindow window(To(engine), listener);
    window.Add(0, Work({1, 2}, 1000));
    window.Add(1, Work({3, 4}, 1000));
    EXPECT_FALSE(window.Submit());
    for (int i = 0; i < steps; ++i) engine.Step();
    window.Cancel(engine);
    for (AnswerEvent& event : engine.TakeEvents()) window.Take(std::move(event));
    EXPECT_EQ(window.open(), 0u) << steps;
    EXPECT_FALSE(engine.Step());
    EXPECT_THAT(RowsOfRecord(listener.heard, 0), IsEmpty());
    EXPECT_EQ(std::ranges::count_if(listener.heard,
                                    [](const auto& text) { return text.starts_with("cancelled"); }),
              6);
  }
}

}  // namespace
}  // namespace banyan
