// What the backend samples in a step: one token for every stream whose logits the step has, by the
// stream's sampling options, its constraint and its panel.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "decode/answer_words.h"
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
  // REQUIRES: the stream has a panel. [branches] rows, the answer's own segment first. `voters`:
  // the experts that take part, rising; all where beta or abstention are still to be measured.
  std::int32_t Add(const Stream& stream, std::span<const std::int32_t> rows,
                   std::span<const std::int32_t> voters = {});
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
  // `text` may be null: the model has no text side.
  explicit SamplingBatch(std::shared_ptr<const Text> text = nullptr) : text_(std::move(text)) {}
  void Clear();
  // Adds the stream's next token. rows: [branches] of the logits; a panel has several. Looks up
  // which tokens the stream's constraint allows.
  void Add(Stream& stream, std::span<const std::int32_t> rows);
  // After the last Add. Inside a unit that an expert has begun (ExpertTurns), the stream's own
  // choice is what all experts say if the unit ends here; a second one is what its owner says.
  // Returns for each stream the place of that second choice, behind all first ones; -1: none.
  // Empty: there is no second choice.
  std::vector<std::int32_t> AddOwners();

  // [streams that were added, second choices]; rows refer to the streams, and to each other until
  // the next Add.
  std::span<const SamplingRow> rows() const { return rows_; }
  std::span<const PanelRow> panels() const { return panels_.rows(); }
  // A stream that was added wants the logits themselves.
  bool want_logits() const { return want_logits_; }
  // The tokens must be read before another step is launched.
  bool take_at_once() const { return take_at_once_; }

 private:
  void AddPanel(Stream& stream, std::span<const std::int32_t> rows);

  std::shared_ptr<const Text> text_;
  std::shared_ptr<WordTokens> words_;  // made when first needed
  std::vector<SamplingRow> rows_;
  std::vector<std::pair<size_t, SamplingRow>> owner_rows_;  // which stream's; rising
  std::deque<std::vector<std::uint32_t>> masks_;            // of the rows
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
