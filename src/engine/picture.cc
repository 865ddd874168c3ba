// What running requests have in memory, for whoever draws it.
#include <algorithm>
#include <unordered_map>

#include "engine/core.h"

namespace banyan {

std::vector<ForestNode> EngineCore::Picture(std::span<const RequestId> requests) const {
  std::vector<ForestNode> picture;
  std::unordered_map<std::uint64_t, size_t> known;  // serial → place
  const auto show = [&](NodeId id, int level, RequestId request) -> ForestNode& {
    const Node& node = forest_.at(id);
    const auto [place, added] = known.try_emplace(node.serial, picture.size());
    if (added) {
      ForestNode& shown = picture.emplace_back();
      shown.id = node.serial;
      shown.parent = node.parent.valid() ? forest_.at(node.parent).serial : 0;
      shown.tokens = static_cast<std::int32_t>(node.tokens.size());
      shown.computed = std::min(cache_.filled(id), shown.tokens);
      shown.level = level;
      shown.growing = node.growing;
      shown.request = request;
    }
    return picture[place->second];
  };
  for (const StreamId id : running_) {
    if (!Alive(id)) continue;
    const Stream& stream = at(id);
    const RequestTree& request = *stream.request;
    if (std::ranges::find(requests, request.id) == requests.end()) continue;
    const std::vector<std::int32_t> leaves = request.LeavesOf(stream.declared());
    for (size_t b = 0; b < stream.branches.size(); ++b) {
      const Branch& branch = stream.branches[b];
      const std::vector<std::int32_t> segments = request.PathTo(leaves[b]);
      for (const NodeId node : forest_.Path(branch.leaf)) {
        const std::int32_t begin = forest_.at(node).first_position;
        int level = 0;
        while (level + 1 < static_cast<int>(segments.size()) &&
               request.segments[static_cast<size_t>(segments[static_cast<size_t>(level)])]
                       .end_position() <= begin) {
          ++level;
        }
        ++show(node, level, request.id).readers;
      }
      if (!branch.tail.valid()) continue;
      show(branch.tail, static_cast<int>(segments.size()), request.id).readers = 1;
    }
  }
  return picture;
}

}  // namespace banyan
