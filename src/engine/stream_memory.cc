#include "engine/stream_memory.h"

#include <algorithm>

#include "base/error.h"

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

}  // namespace

StreamMemory::StreamMemory(const Model::Parts& model, KvMemory& pages, const EngineOptions& options)
    : config_(model.config),
      kernels_(*model.kernels),
      pages_(pages),
      rules_(options),
      forest_(kCutKeys, RootNames(model)),
      cache_(forest_, pages.pages),
      beginnings_(forest_, cache_, model.kernels->asynchronous() ? kWorthADeviceStep : 0) {
  if (options.kv_store && options.strategy != Strategy::kNoAttention) {
    stored_ = std::make_unique<StoredKv>(options.kv_store, options.kv_save,
                                         StoredKv::Engine{model, forest_, cache_, pages});
  }
}

bool StreamMemory::Grow(const Stream& stream) {
  return std::ranges::all_of(stream.branches, [&](const Branch& branch) {
    return cache_.Reserve(branch.tail, Tokens(branch.tail) + stream.tokens_under_way);
  });
}

void StreamMemory::PutAside(Stream& stream) {
  const std::vector<TokenId>& tokens = forest_.at(stream.lead().tail).tokens;
  stream.written.assign(tokens.begin() + forest_.TakenOver(stream.lead().leaf), tokens.end());
  Release(stream);
}

// Its tails are of no use to anyone: a row under way writes to their pages before anyone else can.
void StreamMemory::Release(Stream& stream) {
  for (const Branch& branch : stream.branches) cache_.DropPinned(branch.tail);
  for (const Branch& branch : stream.branches) {
    cache_.Touch(branch.leaf);
    const bool own = !forest_.at(branch.leaf).shared;
    NodeId above = forest_.at(branch.leaf).parent;  // of its own nodes
    while (above.valid() && !forest_.at(above).shared) above = forest_.at(above).parent;
    cache_.Unpin(branch.leaf);
    if (own) cache_.DropUnused(branch.leaf, above);  // nobody will ask for them again
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

void StreamMemory::CopyBeginnings() {
  for (;;) {
    copies_.clear();
    beginnings_.Take([this](NodeId node) { return Loading(node); }, copies_);
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
  if (!copies_.empty()) kernels_.CopyPages(copies_, pages_);
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

// Of each path, what lies above the end of the last segment that says so.
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
  const std::int64_t page_bytes =
      kernels_.KvPageBytes({config_.layers, config_.kv_heads, config_.head_dim});
  receipt.prompt_tokens = prompt_tokens_;
  receipt.copied_tokens = beginnings_.copied_tokens();
  receipt.kv_bytes_peak = page_bytes * cache_.peak_pages();
  receipt.kv_bytes_total = page_bytes * cache_.total_pages();
  receipt.kv_bytes_held = page_bytes * (cache_.total_pages() - cache_.available_pages());
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
