#include "text/trie.h"

#include <algorithm>

namespace banyan {

ByteTrie::ByteTrie(std::vector<std::pair<std::string_view, std::int32_t>> keys) {
  std::erase_if(keys, [](const auto& key) { return key.first.empty(); });
  if (keys.empty()) return;
  std::stable_sort(keys.begin(), keys.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });

  struct Range {  // keys [begin, end) share their first `depth` bytes, which lead to node `node`
    size_t begin, end, depth, node;
  };
  nodes_.emplace_back();
  labels_.push_back(0);
  std::vector<Range> level{{0, keys.size(), 0, 0}};
  std::vector<Range> next;
  while (!level.empty()) {
    next.clear();
    for (const Range& range : level) {
      size_t i = range.begin;
      if (range.depth > 0 && keys[i].first.size() == range.depth) {
        nodes_[range.node].value = keys[i].second;
        while (i < range.end && keys[i].first.size() == range.depth) ++i;
      }
      nodes_[range.node].first_child = static_cast<std::int32_t>(nodes_.size());
      while (i < range.end) {
        const auto label = static_cast<unsigned char>(keys[i].first[range.depth]);
        const size_t begin = i;
        while (i < range.end && static_cast<unsigned char>(keys[i].first[range.depth]) == label) {
          ++i;
        }
        next.push_back({begin, i, range.depth + 1, nodes_.size()});
        nodes_.emplace_back();
        labels_.push_back(label);
        ++nodes_[range.node].children;
      }
    }
    level.swap(next);
  }
}

}  // namespace banyan
