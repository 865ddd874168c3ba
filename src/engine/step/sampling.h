// What the backend samples in a step: one token for every stream whose logits the step has, by the
// stream's sampling options, its constraint and its panel.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "engine/request/stream.h"
#include "kernels/kernels.h"

namespace banyan {

// The panels of a step: whose logits are combined for each, and how.
//
// An expert's beta and abstention are measured with the first token. Where they come from:
//   first token               measured there
//   while that is in flight   from the earlier choice, which only the backend knows
//   afterwards                from the answer, which has them since that token was read
class PanelRows {
 public:
  void Clear();
  // The stream's panel, from the rows of its branches' logits; returns its place in rows().
  // REQUIRES: the stream has a panel. [branches] rows, the answer's own segment first.
  std::int32_t Add(const Stream& stream, std::span<const std::int32_t> rows);
  // Valid until the next Add or Clear.
  std::span<const PanelRow> rows() const { return panels_; }
  bool empty() const { return panels_.empty(); }

 private:
  std::vector<PanelRow> panels_;                // whose experts are in the next
  std::deque<std::vector<ExpertRow>> experts_;  // [panels_]
};

// The first token of a panel was read: the answer keeps what was measured with it.
void KeepMeasured(Stream& stream, const TokenChoice& choice);

class SamplingBatch {
 public:
  void Clear();
  // Adds the stream's next token. rows: [branches] of the logits; a panel has several. Looks up
  // which tokens the stream's constraint allows.
  void Add(Stream& stream, std::span<const std::int32_t> rows);

  // [streams that were added]; rows refer to the streams, and to each other until the next Add.
  std::span<const SamplingRow> rows() const { return rows_; }
  std::span<const PanelRow> panels() const { return panels_.rows(); }
  // A stream that was added wants the logits themselves.
  bool want_logits() const { return want_logits_; }
  // The tokens must be read before another step is launched.
  bool take_at_once() const { return take_at_once_; }

 private:
  std::vector<SamplingRow> rows_;
  PanelRows panels_;
  bool want_logits_ = false, take_at_once_ = false;
};

// Random numbers are a function of their purpose: the same draw whatever else is scheduled.
struct DrawKey {
  std::uint64_t seed = 0;
  std::uint64_t request = 0;
  std::uint64_t question = 0;
  std::uint64_t sample = 0;
  std::uint64_t position = 0;
};

// In [0, 1), 53 random bits.
double UniformOf(const DrawKey& key);

}  // namespace banyan
