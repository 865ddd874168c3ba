#include "bench_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>

#include "banyan/error.h"

namespace banyan::app {
namespace {

double Rate(double count, double seconds) { return seconds > 0.0 ? count / seconds : 0.0; }

int StreamsFor(const BenchRun& run, const Work& work, Strategy strategy) {
  if (strategy != Strategy::kFlat || run.flat_tokens == 0) return work.streams();
  const std::int64_t most = std::max<std::int64_t>(1, run.flat_tokens / work.prompt_tokens());
  return static_cast<int>(std::min<std::int64_t>(most, work.streams()));
}

Outcome RunOnce(const BenchRun& run, const Work& work, Strategy strategy) {
  EngineOptions options = run.engine;
  options.strategy = strategy;
  if (options.mixed_rows == 0) options.mixed_rows = -1;  // only the end counts
  Outcome outcome;
  outcome.strategy = strategy;
  const int streams = StreamsFor(run, work, strategy);
  outcome.answers.resize(static_cast<size_t>(streams));
  Engine engine(run.model, options);
  for (PromptSegment& request : MakeRequests(work, streams, run.model->vocab_size())) {
    engine.Submit(std::move(request));
  }
  const auto take = [&] {
    for (Answer& answer : engine.TakeFinished()) outcome.answers[answer.tag] = std::move(answer);
  };
  const auto start = std::chrono::steady_clock::now();
  while (engine.Step()) take();
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  take();
  outcome.receipt = engine.receipt();
  for (const Answer& answer : outcome.answers) {
    if (answer.finish != FinishReason::kError) continue;
    throw Error(ErrorKind::kLimit, fmt::format("{}, strategy {}: stream {}: {}", work.name,
                                               StrategyName(strategy), answer.tag, answer.error));
  }
  return outcome;
}

// Tokens and log-probabilities, bit for bit, of the streams that both ran.
void RequireSameAnswers(const Work& work, const Outcome& a, const Outcome& b) {
  const size_t streams = std::min(a.answers.size(), b.answers.size());
  for (size_t i = 0; i < streams; ++i) {
    const Answer& x = a.answers[i];
    const Answer& y = b.answers[i];
    const bool same =
        x.tokens == y.tokens && x.logprobs.size() == y.logprobs.size() &&
        std::memcmp(x.logprobs.data(), y.logprobs.data(), x.logprobs.size() * sizeof(float)) == 0;
    if (same) continue;
    throw Error(
        ErrorKind::kInput,
        fmt::format("{}: {} and {} gave different answers to stream {}: no times are printed",
                    work.name, StrategyName(a.strategy), StrategyName(b.strategy), i));
  }
}

// The run with the median time, and the spread of all.
Outcome TakeMedian(std::vector<Outcome>& runs) {
  std::ranges::sort(runs, {}, &Outcome::seconds);
  const double least = runs.front().seconds, most = runs.back().seconds;
  const bool several = runs.size() > 1;
  Outcome median = std::move(runs[(runs.size() - 1) / 2]);
  if (several) median.least_seconds = least, median.most_seconds = most;
  return median;
}

}  // namespace

double Outcome::questions_per_second() const { return Rate(streams(), seconds); }

double Outcome::tokens_per_second() const {
  return Rate(static_cast<double>(receipt.generated_tokens), seconds);
}

double Outcome::decode_tokens_per_second() const {
  return Rate(static_cast<double>(receipt.decode_step_tokens), receipt.decode_step_seconds);
}

double Outcome::seconds_per_decode_step() const {
  return receipt.decode_steps > 0
             ? receipt.decode_step_seconds / static_cast<double>(receipt.decode_steps)
             : 0.0;
}

const Outcome* WorkResult::Find(Strategy strategy) const {
  for (const Outcome& outcome : outcomes) {
    if (outcome.strategy == strategy) return &outcome;
  }
  return nullptr;
}

double WorkResult::limit_seconds() const {
  double least = 0.0;
  for (const Outcome& outcome : outcomes) {
    const double limit = outcome.receipt.limit_seconds;
    if (ComparisonOnly(outcome.strategy) || outcome.streams() < work.streams() || limit <= 0.0) {
      continue;
    }
    least = least > 0.0 ? std::min(least, limit) : limit;
  }
  return least;
}

bool ComparisonOnly(Strategy strategy) {
  return strategy == Strategy::kSequential || strategy == Strategy::kNoAttention;
}

WorkResult RunWork(const BenchRun& run, const Work& work) {
  WorkResult result;
  result.work = work;
  result.compared = run.model->exact();
  run.model->flops_per_second();  // measured before KV takes the memory
  if (run.warm_up) {
    if (!run.quiet) std::fprintf(stderr, "%s: warm-up ...\n", work.name.c_str());
    RunOnce(run, work, run.strategies.front());
  }
  // In turns, so that a change of the machine's speed meets all strategies.
  std::vector<std::vector<Outcome>> runs(run.strategies.size());
  for (int i = 0; i < std::max(1, run.repeat); ++i) {
    const Outcome* first = nullptr;
    for (size_t s = 0; s < run.strategies.size(); ++s) {
      runs[s].push_back(RunOnce(run, work, run.strategies[s]));
      if (ComparisonOnly(run.strategies[s]) || !result.compared) continue;
      if (first == nullptr) first = &runs[s].back();
      RequireSameAnswers(work, *first, runs[s].back());
    }
  }
  for (std::vector<Outcome>& of_strategy : runs) {
    Outcome median = TakeMedian(of_strategy);
    const std::string line = fmt::format("{}: {}: {} streams in {:.3f} s, {:.1f} questions/s",
                                         work.name, StrategyName(median.strategy), median.streams(),
                                         median.seconds, median.questions_per_second());
    if (!run.quiet) std::fprintf(stderr, "%s\n", line.c_str());
    result.outcomes.push_back(std::move(median));
  }
  return result;
}

}  // namespace banyan::app
