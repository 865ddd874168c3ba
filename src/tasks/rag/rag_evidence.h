// What speaks for an answer and against it: whether it stands in a document, how likely it is
// right, and what else documents answer.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "tasks/rag/rag_prompt.h"
#include "tasks/rag/rag_record.h"
#include "tasks/rag/rag_rows.h"

namespace banyan {

class RagEvidence {
 public:
  using TextOf = std::function<std::string(const Answer&)>;
  RagEvidence(const RagSettings& settings, const RagRecord& record, TextOf text_of)
      : settings_(settings), record_(record), text_of_(std::move(text_of)) {}

  // Whether the answer may be shown: where answers are copied, a document has it.
  bool Stands(const std::string& said) const;
  // Whether a document answers by itself what all experts say together.
  bool IsSaidAlone(const RagAnswers& answers, const std::string& said) const;
  // The document whose own answer is clearly surer than `said`, what all experts say together.
  // Nothing: there is none, or the model's card has no calibration.
  std::optional<size_t> ClearlySurer(const RagAnswers& answers, const std::string& said) const;
  // `confidence`, where the model's card has a calibration, and `alternatives`: what documents
  // answer otherwise, the surest first, if they are sure enough. `said`: the answer; empty: null.
  void Write(const RagAnswers& answers, const std::string& said, nlohmann::ordered_json& row) const;
  // What this follows from: `joint`, what all experts say together; `evidence` of the answer; and
  // `candidates`, each answer with its evidence and its documents, what experts say first.
  void WriteTrace(const RagAnswers& answers, const std::string& said,
                  nlohmann::ordered_json& trace) const;

 private:
  // An answer of one or more documents. They support it: it is wrong only if all are.
  struct Candidate {
    std::string answer;
    std::vector<size_t> documents;
    double all_wrong = 1.0;
    double evidence() const { return 1.0 - all_wrong; }
  };

  bool Weighs() const;
  std::vector<Candidate> Candidates(const RagAnswers& answers, const std::string& said) const;
  std::vector<Candidate>::iterator Shown(std::vector<Candidate>& candidates,
                                         const std::string& said) const;
  std::optional<double> NullEvidence(const Answer& answer) const;
  // Evidence is measured by `ask`, one document at a time; answers and alternatives are chosen by
  // it alone. What the card has for `rag` maps it to the confidence that is shown, so that a card
  // that gets it changes no answer.
  const Calibration* CalibrationOf(const char* kind) const;
  double Confidence(double evidence, const char* kind) const;

  const RagSettings& settings_;
  const RagRecord& record_;
  const TextOf text_of_;
};

}  // namespace banyan
