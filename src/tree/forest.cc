#include "tree/forest.h"

#include <algorithm>
#include <iterator>
#include <tuple>

#include "base/error.h"

namespace banyan {
Forest::Forest(int cut_tokens, std::vector<Digest> root_names, int piece_tokens)
    : cut_(piece_tokens > 0 ? piece_tokens : cut_tokens),
      named_cut_(cut_tokens),
      short_(cut_tokens / 2),
      in_pieces_(piece_tokens > 0),
      root_names_(std::move(root_names)) {
  BANYAN_CHECK(cut_tokens > 0 && cut_ % cut_tokens == 0 && !root_names_.empty());
}

bool Forest::Beginning::SamePlace(const Beginning& other) const {
  return parent == other.parent && position == other.position && offset == other.offset &&
         root == other.root;
}

bool Forest::Beginning::operator<(const Beginning& other) const {
  const auto place = [](const Beginning& b) {
    return std::tuple(b.parent.value, b.position, b.offset, b.root.scope, b.root.variant);
  };
  const auto mine = place(*this), theirs = place(other);
  if (mine != theirs) return mine < theirs;
  return std::ranges::lexicographical_compare(tokens, other.tokens);
}

Forest::Beginning Forest::BeginningOf(NodeId id) const {
  const Node& node = at(id);
  const size_t keyed = std::min(node.tokens.size(), static_cast<size_t>(cut_));
  return {node.parent, node.first_position, node.segment_offset,
          node.parent.valid() ? RootKey() : RootKey{node.scope, node.variant},
          std::span(node.tokens).first(keyed)};
}

NodeId Forest::FindChild(const Beginning& beginning) const {
  const auto found = index_.find(beginning);
  return found == index_.end() ? NodeId() : *found;
}

CommonPrefix Forest::FindCommon(NodeId id) const {
  BANYAN_CHECK(!at(id).growing);
  CommonPrefix best;
  if (!at(id).shared) return best;
  const auto self = index_.find(id);
  const Beginning mine = BeginningOf(id);
  const auto compare = [&](NodeId other) {
    const Beginning theirs = BeginningOf(other);
    if (!mine.SamePlace(theirs)) return;
    const auto differ = std::ranges::mismatch(mine.tokens, theirs.tokens);
    const auto common = static_cast<std::int32_t>(differ.in1 - mine.tokens.begin());
    if (common == 0 || common < best.tokens) return;
    if (common == best.tokens && at(other).serial > at(best.node).serial) return;
    best = {other, common};
  };
  if (self != index_.begin()) compare(*std::prev(self));
  if (std::next(self) != index_.end()) compare(*std::next(self));
  return best;
}

NodeId Forest::AddSegment(NodeId parent, const Segment& segment, std::vector<NodeSplit>& splits) {
  BANYAN_CHECK(!segment.tokens.empty());
  BANYAN_CHECK(!parent.valid() || !at(parent).growing);
  BANYAN_CHECK(static_cast<size_t>(segment.variant) < root_names_.size());
  std::span<const TokenId> rest = segment.tokens;
  std::int32_t position =
      segment.first_position.value_or(parent.valid() ? at(parent).end_position() : 0);
  std::int32_t offset = 0;
  while (segment.share) {
    const RootKey root = parent.valid() ? RootKey() : RootKey{segment.scope, segment.variant};
    const size_t keyed = std::min(rest.size(), static_cast<size_t>(cut_));
    const NodeId child = FindChild({parent, position, offset, root, rest.first(keyed)});
    if (!child.valid()) break;
    const std::vector<TokenId>& tokens = at(child).tokens;
    const auto mismatch = std::mismatch(rest.begin(), rest.end(), tokens.begin(), tokens.end());
    const auto common = static_cast<std::int32_t>(mismatch.first - rest.begin());
    if (common == static_cast<std::int32_t>(rest.size()) && rest.size() == tokens.size()) {
      return child;
    }
    const std::int32_t whole = common / cut_ * cut_;
    BANYAN_CHECK(whole > 0);  // FindChild compared a whole cut, or all tokens of equal lengths
    NodeId step = child;
    if (whole < static_cast<std::int32_t>(tokens.size())) {
      splits.push_back(Split(child, whole));
      step = splits.back().upper;
    }
    if (whole == static_cast<std::int32_t>(rest.size())) return step;
    parent = step;
    position += whole;
    offset += whole;
    rest = rest.subspan(static_cast<size_t>(whole));
  }
  const size_t most = in_pieces_ ? static_cast<size_t>(cut_) : rest.size();
  while (!rest.empty()) {
    const auto tokens = rest.first(std::min(most, rest.size()));
    Node node;
    node.tokens.assign(tokens.begin(), tokens.end());
    node.first_position = position;
    node.segment_offset = offset;
    parent = Add(parent, segment, std::move(node));
    position += static_cast<std::int32_t>(tokens.size());
    offset += static_cast<std::int32_t>(tokens.size());
    rest = rest.subspan(tokens.size());
  }
  return parent;
}

// `node` has its tokens and its place.
NodeId Forest::Add(NodeId parent, const Segment& segment, Node node) {
  node.parent = parent;
  node.shared = segment.share;
  if (!parent.valid()) node.scope = segment.scope;
  node.variant = parent.valid() ? at(parent).variant : segment.variant;
  total_tokens_ += static_cast<std::int64_t>(node.tokens.size());
  const NodeId id = NewNode(std::move(node));
  Rename(id);
  if (segment.share) BANYAN_CHECK(index_.insert(id).second);
  return id;
}

NodeId Forest::AddTail(NodeId leaf) {
  const Node& prompt = at(leaf);
  BANYAN_CHECK(!prompt.growing);
  Node node;
  if (TakenOver(leaf) > 0) {
    node.parent = prompt.parent;
    node.tokens = prompt.tokens;
    node.first_position = prompt.first_position;
  } else {
    node.parent = leaf;
    node.first_position = prompt.end_position();
  }
  node.growing = true;
  node.shared = false;
  node.variant = prompt.variant;
  total_tokens_ += static_cast<std::int64_t>(node.tokens.size());
  return NewNode(std::move(node));
}

// A segment that begins with this node and is shorter than a cut is all in it.
std::int32_t Forest::TakenOver(NodeId leaf) const {
  const auto tokens = static_cast<std::int32_t>(at(leaf).tokens.size());
  return at(leaf).segment_offset == 0 && tokens <= short_ ? tokens : 0;
}

void Forest::Append(NodeId tail, TokenId token) {
  BANYAN_CHECK(at(tail).growing);
  nodes_[tail.index()].tokens.push_back(token);
  ++total_tokens_;
}

void Forest::Unpin(NodeId node) {
  BANYAN_CHECK(nodes_[node.index()].pins > 0);
  --nodes_[node.index()].pins;
}

bool Forest::Removable(NodeId node) const {
  return Exists(node) && at(node).pins == 0 && at(node).children == 0;
}

void Forest::Remove(NodeId node) {
  BANYAN_CHECK(Removable(node));
  if (at(node).shared) BANYAN_CHECK(index_.erase(node) == 1);
  total_tokens_ -= static_cast<std::int64_t>(at(node).tokens.size());
  if (at(node).parent.valid()) --nodes_[at(node).parent.index()].children;
  nodes_[node.index()] = Node();
  alive_[node.index()] = false;
  free_.push_back(node);
}

bool Forest::Exists(NodeId node) const {
  return node.valid() && node.index() < nodes_.size() && alive_[node.index()];
}

std::vector<NodeId> Forest::Path(NodeId node) const {
  std::vector<NodeId> path;
  for (NodeId at_node = node; at_node.valid(); at_node = at(at_node).parent) {
    path.push_back(at_node);
  }
  std::reverse(path.begin(), path.end());
  return path;
}

NodeId Forest::NewNode(Node node) {
  node.serial = next_serial_++;
  if (node.parent.valid()) ++nodes_[node.parent.index()].children;
  if (free_.empty()) {
    nodes_.push_back(std::move(node));
    alive_.push_back(true);
    return NodeId(static_cast<std::int32_t>(nodes_.size()) - 1);
  }
  const NodeId id = free_.back();
  free_.pop_back();
  nodes_[id.index()] = std::move(node);
  alive_[id.index()] = true;
  return id;
}

std::vector<Digest> CutNames(const RunPlace& place, std::span<const TokenId> tokens,
                             int cut_tokens) {
  std::vector<Digest> names;
  const auto size = static_cast<std::int32_t>(tokens.size());
  for (std::int32_t begin = 0; begin < size; begin += cut_tokens) {
    Sha256 hash;
    hash.Add(std::as_bytes(std::span(names.empty() ? place.above : names.back())));
    hash.Add(static_cast<std::uint64_t>(place.first_position + begin));
    hash.Add(static_cast<std::uint64_t>(place.segment_offset + begin));
    hash.Add(std::as_bytes(tokens.subspan(
        static_cast<size_t>(begin), static_cast<size_t>(std::min(cut_tokens, size - begin)))));
    names.push_back(hash.Finish());
  }
  return names;
}

RunPlace Forest::PlaceOf(NodeId id) const {
  const Node& node = at(id);
  Digest above =
      node.parent.valid() ? at(node.parent).name : root_names_[static_cast<size_t>(node.variant)];
  if (!node.parent.valid() && node.scope != 0) {
    above = Sha256().Add(std::as_bytes(std::span(above))).Add(node.scope).Finish();
  }
  return {above, node.first_position, node.segment_offset};
}

void Forest::Rename(NodeId id) {
  nodes_[id.index()].name = CutNames(PlaceOf(id), at(id).tokens, named_cut_).back();
}

NodeSplit Forest::Split(NodeId lower, std::int32_t tokens) {
  BANYAN_CHECK(!in_pieces_);
  BANYAN_CHECK(index_.erase(lower) == 1);
  Node upper;
  {
    const Node& node = at(lower);
    BANYAN_CHECK(!node.growing && tokens % cut_ == 0);
    upper.parent = node.parent;
    upper.tokens.assign(node.tokens.begin(), node.tokens.begin() + tokens);
    upper.first_position = node.first_position;
    upper.segment_offset = node.segment_offset;
    upper.scope = node.scope;
    upper.variant = node.variant;
  }
  const NodeId upper_id = NewNode(std::move(upper));
  Node& node = nodes_[lower.index()];
  if (node.parent.valid()) --nodes_[node.parent.index()].children;  // NewNode counted upper
  node.parent = upper_id;
  ++nodes_[upper_id.index()].children;
  node.tokens.erase(node.tokens.begin(), node.tokens.begin() + tokens);
  node.first_position += tokens;
  node.segment_offset += tokens;
  Rename(upper_id);  // the lower one's name stays
  BANYAN_CHECK(index_.insert(upper_id).second);
  BANYAN_CHECK(index_.insert(lower).second);
  return {upper_id, lower, tokens};
}

void Forest::CheckInvariants() const {
  std::vector<std::int32_t> children(nodes_.size(), 0);
  std::int64_t tokens = 0;
  size_t indexed = 0;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (!alive_[i]) continue;
    const Node& node = nodes_[i];
    tokens += static_cast<std::int64_t>(node.tokens.size());
    BANYAN_CHECK(node.segment_offset % cut_ == 0);
    BANYAN_CHECK(node.growing || !node.tokens.empty());
    BANYAN_CHECK(!node.growing || node.children == 0);
    if (node.parent.valid()) {
      BANYAN_CHECK(Exists(node.parent));
      ++children[node.parent.index()];
      const Node& parent = at(node.parent);
      BANYAN_CHECK(node.variant == parent.variant);
      if (node.segment_offset > 0) {
        const auto parent_end =
            parent.segment_offset + static_cast<std::int32_t>(parent.tokens.size());
        BANYAN_CHECK(node.segment_offset == parent_end);
      }
    } else {
      BANYAN_CHECK(node.segment_offset == 0);
    }
    if (!node.shared) continue;
    ++indexed;
    const NodeId self(static_cast<std::int32_t>(i));
    BANYAN_CHECK(FindChild(BeginningOf(self)) == self);
  }
  BANYAN_CHECK(indexed == index_.size());
  BANYAN_CHECK(tokens == total_tokens_);
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (alive_[i]) BANYAN_CHECK(children[i] == nodes_[i].children);
  }
}

}  // namespace banyan
