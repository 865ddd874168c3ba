// Jobs by the step, without a clock: from a third of a job on, the time that is left is known.
#include "tasks/job/time_left.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace banyan {
namespace {

using Dice = std::mt19937;

// What a job reads and how its machine works. Times are in thousandths of a second.
struct PlayedJob {
  std::string name;
  int records = 0, answers = 0;      // answers of a record
  std::function<int(Dice&)> prompt;  // tokens
  std::function<int(Dice&)> length;  // of an answer, up to kMostTokens
  int streams = 0;                   // answers at once
  double prefill = 1, generate = 4, step = 20;
};
constexpr int kMostTokens = 64, kStepRows = 512;

// The log of a job whose engine generates first and fills its steps with prompts.
std::vector<JobMoment> LogOf(const PlayedJob& job) {
  Dice dice(7);
  std::vector<int> prompts;
  std::vector<std::vector<int>> lengths;
  JobMoment now;
  now.most_tokens_of_answer = kMostTokens;
  now.expected_answers = job.records * job.answers;
  for (int i = 0; i < job.records; ++i) {
    prompts.push_back(job.prompt(dice));
    now.expected_prefill += prompts.back();
    std::vector<int>& of_record = lengths.emplace_back();
    for (int n = 0; n < job.answers; ++n) of_record.push_back(job.length(dice));
  }
  std::vector<JobMoment> log;
  std::vector<std::pair<int, int>> live;  // (tokens to come, length)
  size_t next = 0;
  while (now.finished_answers < now.expected_answers) {
    double work = job.step + job.generate * static_cast<double>(live.size());
    now.generated += static_cast<double>(live.size());
    int room = kStepRows - static_cast<int>(live.size());
    for (auto& [rest, length] : live) {
      if (--rest > 0) continue;
      ++now.finished_answers;
      now.finished_tokens += length;
      now.finished_squares += length * length;
    }
    std::erase_if(live, [](const auto& one) { return one.first <= 0; });
    while (room > 0 && next < prompts.size() &&
           live.size() + static_cast<size_t>(job.answers) <= static_cast<size_t>(job.streams)) {
      const int taken = std::min(room, prompts[next]);
      prompts[next] -= taken;
      room -= taken;
      now.prefilled += taken;
      work += job.prefill * taken;
      if (prompts[next] > 0) break;
      for (const int length : lengths[next]) live.emplace_back(length, length);
      ++next;
    }
    now.seconds += work * 1e-3;
    log.push_back(now);
  }
  return log;
}

int Geometric(Dice& dice, double mean) {
  const double drawn = std::exponential_distribution<>(1.0 / mean)(dice);
  return 1 + std::min(kMostTokens - 1, static_cast<int>(drawn));
}

const std::vector<PlayedJob>& Jobs() {
  using Uniform = std::uniform_int_distribution<>;
  static const std::vector<PlayedJob> jobs = {
      {"equal", 200, 5, [](Dice&) { return 180; }, [](Dice&) { return 6; }, 64},
      {"tickets", 200, 5, [](Dice& d) { return Uniform(60, 400)(d); },
       [](Dice& d) { return Geometric(d, 8.0); }, 64},
      {"values and nulls", 300, 3, [](Dice& d) { return Uniform(40, 900)(d); },
       [](Dice& d) {
         return std::vector{1, 1, 2, 3, 30}[static_cast<size_t>(Uniform(0, 4)(d))];
       },
       64},
      {"many at once", 100, 5, [](Dice&) { return 100; },
       [](Dice& d) { return Geometric(d, 20.0); }, 200, 1, 4, 50},
      {"long answers", 30, 10, [](Dice&) { return 200; },
       [](Dice& d) { return Uniform(20, 60)(d); }, 32, 1, 10, 100}};
  return jobs;
}

TEST(TimeLeft, IsKnownFromAThirdOfTheJobOn) {
  for (const PlayedJob& job : Jobs()) {
    const std::vector<JobMoment> log = LogOf(job);
    const double all = log.back().seconds;
    TimeLeft left;
    const size_t stride = std::max<size_t>(1, log.size() / 150);
    for (size_t i = 0; i < log.size(); i += stride) {
      const double said = left.After(log[i]);
      const double is = all - log[i].seconds;
      if (log[i].seconds < all / 3.0) continue;
      // The last moments of a job are no third of anything: two hundredths of it may be missed.
      EXPECT_LE(std::abs(said - is), 0.3 * is + 0.02 * all)
          << job.name << " at " << log[i].seconds / all << ": " << said << " instead of " << is;
    }
  }
}

TEST(TimeLeft, NothingIsKnownBeforeTheFirstToken) {
  TimeLeft left;
  EXPECT_LT(left.After({}), 0.0);
  JobMoment begun;
  begun.seconds = 1.0;
  begun.expected_answers = 10.0;
  EXPECT_LT(left.After(begun), 0.0);
}

// Answers that are short end first: those that are still written do not vanish.
TEST(TimeLeft, IsNeverOverWhileAnswersAreMissing) {
  TimeLeft left;
  JobMoment now;
  now.most_tokens_of_answer = 64;
  now.expected_prefill = now.prefilled = 1000;
  now.expected_answers = 100;
  now.finished_answers = now.finished_tokens = now.finished_squares = 60;  // of one token each
  now.generated = 60 + 40 * 20;
  now.seconds = 10.0;
  EXPECT_GT(left.After(now), 1.0);
}

}  // namespace
}  // namespace banyan
