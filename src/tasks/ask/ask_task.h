// `ask` as a task of the job runner.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "banyan/ask.h"
#include "tasks/ask/ask_work.h"
#include "tasks/job/task.h"

namespace banyan {

class AskTask : public Task {
 public:
  // `adapter`: of records that name none; empty: none. Throws kUsage for options that do not fit
  // together, kUnsupported for a model without text side.
  AskTask(std::shared_ptr<Model> model, const AskOptions& options, std::string adapter = {});

  std::string name() const override { return "ask"; }
  Json Parameters() const override;
  std::string Identity(const InputRow& row) const override;
  std::unique_ptr<RecordWork> Start(const InputRow& row) override;
  // Replaces the questions that are asked of every document.
  void SetQuestions(const std::vector<std::string>& questions);
  void SetQuestion(AskQuestion question);
  // The model's card says how far its choice among options can be believed.
  bool rates_choices() const;
  // Whether --thinking changes anything with the model's chat template.
  bool thinking_matters() const { return settings_.writer->thinking_matters(); }
  TableColumns Columns() const override;
  OutputRow ErrorRow(const InputRow& row, const RowProblem& problem) const override;

 private:
  AskModel ModelOf(const std::string& adapter) const;

  AskSettings settings_;
  std::string adapter_;              // of records that name none
  std::vector<AskQuestion> common_;  // asked of every document
};

}  // namespace banyan
