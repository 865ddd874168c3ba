// Several records go through the engine at once (RecordWindow). The answers of the first are shown
// while they are written; those of the others wait for their turn.
#include "program/ask_session.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <iterator>
#include <limits>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "program/fresh_file.h"
#include "tasks/ask/ask_task.h"
#include "tasks/job/job.h"
#include "tasks/job/job_rows.h"
#include "tasks/job/record_window.h"
#include "tasks/output/row_format.h"

namespace banyan {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kRecordsAhead = 64;
constexpr double kWaitSeconds = 0.02;  // between checks of the stop request

// One record: what was heard of its questions, shown one question after another.
class LiveRecord {
 public:
  LiveRecord(const InputRow& row, std::uint64_t number);

  std::uint64_t number() const { return number_; }

  // --- What a RecordListener hears of the record
  void Starts(const RecordWork& work);
  void Hear(size_t question, const std::string& text) { questions_[question].text += text; }
  void End(size_t question, OutputRow row, std::string rest);
  void Cancel(size_t question, const std::string& rest);

  // Shows what is new; true when all was shown.
  bool Show(bool name_document, AskListener& listener, AskTotals& totals);
  const std::string& id() const { return id_; }
  size_t parts() const { return parts_; }  // of its text, where that is too long for the model
  // Of the questions that were shown completely.
  std::vector<OutputRow> TakeRows() { return std::move(rows_); }
  // The question that is being shown has text.
  bool has_text() const { return current_ < questions_.size() && questions_[current_].has_text(); }

 private:
  struct Question {
    std::string asked;
    std::string text;              // heard, not shown yet
    std::optional<OutputRow> row;  // once it is answered
    std::string rest;              // of the row's answer, after the text
    bool announced = false, began = false, cancelled = false;
    bool has_text() const { return began || !text.empty(); }
  };
  void ShowEnd(Question& question, AskListener& listener, AskTotals& totals);

  std::uint64_t number_;
  std::string id_;
  std::string problem_;  // why the record cannot be asked
  std::vector<Question> questions_;
  std::vector<OutputRow> rows_;
  size_t parts_ = 1;
  size_t current_ = 0;  // the question that is being shown
  bool named_ = false;
};

LiveRecord::LiveRecord(const InputRow& row, std::uint64_t number) : number_(number) {
  const Json id = row.value.value("id", Json());
  id_ = id.is_string() ? id.get<std::string>() : id.is_null() ? row.file : DumpJson(id);
}

void LiveRecord::Starts(const RecordWork& work) {
  questions_.resize(static_cast<size_t>(work.row_count()));
  parts_ = work.parts();
  for (size_t i = 0; i < questions_.size(); ++i) questions_[i].asked = work.QuestionOf(i);
}

void LiveRecord::End(size_t question, OutputRow row, std::string rest) {
  if (questions_.empty()) {  // the record did not start
    problem_ = row.error_message();
    return;
  }
  questions_[question].row = std::move(row);
  questions_[question].rest = std::move(rest);
}

void LiveRecord::Cancel(size_t question, const std::string& rest) {
  questions_[question].text += rest;
  questions_[question].cancelled = true;
}

bool LiveRecord::Show(bool name_document, AskListener& listener, AskTotals& totals) {
  if (!std::exchange(named_, true) && name_document) listener.Document(id_);
  if (!problem_.empty()) {
    ++totals.errors;
    listener.Failed(problem_);
    return true;
  }
  while (current_ < questions_.size()) {
    Question& question = questions_[current_];
    if (!std::exchange(question.announced, true)) listener.Question(question.asked);
    if (!question.text.empty()) {
      listener.Text(std::exchange(question.text, ""));
      question.began = true;
    }
    if (!question.row && !question.cancelled) return false;
    ShowEnd(question, listener, totals);
    ++current_;
  }
  return true;
}

void LiveRecord::ShowEnd(Question& question, AskListener& listener, AskTotals& totals) {
  if (question.cancelled) return listener.Answered(true);
  const OutputRow& row = rows_.emplace_back(std::move(*question.row));
  if (row.error) {
    ++totals.errors;
    return listener.Failed(row.error_message());
  }
  ++totals.answers;
  const auto confidence = row.fields.find("confidence");
  if (confidence != row.fields.end() && confidence->is_number()) {
    listener.Confidence(confidence->get<double>());
  }
  if (row.fields.at("answer").is_null() && !question.began) return listener.NoAnswer();
  if (!question.rest.empty()) listener.Text(question.rest);
  listener.Answered(row.fields.at("finish_reason") == "length");
}

// Records that are not completely shown yet, in the input's order.
class OpenRecords : public RecordListener {
 public:
  void Add(const InputRow& row, std::uint64_t number) { records_.emplace_back(row, number); }
  bool empty() const { return records_.empty(); }
  size_t size() const { return records_.size(); }
  LiveRecord& front() { return records_.front(); }
  void pop_front() { records_.pop_front(); }

  void Starts(std::uint64_t record, const RecordWork& work) override { At(record).Starts(work); }
  void Text(std::uint64_t record, size_t question, std::string text) override {
    At(record).Hear(question, text);
  }
  void Row(std::uint64_t record, size_t question, OutputRow row, std::string rest) override {
    At(record).End(question, std::move(row), std::move(rest));
  }
  void Cancelled(std::uint64_t record, size_t question, std::string rest) override {
    At(record).Cancel(question, rest);
  }

 private:
  // Numbers are consecutive. No event of a record comes after it was shown.
  LiveRecord& At(std::uint64_t record) { return records_.at(record - records_.front().number()); }

