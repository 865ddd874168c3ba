// The answers of a record's questions: what each says, whether it is null, how likely it is right,
// and whether the card's null bias may turn it over. Of a long context that was asked about in
// parts, which part's answer counts, and the passages that the model may read once more together.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/answer.h"
#include "banyan/constrain.h"
#include "banyan/model.h"
#include "base/json.h"
#include "tasks/ask/ask_prompt.h"
#include "tasks/job/task.h"
#include "text/span.h"

namespace banyan {

// The answers of a question over one part of the context: samples, or one per choice.
struct AskedPart {
  std::vector<Answer> answers;
  std::int64_t prompt_tokens = 0;
  std::shared_ptr<const Constraint> copied;  // what may be copied; null: not copied
  std::string_view context;                  // as the prompt has it
  std::vector<std::string_view> pieces;      // of the record's context that it is made of
  std::optional<float> first_logprob;        // of the first token, while the answer is streamed
  Answer other;  // the best answer against a null, or a null against an answer
};

// What is asked of a question, in this order: all of it; once more about null; the best passages
// of a long context together.
enum class AskStage { kFirst, kNull, kReduce, kDone };

struct AskedQuestion {
  // Numbers of parts that are not in `parts`, and of AskedPart::other among the answers.
  static constexpr size_t kPriorPart = ~size_t{0}, kReducedPart = kPriorPart - 1;
  static constexpr size_t kOtherAnswer = ~size_t{0};

  std::optional<RowProblem> problem;
  std::vector<AskedPart> parts;
  AskedPart prior;    // its choices without a document; no answers: not asked for
  AskedPart reduced;  // the best passages together; no answers: not asked for
  AskStage stage = AskStage::kFirst;
  AskStage next = AskStage::kDone;  // once all answers of `stage` are there
  bool cancelled = false;
  size_t cut_bytes = 0;  // of the context, to make it fit
  size_t missing = 0;    // answers that are not there yet

  AskedPart& PartAt(size_t number);
};

// An answer's text; with --thinking on, the thoughts are apart from it.
struct AskAnswerText {
  std::string answer, thinking;
};

class AnswerReader {
 public:
  AnswerReader(const AskSettings& settings, const AskModel& model)
      : settings_(settings), model_(model) {}

  AskAnswerText Read(const Answer& answer, const AskedPart& part) const;
  // The answer says that there is none.
  bool IsNull(const std::string& answer) const;
  bool FirstIsNull(const AskedPart& part) const { return IsNull(FirstText(part)); }
  std::string FirstText(const AskedPart& part) const {
    return Read(part.answers.front(), part).answer;
  }
  // The probability that an answer is right; nothing where the model's card has no calibration.
  std::optional<double> Confidence(const Answer& answer, bool is_null) const;
  // Tokens that the tokenizer does not have (padded vocabularies) have no text.
  std::string Decode(std::span<const TokenId> tokens, bool skip_special) const;

 private:
  const AskSettings& settings_;
  const AskModel& model_;
};

// Null counts as if its log-probability were greater by the card's `null_bias`: at the answer's
// first token, against the most likely other one. Only greedy answers that are copied have both.
class NullBias {
 public:
  NullBias(const AskOptions& options, const AskModel& model, const AnswerReader& reader);

  double bias() const { return bias_; }
  // Whether the bias could turn over an answer with this first token, or a null: the other side
  // has at most the probability that this one leaves.
  bool MayTurn(double first_logprob, bool is_null) const;
  // The other side of the part's answer has to be asked for (AskedPart::other).
  bool IsUndecided(const AskedPart& part) const;
  // Replaces the answer by the other side where that wins.
  void Decide(AskedPart& part) const;

 private:
  const AnswerReader& reader_;
  double bias_ = 0.0;
};

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
