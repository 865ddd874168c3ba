// The runner with a task that is not `ask`: prompts in two stages, its own rows and errors.
#include "tasks/job/job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <fstream>
#include <mutex>

#include "base/error.h"
#include "support/error_message.h"
#include "support/failing_kernels.h"
#include "support/temp_directory.h"
#include "support/tiny_model.h"
#include "tasks/job/record_work_fixture.h"

namespace banyan {
namespace {

using testing_support::TempDirectory;

// Asks for two tokens after the record's own, then for three after those.
class TwoStageWork : public RecordWork {
 public:
  explicit TwoStageWork(const Json& row) : id_(row.at("id")), tokens_(row.at("tokens")) {}

  std::vector<PromptSegment> NextPrompts() override {
    if (stage_ == 2) return {};
    ++stage_;
    PromptSegment prompt;
    prompt.tokens = tokens_;
    AnswerRequest answer;
    answer.tag = static_cast<std::uint64_t>(stage_);
    answer.max_new = stage_ + 1;
    prompt.answers.push_back(answer);
    std::vector<PromptSegment> prompts;
    prompts.push_back(std::move(prompt));
    return prompts;
  }
  void Take(Answer answer) override {
    EXPECT_EQ(answer.tag, static_cast<std::uint64_t>(stage_));
    EXPECT_EQ(answer.tokens.size(), static_cast<size_t>(stage_ + 1));
    tokens_.insert(tokens_.end(), answer.tokens.begin(), answer.tokens.end());
  }
  void Refuse(const Error& error) override { refused_ = error.what(); }
  OutputRow Row(size_t) override {
    OutputRow row;
    row.fields["id"] = id_;
    row.fields[refused_.empty() ? "tokens" : "error"] =
        refused_.empty() ? nlohmann::ordered_json(tokens_) : nlohmann::ordered_json(refused_);
    row.error = !refused_.empty();
    row.identity = row.fields.dump();
    return row;
  }

