// A fixed set of byte strings with a value each, for matching at a position of a text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace banyan {

class ByteTrie {
 public:
  ByteTrie() = default;
  // Empty keys are left out; of equal keys the first stays. Values must not be negative.
  explicit ByteTrie(std::vector<std::pair<std::string_view, std::int32_t>> keys);

  bool empty() const { return nodes_.empty(); }

  // Calls visit(length, value) for every key that begins at `position`, shortest first.
  template <typename Visit>
  void ForEachPrefix(std::string_view text, size_t position, Visit visit) const {
    if (nodes_.empty()) return;
    std::int32_t node = 0;
    for (size_t i = position; i < text.size(); ++i) {
      node = Child(node, static_cast<unsigned char>(text[i]));
      if (node < 0) return;
      const std::int32_t value = nodes_[static_cast<size_t>(node)].value;
      if (value >= 0) visit(i + 1 - position, value);
    }
  }

 private:
  struct Node {  // children are neighbours, in order of their label
    std::int32_t first_child = 0;
    std::int32_t children = 0;
    std::int32_t value = -1;
  };
  std::int32_t Child(std::int32_t node, unsigned char label) const {
    const Node& parent = nodes_[static_cast<size_t>(node)];
    auto low = static_cast<size_t>(parent.first_child);
    size_t high = low + static_cast<size_t>(parent.children);
    while (low < high) {
      const size_t middle = (low + high) / 2;
      if (labels_[middle] == label) return static_cast<std::int32_t>(middle);
      if (labels_[middle] < label) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return -1;
  }

  std::vector<Node> nodes_;
  std::vector<unsigned char> labels_;  // of the edge into each node
};

}  // namespace banyan
