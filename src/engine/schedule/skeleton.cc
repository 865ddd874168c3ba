#include "engine/schedule/skeleton.h"

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace banyan {

// The last token of an answer that ended is never fed; the others are fed again after a preemption.
NodeRows SkeletonSchedule::RowOf(const Stream& value, const Branch& branch) const {
  const int key = memory_.forest().TakenOver(branch.leaf) + memory_.Fed(value);
  return {branch.tail, key, 1, !value.ended && key == memory_.Tokens(branch.tail) - 1};
}

std::span<const SkeletonSchedule::Advance> SkeletonSchedule::NextRows(const SkeletonRun& run,
                                                                      int rows_left,
                                                                      int logits_left) {
  const size_t count = run.members.size();
  progress_.assign(count + 1, Progress{0, std::numeric_limits<int>::max(), false});
  for (size_t i = count; i-- > 0;) {
    Stream& stream = running_.at(run.members[i]);
    BANYAN_CHECK(stream.tokens_in_flight == 0);
    const bool prompt_there = std::ranges::all_of(
        stream.branches, [this](const Branch& branch) { return memory_.Complete(branch.leaf); });
    if (prompt_there && memory_.Written(stream) > 0) stream.state = Stream::State::kDecode;
    Progress& value = progress_[i];
    value.fed = memory_.Fed(stream);
    value.unfinished = !stream.ended || value.fed < memory_.Written(stream) - 1;
    value.behind = progress_[i + 1].behind;
    if (value.unfinished) value.behind = std::min(value.behind, value.fed);
  }
  advances_.clear();
  int above =
      std::numeric_limits<int>::max();  // fewest tokens that one above has fed, or feeds now
  for (size_t i = 0; i < count; ++i) {
    const Progress& value = progress_[i];
    if (!value.unfinished) continue;
    const Stream& stream = running_.at(run.members[i]);
    const bool logits = RowOf(stream, stream.lead()).logits;
    const auto branches = static_cast<int>(stream.branches.size());
    const bool room = rows_left >= branches && (!logits || logits_left >= branches);
    const bool can_advance = above > value.fed && progress_[i + 1].behind >= value.fed;
    const bool gets_row = stream.state == Stream::State::kDecode && can_advance && room;
    above = std::min(above, value.fed + (gets_row ? 1 : 0));
    if (!gets_row) continue;
    advances_.push_back({stream.id, branches, logits});
    rows_left -= branches;
    if (logits) logits_left -= branches;
  }
  return advances_;
}

std::span<const NodeChain> SkeletonSchedule::Chains(std::span<const StreamId> extended) {
  chains_.clear();
  for (size_t i = 0; i < extended.size(); ++i) {
    const SkeletonRun* run = running_.at(extended[i]).skeleton.get();
    if (run == nullptr) continue;
    while (i + 1 < extended.size() && running_.at(extended[i + 1]).skeleton.get() == run) ++i;
    for (size_t branch = 0; branch < running_.at(extended[i]).branches.size(); ++branch) {
      chains_.push_back(ChainOf(extended, extended[i], branch));
    }
  }
  return chains_;
}

// What the values of the skeleton of `last`, the last of them with a row, see on a branch below the
// prompt: pieces of the template and, where a value has keys or is about to, the value after its
// piece. A tail that begins with a copy of its piece stands for both.
NodeChain SkeletonSchedule::ChainOf(std::span<const StreamId> extended, StreamId last,
                                    size_t branch_index) const {
  const Forest& forest = memory_.forest();
  NodeChain chain;
  NodeId above;  // the leaf of the value before
  for (const StreamId id : running_.at(last).skeleton->members) {
    const Stream& stream = running_.at(id);
    const Branch& branch = stream.branches[branch_index];
    const bool has_row = std::ranges::find(extended, id) != extended.end();
    const bool has_keys = has_row || memory_.Fed(stream) > 0;
    const bool taken_over = forest.TakenOver(branch.leaf) > 0;
    if (!chain.empty()) {
      const size_t begin = chain.size();
      NodeId node = has_keys && taken_over ? forest.at(branch.leaf).parent : branch.leaf;
      for (; node != above; node = forest.at(node).parent) chain.push_back(node);
      std::reverse(chain.begin() + static_cast<std::ptrdiff_t>(begin), chain.end());
    }
    if (has_keys) chain.push_back(branch.tail);
    if (id == last) break;
    above = branch.leaf;
  }
  return chain;
}

}  // namespace banyan
