// `rag` as a task of the job runner.
#pragma once

#include <memory>
#include <string>

#include "banyan/rag.h"
#include "tasks/job/task.h"
#include "tasks/rag/rag_prompt.h"
#include "tasks/rag/rag_record.h"

namespace banyan {

class RagTask : public Task {
 public:
  // `in_haste`: an answer's time counts more than what is computed for it; rows are the same.
  // Throws kUsage for options that do not fit together, kUnsupported for a model without text side.
  RagTask(std::shared_ptr<Model> model, const RagOptions& options, bool in_haste = false);

  std::string name() const override { return "rag"; }
  Json Parameters() const override;
  std::string Identity(const InputRow& row) const override;
  std::unique_ptr<RecordWork> Start(const InputRow& row) override;
  // The two halves of Start: one record may be asked in several ways.
  RagRecord Read(const Json& row) const;
  std::unique_ptr<RecordWork> Ask(RagRecord record, RowPlace place) const;
  TableColumns Columns() const override;
  OutputRow ErrorRow(const InputRow& row, const RowProblem& problem) const override;

 private:
  RagSettings settings_;
};

}  // namespace banyan
