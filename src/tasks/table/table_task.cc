#include "tasks/table/table_task.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "tasks/job/job.h"
#include "tasks/options/task_options.h"
#include "tasks/table/table_rows.h"

namespace banyan {
namespace {

// More rows with one prompt than this compute it again, and share all of it.
constexpr int kMostEqual = 4096;

constexpr const char* kOfListed = "Is this true of the text: ";
constexpr const char* kOfWhole = "Is this true: ";

// How the prompt of a row is asked: after its columns as a question about them, or as it is.
AskOptions AskOf(const TableAskOptions& options, const TableTemplate& prompt, const Model& model) {
  AskOptions ask = options.ask;
  if (prompt.may_reorder() || model.text() == nullptr) return ask;
  const bool chat =
      ask.chat == ChatUse::kOn || (ask.chat == ChatUse::kAuto && model.text()->has_chat_template());
  ask.prompt_template = chat ? "{question}"
                        : ask.instruction.empty()
                            ? "{few_shot}{question}\nAnswer:"
                            : "{instruction}\n\n{few_shot}{question}\nAnswer:";
  return ask;
}

// What is asked is whether it is true.
bool IsStatement(const TableAskOptions& options) {
  return options.op == TableOperator::kFilter ||
         (options.op == TableOperator::kRank && options.labels.empty());
}

std::vector<std::string> LabelsOf(const TableAskOptions& options) {
  return IsStatement(options) ? std::vector<std::string>{"yes", "no"} : options.labels;
}

// One prompt, asked once, and the rows that have it.
class TableWork : public RecordWork {
 public:
  TableWork(const TableAskOptions& options, std::unique_ptr<RecordWork> asked,
            std::span<const InputRow> rows)
      : options_(options), asked_(std::move(asked)), rows_(rows.begin(), rows.end()) {}

  std::vector<PromptSegment> NextPrompts() override { return asked_->NextPrompts(); }
  void Take(Answer answer) override { asked_->Take(std::move(answer)); }
  void Refuse(const Error& error) override { asked_->Refuse(error); }
  std::int64_t row_count() const override { return static_cast<std::int64_t>(rows_.size()); }
  std::vector<RowProblem> Problems() const override {
    std::vector<RowProblem> problems = asked_->Problems();
    if (!problems.empty()) problems.resize(rows_.size(), problems.front());
    return problems;
  }
  OutputRow Row(size_t row) override {
    if (!answer_.fields.contains("id")) answer_ = asked_->Row(0);
    const std::vector<RowProblem> problems = asked_->Problems();
    if (!problems.empty()) return TableErrorRow(options_, rows_[row], problems.front());
    return TableAnswerRow(options_, rows_[row], answer_);
  }
  size_t parts() const override { return asked_->parts(); }
  bool IsAnswered(size_t) const override { return asked_->IsAnswered(0); }

 private:
  const TableAskOptions& options_;
  const std::unique_ptr<RecordWork> asked_;
  const std::vector<TableRow> rows_;
  OutputRow answer_;
};

}  // namespace

std::string TableOperatorName(TableOperator op) {
  switch (op) {
    case TableOperator::kMap:
      return "map";
    case TableOperator::kFilter:
      return "filter";
    case TableOperator::kRank:
      return "rank";
    case TableOperator::kGroup:
      break;
  }
  return "group";
}

TableTask::TableTask(std::shared_ptr<Model> model, const TableAskOptions& options,
                     const TableTemplate& prompt, const TablePlan& plan)
    : options_(options),
      prompt_(prompt),
      plan_(plan),
      ask_(model, AskOf(options, prompt, *model)) {}

Json TableTask::Parameters() const {
  Json parameters = ask_.Parameters();
  parameters.erase("questions");
  parameters.erase("--questions");
  parameters.update(IdentityOf(options_));
  parameters["prompt"] = options_.prompt;
  return parameters;
}

std::string TableTask::Identity(const InputRow& row) const {
  return DumpJson(Json::array({IdOf(row.value)}));
}

int TableTask::most_stacked() const {
  return options_.ask.sampling.temperature > 0.0f ? 1 : kMostEqual;
}

std::string TableTask::StackName(const InputRow& row) const {
  const TableTemplate::Written written =
      prompt_.Write(prompt_.ValuesOf(row.value), plan_.OrderOf(row.index));
  return written.context + '\0' + written.text;
}

std::unique_ptr<RecordWork> TableTask::StartStack(std::span<const InputRow> rows) {
  const InputRow& first = rows.front();
  TableTemplate::Written written =
      prompt_.Write(prompt_.ValuesOf(first.value), plan_.OrderOf(first.index));
  const bool listed = prompt_.may_reorder();
  if (IsStatement(options_)) {
    written.text = (listed ? kOfListed : kOfWhole) + written.text;
  }
  InputRow asked;
  asked.file = first.file;
  asked.line = first.line;
  asked.value = {{"id", IdOf(first.value)},
                 {"context", std::move(written.context)},
                 {"question", std::move(written.text)}};
  if (const std::vector<std::string> labels = LabelsOf(options_); !labels.empty()) {
    asked.value["choices"] = labels;
  }
  const auto adapter = first.value.find("adapter");
  if (adapter != first.value.end()) asked.value["adapter"] = *adapter;
  return std::make_unique<TableWork>(options_, ask_.Start(asked), rows);
}

TableColumns TableTask::Columns() const { return ColumnsOfTable(options_); }

OutputRow TableTask::ErrorRow(const InputRow& row, const RowProblem& problem) const {
  return TableErrorRow(options_, TableRow(row), problem);
}

}  // namespace banyan
