// What the backend is asked to choose: one token for every stream whose logits a step has.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/panel_rows.h"
#include "engine/stream.h"
#include "kernels/kernels.h"

namespace banyan {

class ChoiceRequests {
 public:
  void Clear();
  // Asks for the stream's next token, from the row of its branch or, of a panel, from the rows of
  // all branches. Which tokens a constraint allows is looked up now. [branches] rows of the logits.
  void Add(Stream& stream, std::span<const std::int32_t> rows);

  // [streams that were added]; rows refer to the streams, and to each other until the next Add.
  std::span<const SamplingRow> rows() const { return rows_; }
  std::span<const PanelRow> panels() const { return panels_.rows(); }
  // Some stream that was added wants the logits themselves.
  bool want_logits() const { return want_logits_; }
  // The tokens must be taken before another step is launched.
  bool take_at_once() const { return take_at_once_; }

 private:
  std::vector<SamplingRow> rows_;
  PanelRows panels_;
  bool want_logits_ = false, take_at_once_ = false;
};

}  // namespace banyan