  std::deque<LiveRecord> records_;
};

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
    OpenRecords open;
    RecordWindow window([this](PromptSegment& prompt) { return engine_.TrySubmit(prompt); }, open);
    const RecordRunOptions run{.adapter = "", .most_tokens = most_tokens_, .stream = true};
    bool more = true;
    while (true) {
      while (more && open.size() < kRecordsAhead) {
        InputRow row;
        more = next(row);
        if (!more) break;
        open.Add(row, next_record_);
        window.Add(next_record_++, task_, *model_, row, run);
        window.Submit();
      }
      if (open.empty()) break;
      for (AnswerEvent& event : engine_.TakeEvents(kWaitSeconds)) window.Take(std::move(event));
      window.Submit();
      if (!totals.stopped && stop && stop()) {
        totals.stopped = true;
        more = false;
        window.Cancel(engine_);
      }
      if (!open.empty() && open.front().parts() > 1 && !std::exchange(said_split_, true)) {
        listener.Notice(SplitNotice(open.front().id(), open.front().parts(), task_.name()));
      }
      while (!open.empty() && open.front().Show(name_documents, listener, totals)) {
        if (remember_) std::ranges::move(open.front().TakeRows(), std::back_inserter(rows_));
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

  AskTotals Run(const JobOptions& given, AskListener& listener) {
    const JobOptions job = WithIdColumn(given);
    CheckJob(job);
    InputOptions options = InputOf(job);
    const bool several = options.files.size() > 1;
    bool name_documents = several;
    for (const std::string& file : options.files) {
      const auto kind = InputKindOfFile(file);
      name_documents |= kind && !IsDocument(*kind);
    }
    InputReader input(std::move(options));
    JobRows rows(input, task_, job);
    const NextRow next = [&](InputRow& row) {
      if (!rows.Next(row)) return false;
      if (row.problem && job.strict) {
        Throw(row.problem->kind, "{}: {} (--strict)", row.file, row.problem->message);
      }
      return true;
    };
    return Answer(next, job.stop, name_documents, listener);
  }

  bool Read(const JobOptions& job, AskListener& listener) {
    CheckJob(job);
    InputReader input(InputOf(WithIdColumn(job)));
    InputRow row;
    std::string problem;
    documents_.clear();
    while (input.Next(row)) {
      if (row.problem) {
        const std::string why = fmt::format("{}: {}", row.file, row.problem->message);
        if (job.strict) throw Error(row.problem->kind, why);
        if (problem.empty()) problem = why;
        if (job.notice) job.notice("not read: " + why);
        continue;
      }
      documents_.push_back(std::move(row));
      if (job.stop && job.stop()) return false;
    }
    if (documents_.empty() && !problem.empty()) throw Error(ErrorKind::kInput, problem);
    // Any question computes the document before it; its answer is not shown.
    Silence silence(listener);
    most_tokens_ = 1;
    remember_ = false;
    const AskTotals totals = AskOfAll("?", job.stop, silence);
    remember_ = true;
    most_tokens_ = kAllTokens;
    if (!silence.problem.empty()) Throw(ErrorKind::kLimit, "{}", silence.problem);
    return !totals.stopped;
  }

  AskTotals AskOfAll(const std::string& question, const std::function<bool()>& stop,
                     AskListener& listener) {
    AskQuestion asked;
    asked.question = question;
    if (IsYesNoQuestion(question)) {  // which no words of the text answer
      if (!task_.rates_choices()) {
        listener.Failed(
            "a yes/no question, and this model's card does not say how well it chooses: ask what, "
            "who, when or where, or use smollm2-135m-instruct (banyan model better)");
        return {};
      }
      asked.choices = {"yes", "no"};
    }
    if (remember_) asked.id = ++asked_;
    task_.SetQuestion(std::move(asked));
    size_t at = 0;
    const NextRow next = [&](InputRow& row) {
      if (at == documents_.size()) return false;
      row = documents_[at++];
      return true;
    };
    return Answer(next, stop, documents_.size() > 1, listener);
  }

  std::int64_t Save(const std::string& path, bool overwrite) const {
    if (rows_.empty()) Throw(ErrorKind::kUsage, "nothing was asked yet");
    JobOptions job;
    job.output = path;
    RowFormat format(job, task_.Columns());
    FreshFile file(path, "/save", overwrite);
    file.stream() << format.Header();
    for (const OutputRow& row : rows_) file.stream() << format.Line(row);
    file.Finish();
    return static_cast<std::int64_t>(rows_.size());
  }

  std::int64_t document_count() const { return static_cast<std::int64_t>(documents_.size()); }

 private:
  // Passes on progress alone, and keeps the first problem.
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
    void Notice(const std::string& text) override { listener_.Notice(text); }
    std::string problem;

   private:
    AskListener& listener_;
  };

  std::shared_ptr<Model> model_;
  AskTask task_;
  Engine engine_;
  std::uint64_t next_record_ = 0;
  std::vector<InputRow> documents_;
  static constexpr int kAllTokens = std::numeric_limits<int>::max();
  int most_tokens_ = kAllTokens;  // of every answer
  bool said_split_ = false;       // that a text is too long for the model, once
  bool remember_ = false;         // rows are kept for Save: at a prompt
  std::vector<OutputRow> rows_;
  int asked_ = 0;  // questions at the prompt
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

std::int64_t AskSession::Save(const std::string& path, bool overwrite) const {
  return impl_->Save(path, overwrite);
}

std::int64_t AskSession::document_count() const { return impl_->document_count(); }

}  // namespace banyan
