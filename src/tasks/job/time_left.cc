#include "tasks/job/time_left.h"

#include <algorithm>

namespace banyan {
namespace {

// Before answers came, some of a likely length stand for them.
constexpr double kLikelyAnswers = 4.0, kLikelyPart = 0.25;
// The last answers of a job are written by few at a time, which takes longer a token.
constexpr double kLastOnes = 1.1;
// So many lengths say how much lengths vary.
constexpr double kSomeAnswers = 8.0;
// How much equal times for both kinds of tokens count in the fit: there may be no moment that tells
// the two apart.
constexpr double kPrior = 1e-2;

struct TokenSeconds {
  double prefill = 1.0, generate = 1.0;  // in any unit: the time that was taken sets it
};

}  // namespace

void TimeLeft::Learn(const JobMoment& now) {
  const double p = now.prefilled - last_.prefilled;
  const double g = now.generated - last_.generated;
  const double s = now.seconds - last_.seconds;
  last_ = now;
  pp_ += p * p;
  pg_ += p * g;
  gg_ += g * g;
  ps_ += p * s;
  gs_ += g * s;
}

double TimeLeft::After(const JobMoment& now) {
  Learn(now);
  if (now.prefilled + now.generated <= 0.0 || now.expected_answers <= 0.0) return -1.0;
  // Least squares, drawn towards one time for every token.
  const double mean = now.seconds / (now.prefilled + now.generated);
  TokenSeconds cost{mean, mean};
  const double prior_p = kPrior * (pp_ + 1.0), prior_g = kPrior * (gg_ + 1.0);
  const double a = pp_ + prior_p, c = gg_ + prior_g;
  const double x = ps_ + prior_p * mean, y = gs_ + prior_g * mean;
  const double determinant = a * c - pg_ * pg_;
  if (determinant > 1e-9 * a * c) {
    cost.prefill = std::max((c * x - pg_ * y) / determinant, 0.01 * mean);
    cost.generate = std::max((a * y - pg_ * x) / determinant, 0.01 * mean);
  }
  const double prefill = std::max(0.0, now.expected_prefill - now.prefilled);
  const double done = cost.prefill * now.prefilled + cost.generate * now.generated;
  return kLastOnes * now.seconds * (cost.prefill * prefill + cost.generate * TokensLeft(now)) /
         done;
}

double TimeLeft::TokensLeft(const JobMoment& now) {
  const double most = now.most_tokens_of_answer, finished = now.finished_answers;
  const double length = std::min(
      most, (now.generated + kLikelyAnswers * kLikelyPart * most) / (finished + kLikelyAnswers));
  // Answers begin when their prompts are computed.
  const double prompts = std::max({now.expected_prefill, now.prefilled, 1.0});
  const double begun = std::clamp(now.expected_answers * now.prefilled / prompts, finished,
                                  std::max(finished, now.expected_answers));
  const double under_way = begun - finished;
  const double age =
      under_way > 0.0 ? std::max(0.0, now.generated - now.finished_tokens) / under_way : 0.0;
  // Of lengths that vary as those of coin tosses an answer under way has as much before it as a new
  // one; of equal lengths what it has not done yet. Few lengths are known well: the mean of both.
  double spread = 1.0;
  if (finished >= kSomeAnswers && now.finished_tokens > 0.0) {
    const double mean = now.finished_tokens / finished;
    spread = std::clamp(now.finished_squares / finished / (mean * mean) - 1.0, 0.0, 1.0);
  }
  const double rest = spread * length + (1.0 - spread) * std::max(length - age, 0.1 * length);
  return length * (std::max(now.expected_answers, begun) - begun) +
         0.5 * (length + rest) * under_way;
}

}  // namespace banyan
