// What running requests have in memory, for whoever draws it.
#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "engine/core.h"

namespace banyan {
namespace {

// [segments] How many answers read each, those that have ended and those that wait included.
std::vector<std::int32_t> SegmentReaders(const RequestTree& request) {
  std::vector<std::int32_t> readers(request.segments.size());
  for (const RequestStream& stream : request.streams) {
    for (std::int32_t segment : request.LeavesOf(stream)) {
      while (segment >= 0) {
        ++readers[static_cast<size_t>(segment)];
        segment = request.segments[static_cast<size_t>(segment)].parent;
      }
    }
  }
  return readers;
}

}  // namespace

std::vector<ForestNode> EngineCore::Picture(std::span<const RequestId> requests) const {
  const RunningStreams& running = admission_.running();
  const Forest& forest = streams_.forest();
  std::vector<ForestNode> picture;
  std::unordered_map<std::uint64_t, size_t> known;  // serial → place
  const auto show = [&](NodeId id, int level, RequestId request) -> ForestNode& {
    const Node& node = forest.at(id);
    const auto [place, added] = known.try_emplace(node.serial, picture.size());
    if (added) {
      ForestNode& shown = picture.emplace_back();
      shown.id = node.serial;
      shown.parent = node.parent.valid() ? forest.at(node.parent).serial : 0;
      shown.tokens = static_cast<std::int32_t>(node.tokens.size());
      shown.computed = std::min(streams_.cache().filled(id), shown.tokens);
      shown.level = level;
      shown.growing = node.growing;
      shown.request = request;
    }
    return picture[place->second];
  };
  // A node's readers do not depend on the moment: every request that runs adds all of a segment's.
  std::map<RequestId, std::vector<std::int32_t>> readers;
  std::set<std::pair<std::uint64_t, std::pair<RequestId, std::int32_t>>> counted;
  for (const StreamId id : running.order()) {
    if (!running.Has(id)) continue;
    const Stream& stream = running.at(id);
    const RequestTree& request = *stream.request;
    if (std::ranges::find(requests, request.id) == requests.end()) continue;
    const auto [of_request, first] = readers.try_emplace(request.id);
    if (first) of_request->second = SegmentReaders(request);
    const std::vector<std::int32_t> leaves = request.LeavesOf(stream.declared());
    for (size_t b = 0; b < stream.branches.size(); ++b) {
      const Branch& branch = stream.branches[b];
      const std::vector<std::int32_t> segments = request.PathTo(leaves[b]);
      for (const NodeId node : forest.Path(branch.leaf)) {
        const std::int32_t begin = forest.at(node).first_position;
        int level = 0;
        while (level + 1 < static_cast<int>(segments.size()) &&
               request.segments[static_cast<size_t>(segments[static_cast<size_t>(level)])]
                       .end_position() <= begin) {
          ++level;
        }
        ForestNode& shown = show(node, level, request.id);
        const std::int32_t segment = segments[static_cast<size_t>(level)];
        if (counted.emplace(shown.id, std::pair(request.id, segment)).second) {
          shown.readers += of_request->second[static_cast<size_t>(segment)];
        }
      }
      if (!branch.tail.valid()) continue;
      show(branch.tail, static_cast<int>(segments.size()), request.id).readers = 1;
    }
  }
  return picture;
}

}  // namespace banyan
