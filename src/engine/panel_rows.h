// What the backend is told of panels: whose logits make each one's row, and how.
//
// An expert's beta and abstention are measured with the first token. Where they come from:
//   first token               measured there
//   while that is under way   from the earlier choice, which only the backend knows
//   afterwards                from the answer, which has them since that token was taken
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "engine/stream.h"
#include "kernels/kernels.h"

namespace banyan {

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

// The first token of a panel was taken: the answer keeps what was measured with it.
void KeepMeasured(Stream& stream, const TokenChoice& choice);

}  // namespace banyan
