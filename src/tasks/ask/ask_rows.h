// The answers of a record's questions as rows of the output.
#pragma once

#include <optional>
#include <vector>

#include "base/json.h"
#include "tasks/ask/ask_answers.h"
#include "tasks/ask/ask_record.h"
#include "tasks/job/task.h"

namespace banyan {

// `carried`: the input's other fields.
OutputRow AskErrorRow(const Json& id, const Json& question_id, const Json& question,
                      const RowProblem& problem, const RowPlace& place, const Json& carried);

// Which choice of a question the model finds most likely, and how likely each is.
class ChoiceScorer {
 public:
  ChoiceScorer(const AskOptions& options, const AskModel& model)
      : options_(options), model_(model) {}

  void Write(const AskQuestion& question, const AskedQuestion& asked,
             nlohmann::ordered_json& row) const;

 private:
  std::vector<double> ScoresOf(const AskedQuestion& asked, const AskedPart& part) const;
  std::optional<double> Confidence(const AskQuestion& question, double share) const;

  const AskOptions& options_;
  const AskModel& model_;
};

class AskRowWriter {
 public:
  AskRowWriter(const AskSettings& settings, const AskModel& model, const AskRecord& record,
               const AnswerReader& reader, const PartRanking& ranking)
      : options_(settings.options),
        model_(model),
        record_(record),
        reader_(reader),
        ranking_(ranking),
        choices_(settings.options, model) {}

  // REQUIRES: all answers of the question are there.
  OutputRow Row(size_t question, const AskedQuestion& asked) const;

 private:
  void WriteFree(const AskedQuestion& asked, nlohmann::ordered_json& row) const;
  void WriteTokens(const Answer& answer, nlohmann::ordered_json& row) const;

  const AskOptions& options_;
  const AskModel& model_;
  const AskRecord& record_;
  const AnswerReader& reader_;
  const PartRanking& ranking_;
  ChoiceScorer choices_;
};

}  // namespace banyan
