// The engine's side of a KV store: prefixes of running prompts are loaded from it, and segments
// with a keep_as are saved to it. For the engine's thread; other threads read and write the files.
//
// A node is loading while blocks of it are being read, and is not computed meanwhile. A block's
// keys count once all keys before it do, so a block may have to wait for a parent that is computed.
// If one is damaged or gone, the rest of its node is computed.
//
// Where layers keep states, a node is loaded whole, with the state after it, or computed whole.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "banyan/kv_store.h"
#include "kernels/page_form.h"
#include "kv/kv_cache.h"
#include "load/model_parts.h"
#include "store/block_loader.h"
#include "store/store_parts.h"
#include "tree/forest.h"

namespace banyan {

class StoredKv {
 public:
  struct Engine {
    const Model::Parts& model;
    Forest& forest;
    KvCache& cache;
    KvMemory& memory;
  };
  StoredKv(std::shared_ptr<KvStore> store, bool save, const Engine& engine);

  // Begins to load what the store has of these nodes, parents first. REQUIRES: reserved.
  void Load(std::span<const NodeId> nodes);
  bool Loading(NodeId node) const { return loads_.contains(node); }
  bool pending() const { return loader_.pending() > 0 || !loads_.empty(); }
  // Copies blocks that were read into their nodes' pages; if there are none, waits up to `seconds`.
  void Take(double seconds);
  // The forest divided a node: call after KvCache::Split.
  void Split(const NodeSplit& split);

  bool saves() const { return save_ && store_->parts().saving(); }
  // Keeps what the store does not have of these nodes of a path. REQUIRES: filled.
  void Save(std::span<const NodeId> nodes, const std::string& label);

  std::int64_t loaded_tokens() const { return loaded_tokens_; }
  std::int64_t saved_tokens() const { return saved_tokens_; }
  std::int64_t damaged() const { return store_->parts().damaged(); }

 private:
  // A block that is being read for keys [first_key, first_key + tokens) of a node.
  struct BlockLoad {
    std::uint64_t ticket = 0;
    std::int32_t first_key = 0, tokens = 0;
    std::int64_t segment = 0;
    bool state = false;  // of the node's end: comes last, without tokens
    bool came = false, good = false;
    LoadedBlock block{};
  };
  struct NodeLoad {
    std::uint64_t serial = 0;       // of the node, which may be gone when its blocks come
    std::int32_t written = 0;       // keys in its pages; with states they count with the state
    std::vector<BlockLoad> blocks;  // in order of keys
  };

  void LoadNode(NodeId node);
  void Ask(NodeId node, const BlockPlace& place, const BlockLoad& block, NodeLoad& load);
  // Writes a block of the node to where it belongs.
  void Fill(NodeId node, BlockLoad& block, NodeLoad& load);
  // Cuts [begin, end) of a node, with the state after it if `with_state`.
  void SaveRun(NodeId node, const std::vector<Digest>& names, size_t begin, size_t end,
               bool with_state, const std::string& label);
  void Place(LoadedBlock block);
  // True when something changed.
  bool Apply(NodeId node, NodeLoad& load);
  bool Complete(NodeId node) const;
  void Forget(NodeLoad& load);
  void ForgetIfGone(NodeId node);

  std::shared_ptr<KvStore> store_;
  const bool save_;
  Engine engine_;
  Kernels& kernels_;
  PageForm form_;             // the backend's
  PageForm stored_form_;      // of the store's blocks
  std::int64_t state_bytes_;  // 0: the model keeps no states
  std::unordered_map<NodeId, NodeLoad> loads_;
  std::unordered_map<std::uint64_t, NodeId> node_of_ticket_;
  std::uint64_t next_ticket_ = 1;
  std::int64_t loaded_tokens_ = 0, saved_tokens_ = 0;
  BlockLoader loader_;
};

}  // namespace banyan
