// Mixtures of feed-forward blocks ("experts"): a router scores all of a layer's experts for a row,
// and the row goes through the few with the best scores.
//
// A row's result is the sum over its experts in the order of their numbers, so it depends on the
// row's scores alone: not on the rows beside it, nor on who else chose the same expert.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/tensor.h"

namespace banyan {

// The function of a gated linear unit's first half.
enum class Gate {
  kSilu,      // x / (1 + exp(-x)): SwiGLU
  kGeluTanh,  // x / 2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x³))): GeGLU as Gemma has it
  kLogistic,  // 1 / (1 + exp(-x))
};

// What a chosen expert's share is: a softmax over some of the experts, or logistic(score).
enum class ExpertShares {
  kOfAll,     // all experts: the chosen ones' shares sum to less than 1
  kOfChosen,  // the chosen ones, which is the same as dividing the shares of all by their sum
  kLogistic,  // each by itself
  kLogisticOfChosen,  // divided by the sum of the chosen ones and kLogisticEps
};
inline constexpr double kLogisticEps = 1e-6;

// How the two halves of an expert's first product become its inner values. limit 0: function(gate)
// * up. Otherwise gate is cut at `limit`, up at ±limit, and the value is
// (up + 1) * gate / (1 + exp(-slope * gate)): gpt-oss.
struct ExpertGate {
  float limit = 0.0f;
  float slope = 1.0f;
  Gate function = Gate::kSilu;  // limit 0
};

struct ExpertRule {
  int chosen = 0;  // experts of a row; at most kMostChosen
  ExpertShares shares = ExpertShares::kOfChosen;
  ExpertGate gate;
  float scale = 1.0f;  // of logistic shares
};
inline constexpr int kMostChosen = 64;
inline constexpr int kMostExperts = 1024;

// One expert: x → down(gate(gate_up(x))).
struct ExpertWeights {
  std::shared_ptr<const Matrix> gate_up;       // [2 inner, hidden]: rows of the gate, then of up
  std::shared_ptr<const Vector> gate_up_bias;  // may be null
  std::shared_ptr<const Matrix> down;          // [hidden, inner]
  std::shared_ptr<const Vector> down_bias;     // may be null
};

// Numbers of a layer's experts.
struct ExpertNumbers {
  std::vector<float> share_scales;  // [experts] what the share of each is multiplied by; empty: 1
  // [experts] with logistic shares: added to them before the best are chosen; empty: 0
  std::vector<float> choice_biases;
};

// All experts of a layer, of one shape; in backend memory.
class ExpertTable {
 public:
  virtual ~ExpertTable() = default;
  std::vector<ExpertWeights> experts;
  ExpertNumbers numbers;
  std::int64_t hidden() const { return experts.front().down->rows; }
  std::int64_t inner() const { return experts.front().down->columns; }
};

// Scratch activations, left undefined. A slot is a row for one of its experts. Rows are processed
// in chunks that fill the slots, `chosen` slots per row.
struct ExpertScratch {
  Tensor input;    // [slots, hidden]
  Tensor gate_up;  // [slots, 2 inner]
  Tensor inner;    // [slots, inner]
  Tensor output;   // [slots, hidden]
};
// Most rows of a chunk: with so many, reading every expert's weights once per chunk costs little.
inline constexpr std::int64_t kExpertRows = 512;

// Rows of a call whose slots fit the scratch at once.
struct ExpertRows {
  std::int64_t begin = 0, end = 0;
};

struct ExpertCall {
  const ExpertTable& table;
  const Tensor& scores;  // [rows, experts], the router's product
  const ExpertRule& rule;
  const ExpertScratch& scratch;
};

// --- For backends --------------------------------------------------------------------------------
// An expert of a row and its share.
struct ExpertChoice {
  std::int32_t expert = 0;
  float share = 0.0f;
};

// The choices of one row, ordered by expert. Of equal scores the lower number is better; NaN is
// worse than everything. REQUIRES: choices.size() is the rule's `chosen`, at most scores.size();
// shares by a softmax.
void ChooseExperts(std::span<const float> scores, ExpertShares shares,
                   std::span<ExpertChoice> choices);
// The same with the experts' numbers; logistic shares only so.
void ChooseExperts(std::span<const float> scores, const ExpertRule& rule,
                   const ExpertNumbers& numbers, std::span<ExpertChoice> choices);

// The rows of a chunk by expert.
struct ExpertRuns {
  struct Run {
    std::int32_t expert = 0;
    std::int32_t begin = 0, end = 0;  // slots
  };
  std::vector<Run> runs;            // of the experts that some row chose, in order
  std::vector<std::int32_t> row;    // [slots] which row it is; ascending within a run
  std::vector<std::int32_t> place;  // [rows, chosen] the slot of each choice

  // `choices` [rows, chosen].
  void Assign(std::span<const ExpertChoice> choices, int chosen, int experts);
};

// Transforms the two halves of a row (gate, then up) so that silu(gate) * up is the rule's gate,
// for a limit that is not zero. In float32, value by value.
void PrepareExpertGate(const ExpertGate& gate, std::span<float> halves);

}  // namespace banyan
