// Skeleton decoding: the values of a template advance in logical steps. In step t every value that
// goes on feeds its t-th token, and sees of the values above it their first t. A logical step may
// be made in several steps of the engine, from the first value on: the keys that a row sees are the
// same, so the bits are.
//
// Where values are written by panels, every document has the template: branch b of all values is
// the skeleton of document b. A value's branches get their rows together and are fed one token, so
// each document's skeleton is what it would be if its own values had been these.
#include <algorithm>
#include <limits>

#include "base/error.h"
#include "engine/core.h"
#include "engine/skeleton_run.h"

namespace banyan {

// Tokens of its answer that have keys; the same on all branches.
int EngineCore::Fed(const Stream& stream) const {
  return std::max(0, cache_.filled(stream.lead().tail) - forest_.TakenOver(stream.lead().leaf));
}

// A value's row in the next step, if it gets one. The last token of an answer that ended is never
// fed; the others are fed again after the memory was given back.
StepBuilder::NodeRows EngineCore::ValueRow(const Stream& stream, const Branch& branch) const {
  const auto tokens = static_cast<int>(forest_.at(branch.tail).tokens.size());
  const int key = forest_.TakenOver(branch.leaf) + Fed(stream);
  return {branch.tail, key, 1, !stream.ended && key == tokens - 1};
}

// Gives rows to the values whose turn it is: every one above them has fed as many tokens as it
// feeds now, and no one below is behind.
void EngineCore::ExtendSkeleton(const std::shared_ptr<SkeletonRun>& run) {
  const size_t count = run->members.size();
  std::vector<int> fed(count), behind(count + 1, std::numeric_limits<int>::max());
  std::vector<bool> goes_on(count);
  for (size_t i = count; i-- > 0;) {
    Stream& stream = at(run->members[i]);
    BANYAN_CHECK(stream.tokens_under_way == 0);
    const bool prompt_there = std::ranges::all_of(stream.branches, [this](const Branch& branch) {
      const auto tokens = static_cast<int>(forest_.at(branch.leaf).tokens.size());
      return cache_.filled(branch.leaf) == tokens;
    });
    if (prompt_there && HasWritten(stream)) stream.state = Stream::State::kDecode;
    fed[i] = Fed(stream);
    const auto written = static_cast<int>(forest_.at(stream.lead().tail).tokens.size()) -
                         forest_.TakenOver(stream.lead().leaf);
    goes_on[i] = !stream.ended || fed[i] < written - 1;
    behind[i] = goes_on[i] ? std::min(behind[i + 1], fed[i]) : behind[i + 1];
  }
  std::vector<std::pair<StreamId, bool>> rows;  // with whether its logits are wanted
  int rows_left = scheduler_.rows_left(), logits_left = scheduler_.logits_left();
  int above = std::numeric_limits<int>::max();
  for (size_t i = 0; i < count; ++i) {
    if (!goes_on[i]) continue;
    const Stream& stream = at(run->members[i]);
    const bool logits = ValueRow(stream, stream.lead()).logits;
    const auto branches = static_cast<int>(stream.branches.size());
    const bool room = rows_left >= branches && (!logits || logits_left >= branches);
    const bool turn = above > fed[i] && behind[i + 1] >= fed[i];
    const bool gets_row = stream.state == Stream::State::kDecode && turn && room;
    above = std::min(above, fed[i] + (gets_row ? 1 : 0));
    if (!gets_row) continue;
    rows.emplace_back(stream.id, logits);
    rows_left -= branches;
    if (logits) logits_left -= branches;
  }
  for (const auto& [id, logits] : rows) {
    if (!GrowTail(at(id))) return;  // none of them runs any more
  }
  for (const auto& [id, logits] : rows) {
    BANYAN_CHECK(scheduler_.Extend(id, static_cast<int>(at(id).branches.size()), logits));
  }
}

// A value's branches need the logits of its first token in one step, like any panel's.
void EngineCore::DecideFirstTokens(const SkeletonRun& run) {
  for (const StreamId id : run.members) {
    const Stream& stream = at(id);
    const auto branches = static_cast<int>(stream.branches.size());
    const bool room = branches <= std::min(scheduler_.rows_left(), scheduler_.logits_left());
    if (branches > 1 && room && !Decodes(stream)) DecideFirstToken(stream);
  }
}

// What the values of the skeleton with rows in this step see on a branch below the prompt: pieces
// of the template and, where a value has keys or is about to, the value after its piece. A tail
// that took its piece over stands for both.
StepBuilder::Chain EngineCore::ChainOf(const SkeletonRun& run, StreamId last,
                                       size_t branch_index) const {
  StepBuilder::Chain chain;
  NodeId above;  // the leaf of the value before
  for (const StreamId id : run.members) {
    const Stream& stream = at(id);
    const Branch& branch = stream.branches[branch_index];
    const auto& extended = scheduler_.decision().extend;
    const bool has_row = std::ranges::find(extended, id) != extended.end();
    const bool has_keys = has_row || Fed(stream) > 0;
    const bool taken_over = forest_.TakenOver(branch.leaf) > 0;
    if (!chain.empty()) {
      const size_t begin = chain.size();
      NodeId node = has_keys && taken_over ? forest_.at(branch.leaf).parent : branch.leaf;
      for (; node != above; node = forest_.at(node).parent) chain.push_back(node);
      std::reverse(chain.begin() + static_cast<std::ptrdiff_t>(begin), chain.end());
    }
    if (has_keys) chain.push_back(branch.tail);
    if (id == last) break;
    above = branch.leaf;
  }
  return chain;
}

// Of all skeletons with rows in this step.
void EngineCore::CollectChains() {
  chains_.clear();
  const std::vector<StreamId>& extended = scheduler_.decision().extend;
  for (size_t i = 0; i < extended.size(); ++i) {
    const SkeletonRun* run = at(extended[i]).skeleton.get();
    if (run == nullptr) continue;
    while (i + 1 < extended.size() && at(extended[i + 1]).skeleton.get() == run) ++i;
    for (size_t branch = 0; branch < at(extended[i]).branches.size(); ++branch) {
      chains_.push_back(ChainOf(*run, extended[i], branch));
    }
  }
}

// A value's answer has ended. When it was the last of its skeleton, all of them go.
void EngineCore::RetireValue(Stream& stream) {
  ForgetUnderWay(stream);
  stream.ended = true;
  ++ended_values_;
  ended_branches_ += static_cast<int>(stream.branches.size());
  stream.declared().running = StreamId();
  const std::shared_ptr<SkeletonRun> run = stream.skeleton;
  for (const StreamId id : run->members) {
    if (!at(id).ended) return;
  }
  for (auto id = run->members.rbegin(); id != run->members.rend(); ++id) {
    ended_branches_ -= static_cast<int>(at(*id).branches.size());
    LetGo(at(*id));
    streams_[id->index()].reset();
    --ended_values_;
  }
  run->members.clear();
  no_room_ = false;
}

void EngineCore::PreemptSkeleton(const std::shared_ptr<SkeletonRun>& run) {
  const std::vector<StreamId> members = std::exchange(run->members, {});
  for (auto id = members.rbegin(); id != members.rend(); ++id) {
    const auto branches = static_cast<int>(at(*id).branches.size());
    std::unique_ptr<Stream> stream = PutAside(at(*id));
    if (!stream->ended) {
      line_.Return(std::move(stream));
      continue;
    }
    --ended_values_;
    ended_branches_ -= branches;
    run->parked.insert(run->parked.begin(), std::move(stream));
  }
}

}  // namespace banyan
