// `extract` as a task of the job runner: a record is a document, its row has all its values.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "banyan/extract.h"
#include "banyan/job.h"
#include "tasks/extract/extract_plan.h"
#include "tasks/extract/extract_value.h"
#include "tasks/job/task.h"
#include "tasks/output/carried_fields.h"
#include "tasks/prompt/prompt.h"
#include "tasks/prompt/prompt_encoder.h"

namespace banyan {

// What all documents of a job have in common; several threads work on documents at once.
struct ExtractSettings {
  ExtractOptions options;
  std::shared_ptr<Model> model;
  std::shared_ptr<const Text> text;
  ExtractSchema schema;
  SlotRequest slots;
  std::map<std::string, CategoryPlan> plans;  // by the category's name
  CarriedNames names{"extract"};              // of the input's other fields in rows
  std::unique_ptr<PromptWriter> writer;
  std::unique_ptr<EncoderPool> encoders;

  // The probability that a value is right: calibrated where the model's card says how, else the
  // probability with which the model wrote it.
  double Confidence(const ExtractAttribute& attribute, const WrittenValue& written,
                    const ModelCard& card) const;
  // Below it a value becomes null; without a limit of the user's, none that must be there.
  double LeastConfidence(const ExtractAttribute& attribute, const ModelCard& card) const;
};

struct ExtractEntity;  // extract_panel.h

// A document as the input has it.
struct ExtractRecord {
  Json id;
  std::string text;
  const CategoryPlan* plan = nullptr;
  const ModelCard* card = nullptr;      // of the adapter that reads it
  std::map<std::string, Json> carried;  // other fields, for the row and the template
};

// The job with what `extract` reads: documents, their texts in the field `text`.
JobOptions OfDocuments(JobOptions job);

// The field of a flat row that has the value of a leaf.
std::string ColumnOf(const std::string& name);

class ExtractTask : public Task {
 public:
  // `adapter`: of documents that do not name theirs. Throws kUsage for options and schemas,
  // kUnsupported for a model without text side.
  ExtractTask(std::shared_ptr<Model> model, const ExtractOptions& options,
              const std::string& adapter = "");

  std::string name() const override { return "extract"; }
  Json Parameters() const override;
  std::string Identity(const InputRow& row) const override;
  std::unique_ptr<RecordWork> Start(const InputRow& row) override;
  int most_stacked() const override { return settings_.options.stack; }
  std::string StackName(const InputRow& row) const override;
  std::unique_ptr<RecordWork> StartStack(std::span<const InputRow> rows) override;
  TableColumns Columns() const override;
  OutputRow ErrorRow(const InputRow& row, const RowProblem& problem) const override;

  // What the prompt of these documents says.
  std::string ShowPrompt(std::span<const InputRow> rows);
  // Tokens, positions and slots of the documents of a prompt (WriteExtractLayouts), a line each.
  std::vector<std::string> Layouts(std::span<const InputRow> rows);

 private:
  // Without a text.
  ExtractRecord ReadCommon(const InputRow& row) const;
  ExtractRecord Read(const InputRow& row) const;
  ExtractEntity ReadDocuments(const InputRow& row) const;
  std::vector<ExtractRecord> ReadAll(std::span<const InputRow> rows) const;

  ExtractSettings settings_;
  std::string adapter_;
};

}  // namespace banyan
