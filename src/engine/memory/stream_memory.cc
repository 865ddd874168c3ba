#include "engine/memory/stream_memory.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/error.h"
#include "engine/memory/engine_memory.h"

namespace banyan {
namespace {

// Rows that take a device about as long as it takes to read the weights once more. On an H200 with
// layers of an 8B model a step of one row takes 0.49 ms, of 256 rows 0.71 ms, of 512 1.12 ms
// (`bench step`): one step more is worth some 300 rows of a large one. On a CPU a few rows do.
constexpr std::int64_t kWorthADeviceStep = 256;

std::vector<Digest> RootNames(const Model::Parts& model) {
  std::vector<Digest> names;
  for (const ModelVariant& variant : model.variants) names.push_back(variant.kv_name);
  return names;
}

// Keys of the tail when every answer has its full length. The last token is never fed, and a stream
// of one token has no row in its tail.
int TailKeys(const Forest& forest, const Stream& stream, NodeId leaf, int context_length) {
  const std::vector<AnswerRequest>& answers = stream.request->answers;
  auto tokens = static_cast<std::int64_t>(stream.written.size()) -
                static_cast<std::int64_t>(stream.answer.tokens.size());
  for (std::int32_t a = stream.answer_index; a < stream.end_answer; ++a) {
    const AnswerRequest& wanted = answers[static_cast<size_t>(a)];
    tokens +=
        wanted.forced.empty() ? wanted.max_new : static_cast<std::int64_t>(wanted.forced.size());
  }
  const std::int64_t room = context_length - forest.at(leaf).end_position();
  tokens = std::clamp<std::int64_t>(tokens, 0, room);
  return tokens > 1 ? forest.TakenOver(leaf) + static_cast<int>(tokens) - 1 : 0;
}

// Keys that a branch's tail gets pages for at once. After a preemption that is all it can need,
// `all_keys`, but at most `most_pages`: a stream that needs more runs alone until memory is full.
int FirstTailKeys(const Forest& forest, const Stream& stream, const Branch& branch, int all_keys,
                  std::int64_t most_pages) {
  const int taken = forest.TakenOver(branch.leaf);
  if (!stream.preempted) return std::min(all_keys, taken + 1);
  const std::int64_t least = taken + static_cast<std::int64_t>(stream.written.size());
  return static_cast<int>(
      std::clamp<std::int64_t>(all_keys, 0, std::max(most_pages * kPageTokens, least)));
}

void FindSlots(const Forest& forest, const RequestTree& request, std::int32_t leaf_segment,
               Branch& branch) {
  const RequestSegment& last = request.segments[static_cast<size_t>(leaf_segment)];
  if (!last.own) return;
  branch.before_tail = branch.leaf;
  if (last.parent < 0 || !request.segments[static_cast<size_t>(last.parent)].own) return;
  branch.before_leaf = forest.at(branch.leaf).parent;
}

// Of a node of the stream's prompt.
NodeId BeforeOf(const Stream& stream, NodeId node) {
  const auto branch = std::ranges::find(stream.branches, node, &Branch::leaf);
  return branch == stream.branches.end() ? NodeId() : branch->before_leaf;
}

// The prompt's nodes on all branches, each once, parents first.
std::vector<NodeId> PromptNodes(const Forest& forest, const Stream& stream) {
  if (stream.branches.size() == 1) return forest.Path(stream.lead().leaf);
  std::vector<NodeId> nodes;
  std::set<NodeId> known;
  for (const Branch& branch : stream.branches) {
    for (const NodeId node : forest.Path(branch.leaf)) {
      if (known.insert(node).second) nodes.push_back(node);
    }
  }
  return nodes;
}

// False: the store cannot keep the model's KV, and need not.
bool CanStore(const Model::Parts& model, const EngineOptions& options) {
  const ModelConfig& config = model.config;
  const char* why = nullptr;
  if (!KvShapeOf(config).by_layer.empty()) {
    why = "the heads of its layers differ";
  } else if (config.states.any() && !model.kernels->moves_states()) {
    why = "states of its layers stay on this device";
  }
  if (why != nullptr && !options.kv_store_optional) {
    Throw(ErrorKind::kUnsupported,
          "the KV store keeps keys and values of layers that are alike; {}: {}: leave --kv-store "
          "out",
          config.family, why);
  }
  return why == nullptr;
}

}  // namespace

StreamMemory::StreamMemory(const Model::Parts& model, KvMemory& pages, const EngineOptions& options)
    : config_(model.config),
      kernels_(*model.kernels),
      pages_(pages),
      rules_(options),
      forest_(kCutKeys, RootNames(model), PieceTokens(model)),
      cache_(forest_, pages.pages, pages.states ? pages.states->slots : 0),
      prefix_copies_(forest_, cache_, model.kernels->asynchronous() ? kWorthADeviceStep : 0) {
  if (options.kv_store && options.strategy != Strategy::kNoAttention && CanStore(model, options)) {
    stored_ = std::make_unique<StoredKv>(options.kv_store, options.kv_save,
                                         StoredKv::Engine{model, forest_, cache_, pages});
  }
}

// The node of the prompt's last token. Segments that another stream of the same request has found
// are remembered; others are found by their tokens, or added.
NodeId StreamMemory::FindPath(const Stream& stream, std::int32_t leaf_segment) {
  const RequestStream& declared = stream.declared();
  const std::uint64_t scope = rules_.ScopeOf(*stream.request, declared);
  std::vector<RequestSegment>& segments = stream.request->segments;
  const std::vector<std::int32_t> path = stream.request->PathTo(leaf_segment);
  NodeId node;
  size_t next = path.size();
  while (next > 0 && !node.valid()) {
    const RequestSegment& segment = segments[static_cast<size_t>(path[next - 1])];
    if (rules_.Remembers(declared, segment, next - 1) && forest_.Exists(segment.node)) {
      node = segment.node.node;
    } else {
      --next;
    }
  }
  std::vector<NodeSplit> splits;
  for (; next < path.size(); ++next) {
    RequestSegment& segment = segments[static_cast<size_t>(path[next])];
    const std::int64_t tokens_before = forest_.TotalTokens();
    node = forest_.AddSegment(node,
                              {segment.tokens, segment.first_position, rules_.Shares(segment, next),
                               scope, stream.request->variant},
                              splits);
    for (const NodeSplit& split : splits) {
      cache_.Split(split);
      prefix_copies_.Split(split);
      if (stored_) stored_->Split(split);
    }
    splits.clear();
    // A prefix within a node has keys to copy, but no state.
    if (forest_.TotalTokens() > tokens_before && !cache_.slots().any()) prefix_copies_.Added(node);
    if (rules_.Remembers(declared, segment, next)) segment.node = forest_.Remember(node);
  }
  return node;
}

bool StreamMemory::Allocate(Stream& stream, const Allocation& allocation) {
  // Pinning a leaf pins all nodes above it.
  for (const std::int32_t leaf : stream.request->LeavesOf(stream.declared())) {
    Branch& branch = stream.branches.emplace_back();
    branch.leaf = FindPath(stream, leaf);
    if (cache_.slots().any()) FindSlots(forest_, *stream.request, leaf, branch);
    cache_.Pin(branch.leaf);
  }
  std::vector<NodeId> nodes = PromptNodes(forest_, stream);
  std::int64_t missing = 0, path_pages = 0, tail_pages = 0, missing_slots = 0;
  for (const NodeId node : nodes) {
    missing += cache_.MissingPages(node, Tokens(node));
    const bool own_slot = !BeforeOf(stream, node).valid();
    missing_slots += own_slot && cache_.slots().Missing(node, Tokens(node)) ? 1 : 0;
    path_pages += PagesFor(Tokens(node));
  }
  const auto branches = static_cast<std::int64_t>(stream.branches.size());
  const std::int64_t most = allocation.least ? 0 : (cache_.pool().total() - path_pages) / branches;
  const auto first_tail_keys = [&](const Branch& branch) {
    const int all_keys = TailKeys(forest_, stream, branch.leaf, config_.context_length);
    return FirstTailKeys(forest_, stream, branch, all_keys, most);
  };
  int cached = 0;
  for (const Branch& branch : stream.branches) {
    tail_pages += PagesFor(first_tail_keys(branch));
    const bool own_slot = cache_.slots().any() && !branch.before_tail.valid();
    missing_slots += own_slot && first_tail_keys(branch) > 0 ? 1 : 0;
    for (const NodeId node : forest_.Path(branch.leaf)) {
      cached += cache_.filled(node) + prefix_copies_.Ready(node);
    }
  }
  const std::int64_t spare = stream.preempted ? 0 : allocation.spare;
  if (missing + tail_pages + spare > cache_.available_pages() ||
      missing_slots > cache_.slots().available()) {
    for (const Branch& branch : stream.branches) cache_.Unpin(branch.leaf);
    stream.branches.clear();  // nodes that were added for it are gone again
    return false;
  }
  for (const NodeId node : nodes) {
    BANYAN_CHECK(cache_.Reserve(node, Tokens(node), BeforeOf(stream, node)));
  }
  for (Branch& branch : stream.branches) {
    branch.tail = forest_.AddTail(branch.leaf);
    cache_.Pin(branch.tail);
    BANYAN_CHECK(cache_.Reserve(branch.tail, first_tail_keys(branch), branch.before_tail));
    for (const TokenId token : stream.written) forest_.Append(branch.tail, token);
    cache_.Touch(branch.leaf);
  }
  if (stored_) {
    // A state from the store would take the place of the one before it.
    std::erase_if(nodes, [&](NodeId node) { return BeforeOf(stream, node).valid(); });
    stored_->Load(nodes);
  }
  stream.written = {};
  if (!std::exchange(stream.began, true)) {
    stream.answer.cached_tokens = cached;
    prompt_tokens_ += stream.prompt_tokens;
  }
  return true;
}

bool StreamMemory::Grow(const Stream& stream) {
  return std::ranges::all_of(stream.branches, [&](const Branch& branch) {
    return cache_.Reserve(branch.tail, Tokens(branch.tail) + stream.tokens_in_flight,
                          branch.before_tail);
  });
}

void StreamMemory::Preempt(Stream& stream) {
  const std::vector<TokenId>& tokens = forest_.at(stream.lead().tail).tokens;
  stream.written.assign(tokens.begin() + forest_.TakenOver(stream.lead().leaf), tokens.end());
  Release(stream);
}

// The tails are freed at once. A row in flight writes to their pages before another stream can.
void StreamMemory::Release(Stream& stream) {
  for (const Branch& branch : stream.branches) cache_.DropPinned(branch.tail);
  for (const Branch& branch : stream.branches) {
    cache_.Touch(branch.leaf);
    const bool own = !forest_.at(branch.leaf).shared;
    NodeId above = forest_.at(branch.leaf).parent;  // of its own nodes
    while (above.valid() && !forest_.at(above).shared) above = forest_.at(above).parent;
    cache_.Unpin(branch.leaf);
    if (own) cache_.DropUnused(branch.leaf, above);  // no other stream can find them
  }
  stream.branches.clear();
}

void StreamMemory::ForgetPaths(const Stream& stream) {
  RequestTree& request = *stream.request;
  for (const std::int32_t leaf : request.LeavesOf(stream.declared())) {
    for (const std::int32_t index : request.PathTo(leaf)) {
      request.segments[static_cast<size_t>(index)].node = NodeMemory();
    }
  }
}

void StreamMemory::Append(const Stream& stream, TokenId token) {
  for (const Branch& branch : stream.branches) forest_.Append(branch.tail, token);
}

void StreamMemory::CopyPrefixes() {
  for (;;) {
    copies_.clear();
    prefix_copies_.Take([this](NodeId node) { return Loading(node); }, copies_);
    if (copies_.empty()) return;
    kernels_.CopyPages(copies_, pages_);
  }
}

void StreamMemory::FillTails(std::span<const Branch> branches) {
  copies_.clear();
  for (const Branch& branch : branches) {
    const int taken = forest_.TakenOver(branch.leaf);
    if (taken == 0 || cache_.filled(branch.tail) > 0) continue;
    cache_.AddCopies(branch.leaf, branch.tail, taken, copies_);
  }
  if (copies_.empty()) return;
  kernels_.CopyPages(copies_, pages_);
  if (!cache_.slots().any()) return;
  state_copies_.clear();
  for (const Branch& branch : branches) {
    if (forest_.TakenOver(branch.leaf) == 0 || cache_.filled(branch.tail) > 0) continue;
    if (branch.before_tail.valid()) continue;
    state_copies_.push_back({cache_.slots().Of(branch.leaf), cache_.slots().Of(branch.tail)});
  }
  if (!state_copies_.empty()) kernels_.CopyStates(state_copies_, *pages_.states);
}

int StreamMemory::Written(const Stream& stream) const {
  return Tokens(stream.lead().tail) - forest_.TakenOver(stream.lead().leaf);
}

int StreamMemory::Fed(const Stream& stream) const {
  return std::max(0, cache_.filled(stream.lead().tail) - forest_.TakenOver(stream.lead().leaf));
}

bool StreamMemory::ContextFull(const Stream& stream, int more) const {
  return std::ranges::any_of(stream.branches, [&](const Branch& branch) {
    return forest_.at(branch.tail).end_position() + more >= config_.context_length;
  });
}

void StreamMemory::TakeLoaded(double seconds) {
  if (stored_) stored_->Take(seconds);
}

// Of each path, what lies above the end of the last segment with a keep_as.
void StreamMemory::SavePrompt(const Stream& stream) {
  if (!stored_ || !stored_->saves()) return;
  const std::vector<std::int32_t> leaves = stream.request->LeavesOf(stream.declared());
  for (size_t i = 0; i < leaves.size(); ++i) {
    std::vector<NodeId> nodes = forest_.Path(stream.branches[i].leaf);
    auto next = nodes.begin();
    auto kept = next;
    for (const std::int32_t index : stream.request->PathTo(leaves[i])) {
      const RequestSegment& segment = stream.request->segments[static_cast<size_t>(index)];
      auto left = static_cast<std::int64_t>(segment.tokens.size());
      for (; left > 0; ++next) left -= Tokens(*next);
      BANYAN_CHECK(left == 0);  // nodes end where segments do
      if (segment.keep_as.empty()) continue;
      stored_->Save(std::span(kept, next), segment.keep_as);
      kept = next;
    }
  }
}

void StreamMemory::Report(Receipt& receipt) const {
  const std::int64_t page_bytes = kernels_.KvPageBytes(KvShapeOf(config_));
  receipt.prompt_tokens = prompt_tokens_;
  receipt.copied_tokens = prefix_copies_.copied_tokens();
  const std::int64_t slot_bytes = StateBytesOf(config_);
  receipt.state_bytes_peak = slot_bytes * cache_.slots().peak();
  receipt.state_bytes_total = slot_bytes * cache_.slots().total();
  receipt.kv_bytes_peak = page_bytes * cache_.peak_pages() + receipt.state_bytes_peak;
  receipt.kv_bytes_total = page_bytes * cache_.pool().total() + receipt.state_bytes_total;
  receipt.kv_bytes_held = page_bytes * (cache_.pool().total() - cache_.available_pages()) +
                          slot_bytes * (cache_.slots().total() - cache_.slots().available());
  if (!stored_) return;
  receipt.loaded_tokens = stored_->loaded_tokens();
  receipt.saved_tokens = stored_->saved_tokens();
  receipt.damaged_segments = stored_->damaged();
}

void StreamMemory::CheckInvariants() const {
  forest_.CheckInvariants();
  cache_.CheckInvariants();
}

}  // namespace banyan
