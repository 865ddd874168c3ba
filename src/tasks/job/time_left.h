// How long a job still takes, from what it has done so far: no clock of its own, so that a log of
// steps can be replayed.
#pragma once

#include <cstdint>

namespace banyan {

// A job at one moment. "Expected" is of all of its input, as far as what was read tells.
struct JobMoment {
  double seconds = 0.0;                // since it began
  double prefilled = 0.0;              // tokens of prompts computed
  double generated = 0.0;              // tokens of answers, those under way included
  double finished_answers = 0.0;       // answers that ended
  double finished_tokens = 0.0;        // of these
  double finished_squares = 0.0;       // sum of the squares of their lengths
  double expected_prefill = 0.0;       // tokens of prompts that are to be computed in all
  double expected_answers = 0.0;       // answers in all
  double most_tokens_of_answer = 1.0;  // tokens that an answer may have, in the mean
};

// A token of a prompt and one of an answer take their own times, which are learned from the
// moments. An answer's length is what was generated per finished answer: those under way count as
// far as they are, so that answers that are short and therefore first do not mislead.
class TimeLeft {
 public:
  // Seconds; -1: nothing is known yet. Moments come in their order.
  double After(const JobMoment& now);

 private:
  void Learn(const JobMoment& now);
  // Tokens that are still to be generated.
  static double TokensLeft(const JobMoment& now);

  JobMoment last_;
  // Sums over the moments of (d prefilled, d generated, d seconds) times each other.
  double pp_ = 0.0, pg_ = 0.0, gg_ = 0.0, ps_ = 0.0, gs_ = 0.0;
};

}  // namespace banyan
