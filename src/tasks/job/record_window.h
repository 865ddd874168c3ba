// Records on their way through one engine, for callers with one thread: the terminal, an HTTP
// request, a sweep. The caller adds records, hands over the engine's events, and hears of text and
// rows by its listener.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "banyan/engine.h"
#include "tasks/job/record_run.h"

namespace banyan {

// Keeps the only row of every record: [records], which are numbered from 0.
struct OneRowEach : RecordListener {
  explicit OneRowEach(size_t records) : rows(records) {}
  void Row(std::uint64_t record, size_t, OutputRow row, std::string) override {
    rows[record] = std::move(row);
  }
  std::vector<OutputRow> rows;
};

class RecordWindow {
 public:
  // Submits a prompt. Nothing, and the prompt is as it was: the engine takes no more for now.
  // Throws Error when the prompt can never be asked.
  using TrySubmit = std::function<std::optional<RequestId>(PromptSegment&)>;
  RecordWindow(TrySubmit submit, RecordListener& listener);

  // A further record; numbers are used once. Its prompts wait for Submit.
  void Add(std::uint64_t number, Task& task, const Model& model, const InputRow& row,
           const RecordRunOptions& options = {});
  // Throws what the work's first prompts throw; then there is no such record.
  void Add(std::uint64_t number, std::unique_ptr<RecordWork> work);
  // Submits what waits, in order; false: some still waits.
  bool Submit();
  // Events of records that are over, or not of this window, are ignored.
  void Take(AnswerEvent event);
  // No record asks anything more, and running answers end: see RecordRun::Cancel.
  void Cancel(Engine& engine);
  // Takes all records to their ends, in an engine that the caller drives.
  void RunToEnd(Engine& engine);

  size_t open() const { return runs_.size(); }  // records that are not done
  // The record that a request is of; nothing: not of this window.
  std::optional<std::uint64_t> RecordOf(RequestId request) const;

 private:
  using Runs = std::unordered_map<std::uint64_t, std::unique_ptr<RecordRun>>;
  struct Waiting {
    std::uint64_t record;
    RecordPrompt prompt;
  };

  void Queue(Runs::iterator run);
  void Advance(Runs::iterator run);

  TrySubmit submit_;
  RecordListener& listener_;
  Runs runs_;  // by number
  std::deque<Waiting> waiting_;
  std::unordered_map<RequestId, std::uint64_t> records_;  // of all requests so far
};

}  // namespace banyan
