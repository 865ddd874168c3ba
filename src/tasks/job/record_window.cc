#include "tasks/job/record_window.h"

#include "base/error.h"

namespace banyan {

RecordWindow::RecordWindow(TrySubmit submit, RecordListener& listener)
    : submit_(std::move(submit)), listener_(listener) {}

void RecordWindow::Add(std::uint64_t number, Task& task, const Model& model, const InputRow& row,
                       const RecordRunOptions& options) {
  auto run = std::make_unique<RecordRun>(number, options, &listener_);
  run->Start(task, model, {&row, 1});
  const auto [place, is_new] = runs_.emplace(number, std::move(run));
  BANYAN_CHECK(is_new);
  Queue(place);
}

void RecordWindow::Add(std::uint64_t number, std::unique_ptr<RecordWork> work) {
  auto run = std::make_unique<RecordRun>(number, RecordRunOptions(), &listener_);
  run->Start(std::move(work));
  const auto [place, is_new] = runs_.emplace(number, std::move(run));
  BANYAN_CHECK(is_new);
  Queue(place);
}

// The record's next round; a record that has none is over.
void RecordWindow::Queue(Runs::iterator run) {
  for (RecordPrompt& prompt : run->second->TakePrompts()) {
    waiting_.push_back({run->first, std::move(prompt)});
  }
  if (run->second->done()) runs_.erase(run);
}

void RecordWindow::Advance(Runs::iterator run) {
  run->second->Digest();
  Queue(run);
}

bool RecordWindow::Submit() {
  while (!waiting_.empty()) {
    Waiting& next = waiting_.front();
    const auto run = runs_.find(next.record);
    bool over = false;
    try {
      const std::optional<RequestId> request = submit_(next.prompt.tree);
      if (!request) return false;
      records_.emplace(*request, next.record);
      over = run->second->Submitted();
    } catch (const Error& error) {
      over = run->second->Refuse(next.prompt.answers, error);
    }
    waiting_.pop_front();
    if (over) Advance(run);
  }
  return true;
}

void RecordWindow::Take(AnswerEvent event) {
  const auto run = runs_.find(RecordOfTag(event.tag));
  if (run == runs_.end()) return;
  const bool over = run->second->Receive(std::move(event));
  if (over) return Advance(run);
  run->second->Digest();
}

void RecordWindow::Cancel(Engine& engine) {
  for (auto& [number, run] : runs_) run->Cancel();
  for (const Waiting& waiting : std::exchange(waiting_, {})) {
    const auto run = runs_.find(waiting.record);
    if (run->second->Withdraw(waiting.prompt.answers)) Advance(run);
  }
  for (const auto& [request, record] : records_) {
    if (runs_.contains(record)) engine.Cancel(request);
  }
}

void RecordWindow::RunToEnd(Engine& engine) {
  while (!runs_.empty()) {
    Submit();
    engine.Step();
    for (AnswerEvent& event : engine.TakeEvents()) Take(std::move(event));
  }
}

std::optional<std::uint64_t> RecordWindow::RecordOf(RequestId request) const {
  const auto record = records_.find(request);
  if (record == records_.end()) return std::nullopt;
  return record->second;
}

}  // namespace banyan
