// How much of a filter a small model may decide, so that a recall and a precision are promised with
// a confidence: a labelled sample of the table says where it is sure.
//
// Rows below `low` are dropped and rows from `high` on are kept by the small model's probability;
// the large model decides between. Bounds are exact (Clopper-Pearson). One half of the sample
// chooses `low` for the recall, the other half chooses `high` for the precision at that `low`, each
// with half of the error that the confidence leaves. In each half, thresholds are tried from the
// most careful one on and the first that fails ends the trial, so that many can be tried at the
// price of one (fixed-sequence testing).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace banyan {

struct FilterGoal {
  double recall = 0.0, precision = 0.0;  // 0: nothing is wanted of it
  double confidence = 0.95;              // that both hold, over draws of the sample
};

// A row of the sample, drawn at random from those of the table.
struct JudgedRow {
  double small = 0.0;  // probability by the small model
  bool large = false;  // kept by the large model
  bool label = false;  // the statement is true of it
};

// `successes` of `trials`: the probability is at least so high, but for this risk. 0 of no trials.
double LowerBound(std::int64_t successes, std::int64_t trials, double risk);

struct CountedShare {
  std::int64_t part = 0, whole = 0;
  double bound = 0.0;  // LowerBound of it
};

struct FilterBand {
  double low = 0.0, high = 0.0;    // [low, high) is the large model's
  CountedShare recall, precision;  // of the chosen thresholds, each on its half
  // Which half was too few, or shows the large model to miss the goal by itself; empty: the goal is
  // promised.
  std::string problem;
};

// `sample`: in a random order, which the halves follow. REQUIRES: probabilities from 0 to 1.
FilterBand ChooseBand(std::span<const JudgedRow> sample, const FilterGoal& goal);

// What becomes of a row.
enum class BandVerdict { kDrop, kAskLarge, kKeep };
BandVerdict VerdictOf(const FilterBand& band, double small);

}  // namespace banyan