 private:
  Json id_;
  std::vector<TokenId> tokens_;
  int stage_ = 0;
  std::string refused_;
};

class TwoStageTask : public Task {
 public:
  std::string name() const override { return "two stages"; }
  Json Parameters() const override { return Json::object(); }
  std::string Identity(const InputRow& row) const override { return row.value.at("id").dump(); }
  std::unique_ptr<RecordWork> Start(const InputRow& row) override {
    if (!row.value.contains("tokens")) Throw(ErrorKind::kInput, "no tokens");
    return std::make_unique<TwoStageWork>(row.value);
  }
  TableColumns Columns() const override { return {}; }
  OutputRow ErrorRow(const InputRow& row, const RowProblem& problem) const override {
    OutputRow out;
    out.error = true;
    out.fields["line"] = row.line;
    out.fields["error"] = problem.message;
    out.identity = out.fields.dump();
    return out;
  }
};

std::shared_ptr<Model> TinyModelIn(const TempDirectory& folder, const char* device = "cpu") {
  LoadOptions load;
  load.device = device;
  load.model = testing_support::WriteTinyGguf({}, folder.path() / "tiny.gguf").string();
  load.precision = "f32";
  load.threads = 1;
  return Model::Load(load);
}

TEST(JobRunner, RunsATaskOfSeveralStages) {
  const TempDirectory folder;
  const std::shared_ptr<Model> model = TinyModelIn(folder);
  std::string input;
  for (int i = 0; i < 40; ++i) {
    input += fmt::format("{{\"id\":{},\"tokens\":[1,2,{}]}}\n", i, 3 + i % 7);
  }
  input += "{\"id\":40}\n{\"id\":41,\"tokens\":[100000]}\n";
  JobOptions options;
  options.inputs = {folder.Write("in.jsonl", input).string()};
  options.output = (folder.path() / "out.jsonl").string();
  options.ordered = true;
  TwoStageTask task;
  const JobReceipt receipt = JobRunner(model, EngineOptions(), task, options).Run();
  EXPECT_EQ(receipt.rows, 42);
  EXPECT_EQ(receipt.error_rows, 2);
  EXPECT_EQ(receipt.engine.generated_tokens, 40 * 5);
  std::ifstream file(options.output);
  std::vector<Json> rows;
  for (std::string line; std::getline(file, line);) rows.push_back(Json::parse(line));
  ASSERT_EQ(rows.size(), 42u);
  for (int i = 0; i < 40; ++i) {
    const Json& row = rows[static_cast<size_t>(i)];
    EXPECT_EQ(row["id"], i);
    ASSERT_EQ(row["tokens"].size(), 8u);
    if (i >= 7) {
      EXPECT_EQ(row["tokens"], rows[static_cast<size_t>(i - 7)]["tokens"]);
    }
  }
  EXPECT_EQ(rows[40]["error"], "no tokens");
  EXPECT_EQ(rows[41]["id"], 41);
}

std::string FileText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// No row is an error because a device failed: its records are left for the run that goes on.
TEST(JobRunner, ADeviceThatFailsEndsTheJobWhichCanBeResumed) {
  const TempDirectory folder;
  std::string input;
  for (int i = 0; i < 60; ++i) {
    input += fmt::format("{{\"id\":{},\"tokens\":[1,2,{},{}]}}\n", i, 3 + i % 7, 3 + i % 11);
  }
  input += "{\"id\":60}\n";
  JobOptions options;
  options.inputs = {folder.Write("in.jsonl", input).string()};
  options.ordered = true;
  TwoStageTask task;
  EngineOptions few;
  few.max_streams = 2;
  options.output = (folder.path() / "one.jsonl").string();
  JobRunner(TinyModelIn(folder), few, task, options).Run();
  options.output = (folder.path() / "out.jsonl").string();
  const std::shared_ptr<Model> model = TinyModelIn(folder, "cpu,cpu");
  testing_support::MakeFailing(*model, 1).steps = 30;
  EXPECT_THAT(
      testing_support::ErrorMessage(ErrorKind::kIo,
                                    [&] { JobRunner(model, few, task, options).Run(); }),
      ::testing::MatchesRegex("the device cpu#2 failed: the bus is off\\. [0-9]+ records? of "
                              "this run (is|are) written; --resume goes on with the others"));
  const std::string whole = FileText((folder.path() / "one.jsonl").string());
  const std::string begun = FileText(options.output);
  EXPECT_LT(begun.size(), whole.size());
  EXPECT_EQ(begun, whole.substr(0, begun.size()));
  options.resume = true;
  const JobReceipt receipt =
      JobRunner(TinyModelIn(folder, "cpu,cpu,cpu"), few, task, options).Run();
  EXPECT_EQ(receipt.rows, 61);
  EXPECT_EQ(receipt.error_rows, 1);
  EXPECT_EQ(FileText(options.output), whole);
  ASSERT_EQ(receipt.engine.devices.size(), 3u);
  EXPECT_NE(receipt.ToText().find("cpu#3: "), std::string::npos);
}

// Something that one thread waits for and another gives.
class Turnstile {
 public:
  void Open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  bool Wait() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(60), [this] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

// Its third question is asked when progress has told of the first two.
class HeldWork : public testing_support::FakeWork {
 public:
  explicit HeldWork(Turnstile& turnstile)
      : FakeWork({{{0, 0}, {1, 1}}, {{2, 2}}}), turnstile_(turnstile) {}
  std::vector<PromptSegment> NextPrompts() override {
    if (++calls_ == 2) {
      EXPECT_TRUE(turnstile_.Wait());
    }
    return FakeWork::NextPrompts();
  }

 private:
  Turnstile& turnstile_;
  int calls_ = 0;
};

class HeldTask : public TwoStageTask {
 public:
  explicit HeldTask(Turnstile& turnstile) : turnstile_(turnstile) {}
  std::unique_ptr<RecordWork> Start(const InputRow&) override {
    return std::make_unique<HeldWork>(turnstile_);
  }

 private:
  Turnstile& turnstile_;
};

// A long document with many questions is one record: its rows come at the end, its progress before.
TEST(JobRunner, ProgressCountsQuestionsOfRecordsThatAreNotWritten) {
  const TempDirectory folder;
  const std::shared_ptr<Model> model = TinyModelIn(folder);
  Turnstile turnstile;
  HeldTask task(turnstile);
  std::vector<JobProgress> heard;
  bool told = false;
  JobOptions options;
  options.inputs = {folder.Write("in.jsonl", "{\"id\":1}\n").string()};
  options.output = (folder.path() / "out.jsonl").string();
  options.progress = [&](const JobProgress& progress) {
    heard.push_back(progress);
    if (told) return;
    EXPECT_LE(progress.answered, 2);
    EXPECT_EQ(progress.rows, 0);
    told = progress.answered == 2;
    if (told) turnstile.Open();
  };
  EXPECT_EQ(JobRunner(model, EngineOptions(), task, options).Run().rows, 3);
  EXPECT_TRUE(told);
  EXPECT_TRUE(heard.back().last);
  EXPECT_EQ(heard.back().answered, 3);
  EXPECT_EQ(heard.back().rows, 3);
}

}  // namespace
}  // namespace banyan
