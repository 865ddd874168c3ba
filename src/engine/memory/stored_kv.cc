#include "engine/memory/stored_kv.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "plan/attention_plan.h"

namespace banyan {
namespace {

int PagesOfBlock(int tokens) { return (tokens + kPageTokens - 1) / kPageTokens; }

}  // namespace

StoredKv::StoredKv(std::shared_ptr<KvStore> store, bool save, const Engine& engine)
    : store_(std::move(store)),
      save_(save),
      engine_(engine),
      kernels_(*engine.model.kernels),
      form_(FormOf(KvShapeOf(engine.model.config), kernels_.page_type())),
      stored_form_(FormOf(form_.shape, store_->parts().StoredType(form_.type))),
      state_bytes_(StateBytesOf(engine.model.config)),
      loader_(kLoaderThreads, LoaderBudget(form_)) {}

void StoredKv::Load(std::span<const NodeId> nodes) {
  for (const NodeId node : nodes) {
    ForgetIfGone(node);
    if (!Loading(node) && !Complete(node)) LoadNode(node);
  }
}

bool StoredKv::Complete(NodeId node) const {
  return engine_.cache.filled(node) == static_cast<int>(engine_.forest.at(node).tokens.size());
}

// From where its keys end now, as far as the store goes without a gap.
void StoredKv::LoadNode(NodeId id) {
  const int filled = engine_.cache.filled(id);
  const bool states = state_bytes_ > 0;
  if (filled % kCutKeys != 0 || (states && filled > 0)) return;  // it is being computed
  const Node& node = engine_.forest.at(id);
  const std::vector<Digest> names = CutNames(engine_.forest.PlaceOf(id), node.tokens, kCutKeys);
  const auto tokens = static_cast<std::int32_t>(node.tokens.size());
  std::vector<BlockPlace> places;
  for (auto cut = static_cast<size_t>(filled / kCutKeys); cut < names.size(); ++cut) {
    const std::int32_t count =
        std::min(kCutKeys, tokens - static_cast<std::int32_t>(cut) * kCutKeys);
    const std::optional<BlockPlace> place = store_->parts().Find(names[cut], stored_form_.type);
    if (!place || place->block.tokens != count ||
        place->block.bytes != stored_form_.page_bytes() * PagesOfBlock(count)) {
      break;
    }
    places.push_back(*place);
  }
  std::optional<BlockPlace> state;
  if (states) {
    if (places.size() != names.size()) return;
    state = store_->parts().Find(StateName(names.back()), stored_form_.type);
    if (!state || state->block.bytes != state_bytes_) return;
  }
  if (places.empty()) return;
  NodeLoad& load = loads_[id];
  load.serial = node.serial;
  load.written = filled;
  std::int32_t first = filled;
  for (const BlockPlace& place : places) {
    Ask(id, place, {.first_key = first, .tokens = place.block.tokens}, load);
    first += place.block.tokens;
  }
  if (state) Ask(id, *state, {.first_key = first, .state = true}, load);
}

void StoredKv::Ask(NodeId node, const BlockPlace& place, const BlockLoad& block, NodeLoad& load) {
  const std::uint64_t ticket = next_ticket_++;
  load.blocks.push_back(block);
  load.blocks.back().ticket = ticket;
  load.blocks.back().segment = place.segment;
  node_of_ticket_[ticket] = node;
  loader_.Ask(
      {ticket, store_->parts().PathOf(place.file), place.block, stored_form_, form_, block.state});
}

void StoredKv::Take(double seconds) {
  std::vector<LoadedBlock> came = loader_.Take(seconds);
  for (LoadedBlock& block : came) Place(std::move(block));
  // A node may wait for its parent, which may be complete now.
  for (bool changed = true; changed;) {
    changed = false;
    for (auto it = loads_.begin(); it != loads_.end();) {
      changed = Apply(it->first, it->second) || changed;
      it = it->second.blocks.empty() ? loads_.erase(it) : std::next(it);
    }
  }
}

void StoredKv::Place(LoadedBlock block) {
  const auto ticket = node_of_ticket_.find(block.ticket);
  if (ticket == node_of_ticket_.end()) return loader_.Recycle(std::move(block));
  const auto load = loads_.find(ticket->second);
  node_of_ticket_.erase(ticket);
  BANYAN_CHECK(load != loads_.end());
  const auto wanted = std::ranges::find(load->second.blocks, block.ticket, &BlockLoad::ticket);
  BANYAN_CHECK(wanted != load->second.blocks.end());
  wanted->came = true;
  wanted->good = block.good;
  wanted->block = std::move(block);
}

bool StoredKv::Apply(NodeId id, NodeLoad& load) {
  if (!engine_.forest.Exists(NodeMemory{id, load.serial})) {
    Forget(load);
    return true;
  }
  const NodeId parent = engine_.forest.at(id).parent;
  if (parent.valid() && !Complete(parent)) return false;
  bool changed = false;
  while (!load.blocks.empty() && load.blocks.front().came) {
    BlockLoad& next = load.blocks.front();
    BANYAN_CHECK(load.written == next.first_key);
    changed = true;
    if (!next.good) {
      store_->parts().NoteDamage(next.segment);
      Forget(load);
      break;
    }
    Fill(id, next, load);
    store_->parts().NoteUse(next.segment);
    loader_.Recycle(std::move(next.block));
    load.blocks.erase(load.blocks.begin());
  }
  return changed;
}

void StoredKv::Fill(NodeId id, BlockLoad& block, NodeLoad& load) {
  const int keys = block.first_key + block.tokens;
  if (block.state) {
    kernels_.WriteState(block.block.bytes, engine_.cache.slots().Of(id), *engine_.memory.states);
    loaded_tokens_ += keys;
    engine_.cache.MarkFilled(id, keys);
    return;
  }
  const std::span<const std::int32_t> pages = engine_.cache.Pages(id, keys);
  kernels_.WritePages(block.block.bytes,
                      pages.subspan(static_cast<size_t>(block.first_key) / kPageTokens),
                      engine_.memory);
  load.written = keys;
  if (state_bytes_ > 0) return;
  engine_.cache.MarkFilled(id, keys);
  loaded_tokens_ += block.tokens;
}

// Blocks that are still being read are dropped when they arrive.
void StoredKv::Forget(NodeLoad& load) {
  for (BlockLoad& block : load.blocks) {
    if (block.came) {
      loader_.Recycle(std::move(block.block));
    } else {
      node_of_ticket_.erase(block.ticket);
    }
  }
  load.blocks.clear();
}

// Node ids are reused: the loads of a removed node must not fill the new one.
void StoredKv::ForgetIfGone(NodeId node) {
  const auto found = loads_.find(node);
  if (found == loads_.end()) return;
  if (engine_.forest.Exists(NodeMemory{node, found->second.serial})) return;
  Forget(found->second);
  loads_.erase(found);
}

void StoredKv::Split(const NodeSplit& split) {
  ForgetIfGone(split.upper);
  const auto found = loads_.find(split.lower);
  if (found == loads_.end()) return;
  NodeLoad lower = std::move(found->second);
  loads_.erase(found);
  NodeLoad upper;
  upper.serial = engine_.forest.at(split.upper).serial;
  upper.written = std::min(lower.written, split.tokens);
  lower.written = std::max(0, lower.written - split.tokens);
  std::vector<BlockLoad> below;
  for (BlockLoad& block : lower.blocks) {
    if (block.first_key < split.tokens) {
      if (!block.came) node_of_ticket_[block.ticket] = split.upper;
      upper.blocks.push_back(std::move(block));
    } else {
      block.first_key -= split.tokens;
      below.push_back(std::move(block));
    }
  }
  lower.blocks = std::move(below);
  if (!lower.blocks.empty()) loads_[split.lower] = std::move(lower);
  if (!upper.blocks.empty()) loads_[split.upper] = std::move(upper);
}

void StoredKv::Save(std::span<const NodeId> nodes, const std::string& label) {
  KvStore::Parts& store = store_->parts();
  for (const NodeId id : nodes) {
    if (!saves()) return;
    const Node& node = engine_.forest.at(id);
    const std::vector<Digest> names = CutNames(engine_.forest.PlaceOf(id), node.tokens, kCutKeys);
    const auto missing = [&](size_t cut) { return !store.Has(names[cut], stored_form_.type); };
    size_t begin = 0;
    if (state_bytes_ > 0 && !store.Has(StateName(names.back()), stored_form_.type)) {
      // A state stands in one file with the cut before it.
      while (begin + 1 < names.size() && !missing(begin)) ++begin;
      SaveRun(id, names, begin, names.size(), true, label);
      continue;
    }
    // Runs of cuts that are not there; usually all or none.
    for (; begin < names.size(); ++begin) {
      if (!missing(begin)) continue;
      size_t end = begin + 1;
      while (end < names.size() && missing(end)) ++end;
      SaveRun(id, names, begin, end, false, label);
      begin = end - 1;
    }
  }
}

void StoredKv::SaveRun(NodeId id, const std::vector<Digest>& names, size_t begin, size_t end,
                       bool with_state, const std::string& label) {
  const Node& node = engine_.forest.at(id);
  const RunPlace place = engine_.forest.PlaceOf(id);
  SavedRun run;
  SegmentHeader& header = run.header;
  const auto first = static_cast<std::int32_t>(begin) * kCutKeys;
  const auto last = std::min(static_cast<std::int32_t>(end) * kCutKeys,
                             static_cast<std::int32_t>(node.tokens.size()));
  const ModelVariant& model = engine_.model.variants[static_cast<size_t>(node.variant)];
  header.root = model.kv_name;
  header.place = {begin == 0 ? place.above : names[begin - 1], place.first_position + first,
                  place.segment_offset + first};
  header.model = model.kv_identity;
  header.label = label;
  header.shape = form_.shape;
  header.type = form_.type;
  header.tokens.assign(node.tokens.begin() + first, node.tokens.begin() + last);
  const std::span<const std::int32_t> pages = engine_.cache.Pages(id, last);
  for (std::int32_t at = first; at < last; at += kCutKeys) {
    const std::int32_t tokens = std::min(kCutKeys, last - at);
    const auto count = static_cast<size_t>(PagesOfBlock(tokens));
    const size_t old = run.bytes.size();
    run.bytes.resize(old + count * static_cast<size_t>(form_.page_bytes()));
    const std::span<std::byte> bytes = std::span(run.bytes).subspan(old);
    kernels_.ReadPages(engine_.memory, pages.subspan(static_cast<size_t>(at) / kPageTokens, count),
                       bytes);
    ClearTokensFrom(form_, static_cast<int>(count), (tokens - 1) % kPageTokens + 1, bytes);
  }
  if (with_state) {
    run.state.resize(static_cast<size_t>(state_bytes_));
    kernels_.ReadState(*engine_.memory.states, engine_.cache.slots().Of(id), run.state);
  }
  saved_tokens_ += last - first;
  store_->parts().Save(std::move(run));
}

}  // namespace banyan
