// Ctrl-C, the lock on a model, and constraints of a model.
#include "bound.h"

#include <chrono>

namespace banyan::python {

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

bool Interruption::Pending() {
  constexpr double kBetweenLooks = 0.05;
  if (raised_) return true;
  const double now = Now();
  if (now - last_look_ < kBetweenLooks) return false;
  last_look_ = now;
  const nb::gil_scoped_acquire gil;
  try {
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    if (!look_.is_none()) look_();
  } catch (...) {
    raised_ = std::current_exception();
  }
  return raised_ != nullptr;
}

void Interruption::Raise() const {
  if (raised_) std::rethrow_exception(raised_);
}

void Interruption::Check() {
  if (!Pending()) return;
  const nb::gil_scoped_acquire gil;
  Raise();
}

void ComputeLock::BeginJob(Interruption& interruption) {
  constexpr auto kBetweenLooks = std::chrono::milliseconds(50);
  std::unique_lock lock(mutex_);
  while (holder_ != Holder::kNone) {
    if (holder_ == Holder::kEngine) {
      throw Error(ErrorKind::kUsage,
                  "the model computes for an Engine that is open: close it first, or load the "
                  "model a second time");
    }
    changed_.wait_for(lock, kBetweenLooks);
    lock.unlock();
    interruption.Check();
    lock.lock();
  }
  holder_ = Holder::kJob;
}

void ComputeLock::BeginEngine() {
  const std::lock_guard lock(mutex_);
  if (holder_ != Holder::kNone) {
    throw Error(ErrorKind::kUsage,
                holder_ == Holder::kEngine
                    ? "the model has an Engine that is open: one Engine a model; close it first, "
                      "or load the model a second time"
                    : "the model computes for a job on another thread: wait for it, or load the "
                      "model a second time");
  }
  holder_ = Holder::kEngine;
}

void ComputeLock::End() {
  const std::lock_guard lock(mutex_);
  holder_ = Holder::kNone;
  changed_.notify_all();
}

std::shared_ptr<const Text> BoundModel::text() const {
  std::shared_ptr<const Text> text = model.get("model")->text();
  if (!text) throw Error(ErrorKind::kUnsupported, "the model's files have no tokenizer");
  return text;
}

std::shared_ptr<const Constraint> BoundModel::ConstraintOf(const std::string& regex,
                                                           const std::string& json_schema) {
  if (regex.empty() && json_schema.empty()) return nullptr;
  if (!regex.empty() && !json_schema.empty()) {
    throw Error(ErrorKind::kUsage, "expected a regex or a json_schema, found both");
  }
  const std::shared_ptr<const Text> words = text();
  {
    const std::lock_guard lock(trie_mutex);
    if (!trie) trie = MakeTokenTrie(*words);
  }
  ConstraintOptions options;
  options.end_tokens = model.get("model")->end_tokens();
  return regex.empty() ? Constraint::FromJsonSchema(json_schema, trie, options)
                       : Constraint::FromRegex(regex, trie, options);
}

}  // namespace banyan::python
