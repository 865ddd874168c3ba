// Runs one job under several strategies and compares the answers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "banyan/engine.h"
#include "bench_work.h"

namespace banyan::app {

// What one strategy did: the run with the median time.
struct Outcome {
  Strategy strategy = Strategy::kAuto;
  double seconds = 0.0;
  double least_seconds = 0.0, most_seconds = 0.0;  // of all runs; both 0: there was one
  Receipt receipt;
  std::vector<Answer> answers;  // by tag; flat may have run only the first ones

  int streams() const { return static_cast<int>(answers.size()); }
  double questions_per_second() const;
  double tokens_per_second() const;         // new tokens over the whole run, prompts included
  double decode_tokens_per_second() const;  // of steps that only extend streams; 0: there were none
  double seconds_per_decode_step() const;
};

struct WorkResult {
  Work work;
  std::vector<Outcome> outcomes;  // in the order asked for
  bool compared = true;           // answers of all strategies with each other

  const Outcome* Find(Strategy strategy) const;  // null: not run
  // The least time any of the strategies' steps need, for the whole job; 0: unknown.
  double limit_seconds() const;
};

struct BenchRun {
  std::shared_ptr<Model> model;
  EngineOptions engine;
  std::vector<Strategy> strategies;
  // Flat computes every prompt anew, so it runs the first streams only, of about so many prompt
  // tokens together: enough to compare, and for a rate. 0: all streams.
  std::int64_t flat_tokens = 0;
  bool warm_up = false;  // once, untimed: the first product of a shape chooses its algorithm
  bool quiet = false;    // no progress on stderr
  int repeat = 1;        // runs of each strategy, in turns; the median counts
};

// Strategies that give other answers by definition.
bool ComparisonOnly(Strategy strategy);

// Throws kLimit when an answer failed, and kInput naming strategies and stream when two strategies
// gave different answers: then no times count (a model that is not exact, --fast, may give them and
// is not asked). Progress goes to stderr.
WorkResult RunWork(const BenchRun& run, const Work& work);

}  // namespace banyan::app
