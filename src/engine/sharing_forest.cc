#include "engine/sharing_forest.h"

#include <algorithm>

#include "base/error.h"
#include "engine/memory/engine_memory.h"
#include "engine/memory/prefix_copies.h"
#include "plan/attention_plan.h"

namespace banyan {
namespace {

// Slots that a segment takes of which so many tokens are new (RequestSegment::own).
std::int64_t SlotsOf(const RequestTree& request, std::int32_t index, std::int64_t tokens,
                     std::int64_t piece) {
  const RequestSegment& segment = request.segments[static_cast<size_t>(index)];
  const bool goes_on = segment.own && segment.parent >= 0 &&
                       request.segments[static_cast<size_t>(segment.parent)].own;
  return piece == 0 || goes_on ? 0 : (tokens + piece - 1) / piece;
}

// Of the stream's answers, if none ends early.
std::int64_t MostTokens(const RequestTree& request, const RequestStream& stream) {
  std::int64_t tokens = 0;
  for (std::int32_t a = stream.first_answer; a < stream.end_answer; ++a) {
    const AnswerRequest& wanted = request.answers[static_cast<size_t>(a)];
    tokens +=
        wanted.forced.empty() ? wanted.max_new : static_cast<std::int64_t>(wanted.forced.size());
  }
  return tokens;
}

}  // namespace

SharingForest::SharingForest(std::size_t variants, std::int64_t most_tokens, int piece_tokens)
    : forest_(kCutKeys, std::vector<Digest>(variants), piece_tokens),
      most_tokens_(most_tokens),
      copies_(piece_tokens == 0) {}

SharingForest::Found SharingForest::Add(NodeId parent, const Forest::Segment& segment) {
  Found found;
  const std::int64_t before = forest_.TotalTokens();
  splits_.clear();
  found.node = forest_.AddSegment(parent, segment, splits_);
  found.stored = forest_.TotalTokens() - before;
  for (const NodeSplit& split : splits_) added_.push_back(forest_.Remember(split.upper));
  if (found.stored == 0) return found;
  added_.push_back(forest_.Remember(found.node));
  const std::int32_t common = copies_ ? forest_.FindCommon(found.node).tokens : 0;
  if (common >= kLeastCopiedTokens) found.copied = common;
  return found;
}

// Oldest first; a node with others below it is kept and queued again.
void SharingForest::Forget() {
  for (std::size_t left = added_.size(); left > 0 && Full(); --left) {
    const NodeMemory oldest = added_.front();
    added_.pop_front();
    if (forest_.Removable(oldest.node)) {
      forest_.Remove(oldest.node);
    } else {
      added_.push_back(oldest);
    }
  }
}

Sharing FindSharing(const WaitingQueue& waiting, const Model::Parts& model,
                    const StorageRules& rules) {
  Sharing found;
  const int piece = PieceTokens(model);
  SharingForest forest(model.variants.size(), std::numeric_limits<std::int64_t>::max(), piece);
  for (const auto& [request, index] : waiting.Fresh()) {
    const RequestStream& stream = request->streams[static_cast<size_t>(index)];
    const std::int64_t answer_tokens = MostTokens(*request, stream);
    for (const std::int32_t leaf : request->LeavesOf(stream)) {
      const std::vector<std::int32_t> path = request->PathTo(leaf);
      NodeId node;
      if (found.levels.size() < path.size()) found.levels.resize(path.size());
      for (size_t depth = 0; depth < path.size(); ++depth) {
        const RequestSegment& segment = request->segments[static_cast<size_t>(path[depth])];
        const SharingForest::Found added =
            forest.Add(node, {segment.tokens, segment.first_position, rules.Shares(segment, depth),
                              rules.ScopeOf(*request, stream), request->variant});
        node = added.node;
        found.states += SlotsOf(*request, path[depth], added.stored, piece);
        found.levels[depth].alone += static_cast<std::int64_t>(segment.tokens.size());
        found.levels[depth].stored += added.stored;
        found.levels[depth].copied += added.copied;
      }
      found.tail_tokens += forest.TakenOver(node) + answer_tokens;
      const bool own_slot = !request->segments[static_cast<size_t>(leaf)].own;
      found.states += piece > 0 && own_slot && answer_tokens > 1 ? 1 : 0;
    }
  }
  for (const SharedLevel& level : found.levels) {
    found.all.alone += level.alone;
    found.all.stored += level.stored;
    found.all.copied += level.copied;
  }
  return found;
}

std::string DescribeSharing(const Sharing& sharing) {
  std::string text;
  for (size_t depth = 0; depth < sharing.levels.size(); ++depth) {
    const SharedLevel& level = sharing.levels[depth];
    const std::string kept = level.copied == 0
                                 ? fmt::format("{} stored and computed", level.stored)
                                 : fmt::format("{} stored, {} of them computed and {} copied",
                                               level.stored, level.computed(), level.copied);
    text +=
        fmt::format("level {:<3} {} tokens as if alone, {} ({:.1f}x)\n", depth, level.alone, kept,
                    static_cast<double>(level.alone) /
                        static_cast<double>(std::max<std::int64_t>(1, level.computed())));
  }
  const SharedLevel& all = sharing.all;
  return text + fmt::format("prompts   {} tokens as if alone, {} computed, {} saved by sharing\n",
                            all.alone, all.computed(), all.alone - all.computed());
}

}  // namespace banyan
