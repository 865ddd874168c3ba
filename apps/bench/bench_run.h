// Synthetic jobs: a regular forest of random tokens, with an answer of fixed length at every leaf.
// They run under several strategies, and the answers are compared. Below, the options that all
// benchmarks share.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "banyan/engine.h"
#include "job/job_options.h"

namespace banyan::app {

struct Work {
  std::string name;
  std::vector<int> branches;  // of every node of the level above; of the first level: the roots
  std::vector<int> lengths;   // tokens of a node of each level
  int max_new = 16;           // tokens of an answer
  std::uint64_t seed = 1;

  int streams() const;
  std::int64_t prompt_tokens() const;  // of one stream
  std::string Text() const;            // as ParseWork reads it: "1 x 8 x 64 | 32, 2048, 256 tokens"
};

// "8 documents x 64 questions | 32, 2048, 256 tokens": how many below each node, then how long the
// nodes of each level are. Words are for the reader. With one length more than counts the first is
// shared by all; with as many the first level has no common root. The sign × works as well as x.
// Throws kUsage.
Work ParseWork(const std::string& text);

// The first `streams` leaves and what is above them; answers are tagged 0, 1, 2, … from left to
// right. A part of the work has the same tokens as the whole.
std::vector<PromptSegment> MakeRequests(const Work& work, int streams, int vocab_size);

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

// While one exists, the last model of this process is kept for the next command that wants an equal
// one. At most one exists at a time.
class KeptModel {
 public:
  KeptModel() { current = this; }
  ~KeptModel() { current = nullptr; }
  KeptModel(const KeptModel&) = delete;
  KeptModel& operator=(const KeptModel&) = delete;

 private:
  friend struct BenchModel;
  static inline KeptModel* current = nullptr;
  std::shared_ptr<Model> model_;
  std::string kind_;
};

// A model from files, or random weights at a known shape, and how it is to be run.
struct BenchModel {
  RunOptions run;
  std::string shape;          // random weights at this shape instead of a model
  std::string weights;        // empty: bf16 on cuda, q8_0 elsewhere
  bool random = false;        // says that --shape means random weights; it always does
  std::string default_shape;  // with neither --shape nor -m
  std::string strategies = "auto,tree,paged,stacked,flat,no-attention";
  std::int64_t flat_tokens = -1;  // see BenchRun; -1: by the device
  int repeat = 1;
  bool cold = false;  // no warm-up
  std::string json;   // file, "-" for stdout, or empty

  // Adds everything that a job is run with. REQUIRES: defaults are set.
  void AddTo(CLI::App& command);
  // Checks the options, then loads or makes the model, or takes the kept one. Throws kUsage.
  BenchRun Prepare();

 private:
  void ChooseShape();  // throws kUsage unless there is one model
  std::shared_ptr<Model> Load();
  std::string Kind() const;  // models of one kind are equal
};

// "flat,paged,tree" → names checked by ParseStrategy. Throws kUsage.
std::vector<Strategy> ParseStrategies(const std::string& names);

}  // namespace banyan::app
