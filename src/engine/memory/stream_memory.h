// What streams have in KV memory: paths in the forest, pinned, with pages for their keys and
// values. Only this part changes the forest, its cache and the engine's side of a KV store.
//
// Invariants:
// 1. A stream has branches exactly from Allocate to Preempt or Release. Each one's leaf is pinned,
//    and its tail is the stream's own.
// 2. The tails of all branches hold the same answer (after what they took over from their leaves,
//    Forest::AddTail).
// 3. Stream::written is empty while the stream has branches; the tails have its tokens then.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "banyan/engine.h"
#include "engine/memory/prefix_copies.h"
#include "engine/memory/stored_kv.h"
#include "engine/request/strategy.h"
#include "engine/request/stream.h"
#include "kv/kv_cache.h"
#include "load/model_parts.h"
#include "tree/forest.h"

namespace banyan {

class StreamMemory {
 public:
  // `model` and `pages` must outlive this object.
  StreamMemory(const Model::Parts& model, KvMemory& pages, const EngineOptions& options);

  struct Allocation {
    std::int64_t spare = 0;  // pages to leave free, unless the stream was preempted
    bool least = false;      // only the pages for its next token, also after a preemption
  };
  // Finds or adds the stream's paths, pins them and reserves pages: for the prompt and the first
  // token or, after a preemption, for all that the stream can still need. What the KV store has of
  // its prompt begins to load. False, and nothing has changed, when there are too few pages.
  [[nodiscard]] bool Allocate(Stream& stream, const Allocation& allocation);

  // Pages for the keys of the stream's next rows. False: none is free; the stream keeps its own.
  [[nodiscard]] bool Grow(const Stream& stream);
  // Frees what the stream holds, and keeps its tokens in Stream::written.
  void Preempt(Stream& stream);
  // Frees what the stream holds. Its prompt stays cached until the pages are needed.
  void Release(Stream& stream);
  // The paths of the stream's prompt are looked up anew next time.
  void ForgetPaths(const Stream& stream);
  void EvictCached() { cache_.EvictAll(); }

  void Append(const Stream& stream, TokenId token);
  // Copies the prefixes that nodes of prompts share with others, as far as they are computed.
  void CopyPrefixes();
  // Tails that begin with their prompt's last segment and have no keys yet get copies of that
  // segment's pages and state. REQUIRES: the segment is computed.
  void FillTails(std::span<const Branch> branches);
  void MarkFilled(NodeId node, int keys) { cache_.MarkFilled(node, keys); }

  // --- State
  const Forest& forest() const { return forest_; }
  const KvCache& cache() const { return cache_; }
  int Tokens(NodeId node) const { return static_cast<int>(forest_.at(node).tokens.size()); }
  bool Complete(NodeId node) const { return cache_.filled(node) == Tokens(node); }
  // The prefix of another node that must be computed before rows of this one (PrefixCopies).
  std::optional<CommonPrefix> Awaited(NodeId node) const { return prefix_copies_.Awaited(node); }
  // Tokens of the stream's answers so far, and those of them that have keys.
  int Written(const Stream& stream) const;
  int Fed(const Stream& stream) const;
  // Whether the model's context has no position left after the stream's next `more` tokens, on its
  // longest branch.
  bool ContextFull(const Stream& stream, int more = 0) const;

  // --- The KV store; without one, nothing loads.
  bool Loading(NodeId node) const { return stored_ && stored_->Loading(node); }
  bool loads() const { return stored_ && stored_->pending(); }
  // Copies blocks that were read into their nodes' pages; if there are none, waits up to `seconds`.
  void TakeLoaded(double seconds);
  // Saves what of the stream's prompts is worth keeping. REQUIRES: all of it is computed.
  void SavePrompt(const Stream& stream);

  void Report(Receipt& receipt) const;
  void CheckInvariants() const;

 private:
  NodeId FindPath(const Stream& stream, std::int32_t leaf_segment);

  const ModelConfig& config_;
  Kernels& kernels_;
  KvMemory& pages_;
  const StorageRules rules_;
  Forest forest_;
  KvCache cache_;
  PrefixCopies prefix_copies_;
  std::unique_ptr<StoredKv> stored_;     // null: no KV store
  std::vector<PageCopy> copies_;         // reused
  std::vector<StateCopy> state_copies_;  // reused
  std::int64_t prompt_tokens_ = 0;       // of streams that began
};

}  // namespace banyan
