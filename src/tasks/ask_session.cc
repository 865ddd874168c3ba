// Records go through the engine a few at a time; what the first of them says is shown as it comes,
// what the others say waits for its turn.
#include "banyan/ask_session.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json_row.h"
#include "tasks/ask_task.h"
#include "tasks/job.h"
#include "tasks/live_record.h"

namespace banyan {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kRecordsAhead = 64;
constexpr double kWaitSeconds = 0.02;  // between looks at the stop request

}  // namespace

class AskSession::Impl {
 public:
  Impl(std::shared_ptr<Model> model, const EngineOptions& engine_options, const AskOptions& ask)
      : model_(model), task_(model, ask), engine_(std::move(model), engine_options) {
    engine_.Start();
  }

  using NextRow = std::function<bool(InputRow&)>;

  AskTotals Answer(const NextRow& next, const std::function<bool()>& stop, bool name_documents,
                   AskListener& listener) {
    const Clock::time_point start = Clock::now();
    const Receipt before = engine_.receipt();
    AskTotals totals;
    std::deque<LiveRecord> open;
    bool more = true;
    while (true) {
      while (more && open.size() < kRecordsAhead) {
        InputRow row;
        more = next(row);
        if (more) {
          open.emplace_back(task_, *model_, std::move(row), next_record_++).SubmitTo(engine_);
        }
      }
      if (open.empty()) break;
      for (AnswerEvent& event : engine_.TakeEvents(kWaitSeconds)) {
        const auto owner =
            std::ranges::find(open, event.tag >> LiveRecord::kTagBits, &LiveRecord::sequence);
        if (owner == open.end()) continue;
        owner->Take(std::move(event));
        if (!totals.stopped && owner->WantsMore()) owner->SubmitTo(engine_);
      }
      if (!totals.stopped && stop && stop()) {
        totals.stopped = true;
        more = false;
        for (LiveRecord& record : open) record.CancelIn(engine_);
      }
      while (!open.empty() && open.front().Show(name_documents, listener, totals)) {
        open.pop_front();
      }
      if (!open.empty() && !open.front().has_text()) {
        listener.Computing(engine_.receipt().prefilled_tokens - before.prefilled_tokens);
      }
    }
    const Receipt after = engine_.receipt();
    totals.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    totals.prompt_tokens = after.prompt_tokens - before.prompt_tokens;
    totals.computed_tokens = after.prefilled_tokens - before.prefilled_tokens;
    return totals;
  }

  AskTotals Run(const JobOptions& job, AskListener& listener) {
    CheckJob(job);
    InputOptions options = InputOf(job);
    const bool several = options.files.size() > 1;
    bool name_documents = several;
    for (const std::string& file : options.files) {
      const auto kind = InputKindOfFile(file);
      name_documents |= kind && !IsDocument(*kind);
    }
    InputReader input(std::move(options));
    std::set<std::string> identities;
    std::int64_t read = 0;
    const NextRow next = [&](InputRow& row) {
      while (job.limit < 0 || read < job.limit) {
        if (!input.Next(row)) return false;
        ++read;
        try {
          if (!row.problem && !identities.insert(task_.Identity(row)).second) {
            row.problem = {ErrorKind::kInput, "an earlier row has the same id"};
          }
        } catch (const std::exception& e) {
          row.problem = ProblemOf(e);
        }
        if (row.index % job.shards == job.shard - 1) return true;
      }
      return false;
    };
    return Answer(next, job.stop, name_documents, listener);
  }

  bool Read(const JobOptions& job, AskListener& listener) {
    CheckJob(job);
    InputReader input(InputOf(job));
    InputRow row;
    documents_.clear();
    while (input.Next(row)) {
      if (row.problem) Throw(row.problem->kind, "{}: {}", row.file, row.problem->message);
      documents_.push_back(std::move(row));
      if (job.stop && job.stop()) return false;
    }
    // Any question computes the document before it; what it says is not shown.
    Silence silence(listener);
    const AskTotals totals = AskOfAll("?", job.stop, silence);
    if (!silence.problem.empty()) Throw(ErrorKind::kLimit, "{}", silence.problem);
    return !totals.stopped;
  }

  AskTotals AskOfAll(const std::string& question, const std::function<bool()>& stop,
                     AskListener& listener) {
    task_.SetQuestions({question});
    size_t at = 0;
    const NextRow next = [&](InputRow& row) {
      if (at == documents_.size()) return false;
      row = documents_[at++];
      return true;
    };
    return Answer(next, stop, documents_.size() > 1, listener);
  }

  std::int64_t document_count() const { return static_cast<std::int64_t>(documents_.size()); }

 private:
  // Passes on how far computing is, and keeps the first problem.
  class Silence : public AskListener {
   public:
    explicit Silence(AskListener& listener) : listener_(listener) {}
    void Document(const std::string&) override {}
    void Question(const std::string&) override {}
    void Text(const std::string&) override {}
    void Answered(bool) override {}
    void NoAnswer() override {}
    void Failed(const std::string& reason) override {
      if (problem.empty()) problem = reason;
    }
    void Computing(std::int64_t done_tokens) override { listener_.Computing(done_tokens); }
    std::string problem;

   private:
    AskListener& listener_;
  };

  std::shared_ptr<Model> model_;
  AskTask task_;
  Engine engine_;
  std::uint64_t next_record_ = 0;
  std::vector<InputRow> documents_;
};

AskSession::AskSession(std::shared_ptr<Model> model, const EngineOptions& engine_options,
                       const AskOptions& ask)
    : impl_(std::make_unique<Impl>(std::move(model), engine_options, ask)) {}

AskSession::~AskSession() = default;

AskTotals AskSession::Run(const JobOptions& job, AskListener& listener) {
  return impl_->Run(job, listener);
}

bool AskSession::Read(const JobOptions& job, AskListener& listener) {
  return impl_->Read(job, listener);
}

AskTotals AskSession::Ask(const std::string& question, const std::function<bool()>& stop,
                          AskListener& listener) {
  return impl_->AskOfAll(question, stop, listener);
}

std::int64_t AskSession::document_count() const { return impl_->document_count(); }

}  // namespace banyan
