// `ask` as a task of the job runner.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "banyan/ask.h"
#include "tasks/ask_work.h"
#include "tasks/task.h"

namespace banyan {

class AskTask : public Task {
 public:
  // Throws kUsage for options that do not fit together, kUnsupported for a model without text side.
  AskTask(std::shared_ptr<Model> model, const AskOptions& options);

  std::string name() const override { return "ask"; }
  Json Parameters() const override;
  std::string Identity(const InputRow& row) const override;
  std::unique_ptr<RecordWork> Start(const InputRow& row) override { return StartAsk(row); }
  std::unique_ptr<AskWork> StartAsk(const InputRow& row);
  // Other questions for every document than the options have.
  void SetQuestions(const std::vector<std::string>& questions);
  // Whether --thinking changes anything with the model's chat template.
  bool thinking_matters() const { return settings_.writer->thinking_matters(); }
  TableColumns Columns() const override;
  OutputRow ErrorRow(const InputRow& row, const RowProblem& problem) const override;

 private:
  AskSettings settings_;
  std::vector<AskQuestion> common_;  // asked of every document
};

}  // namespace banyan
