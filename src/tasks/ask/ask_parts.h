// A long context that was asked about in parts: which part's answer counts, where it stands in the
// whole, and the passages around the best answers, which the model may read once more together.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "tasks/ask/ask_reader.h"
#include "text/span.h"

namespace banyan {

// The answer of a part, other than null.
struct PartCandidate {
  size_t part = 0;
  std::string answer;
  std::optional<TextSpan> place;  // in the record's context
  double score = 0.0;             // the best has the highest
  std::optional<double> confidence;
  size_t begin = 0;  // of the part, in bytes of the context
};

// REQUIRES, of all that judges answers: they are there.
class PartRanking {
 public:
  // `context`: the record's.
  PartRanking(std::string_view context, const AnswerReader& reader)
      : context_(context), reader_(reader) {}

  // What the parts answer, the best first. Answers that agree at different places support each
  // other: with a calibration an answer counts with the probability that not all of them are wrong.
  // Without one, the highest mean log-probability per token is the best.
  std::vector<PartCandidate> Candidates(const AskedQuestion& asked) const;
  // The part whose answer counts, or the passages that were read together.
  const AskedPart& Best(const AskedQuestion& asked) const;
  // In the whole context, found where the part was read.
  std::optional<TextSpan> PlaceOf(const AskedPart& part, const std::string& answer) const;
  // Which part answered, or what was read together; and what the parts answered.
  void Write(const AskedQuestion& asked, const AskedPart& answered,
             nlohmann::ordered_json& row) const;
  // Passages of about so many bytes around the best answers, in the order of the context.
  std::vector<std::string_view> Passages(const std::vector<PartCandidate>& candidates,
                                         size_t bytes) const;

 private:
  size_t BestPart(const AskedQuestion& asked) const;
  bool ReducedCounts(const AskedQuestion& asked, const AskedPart& best) const;
  TextSpan SpanOf(std::string_view piece) const;

  std::string_view context_;
  const AnswerReader& reader_;
};

}  // namespace banyan
