#include "engine/request/request_router.h"

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace banyan {
namespace {

// A text is computed again on another device where that saves waiting for so many times its tokens.
constexpr std::int64_t kWorthOfKnown = 4;
// How long an answer gets is not known: most stop early.
constexpr std::int64_t kTokensOfAnswer = 16;

std::uint64_t Mixed(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9fb21c651e98df25;
  return hash ^ (hash >> 29);
}

std::int64_t WorkOf(const RequestTree& request) {
  std::int64_t work = request.tokens;
  for (const AnswerRequest& answer : request.answers) {
    work += std::min<std::int64_t>(answer.max_new, kTokensOfAnswer);
  }
  return work;
}

}  // namespace

std::vector<std::uint64_t> KnownPrefixes::BlocksOf(const RequestTree& request) {
  struct End {
    std::uint64_t hash = 0;
    std::int64_t tokens = 0;  // of the path
  };
  const std::uint64_t root =
      Mixed(Mixed(1, request.scope), static_cast<std::uint64_t>(request.variant));
  std::vector<End> ends;
  std::vector<std::uint64_t> blocks;
  for (const RequestSegment& segment : request.segments) {
    End end = segment.parent < 0 ? End{root, 0} : ends[static_cast<size_t>(segment.parent)];
    for (const TokenId token : segment.tokens) {
      end.hash = Mixed(end.hash, static_cast<std::uint64_t>(token));
      if (++end.tokens % kBlockTokens == 0) blocks.push_back(end.hash);
    }
    ends.push_back(end);
  }
  return blocks;
}

std::uint64_t KnownPrefixes::DevicesWith(std::uint64_t block) const {
  if (const auto found = newer_.find(block); found != newer_.end()) return found->second;
  const auto found = older_.find(block);
  return found == older_.end() ? 0 : found->second;
}

std::int64_t KnownPrefixes::TokensOf(const std::vector<std::uint64_t>& blocks,
                                     size_t device) const {
  const auto count = std::ranges::count_if(
      blocks, [&](std::uint64_t block) { return (DevicesWith(block) >> device & 1) != 0; });
  return kBlockTokens * static_cast<std::int64_t>(count);
}

void KnownPrefixes::Note(const std::vector<std::uint64_t>& blocks, size_t device) {
  for (const std::uint64_t block : blocks) {
    const std::uint64_t devices = DevicesWith(block) | std::uint64_t{1} << device;
    newer_[block] = devices;
  }
  if (newer_.size() <= kMostBlocks) return;
  older_ = std::move(newer_);
  newer_.clear();
}

RequestRouter::RequestRouter(size_t devices) : devices_(devices) {
  BANYAN_CHECK(devices >= 1 && devices <= std::numeric_limits<std::uint64_t>::digits);
  for (Device& device : devices_) device.work = std::make_shared<std::atomic<std::int64_t>>(0);
}

size_t RequestRouter::Choose(const std::vector<std::uint64_t>& blocks) const {
  std::optional<size_t> best;
  std::int64_t least = 0;
  for (size_t i = 0; i < devices_.size(); ++i) {
    if (devices_[i].out) continue;
    const std::int64_t cost = work(i) - kWorthOfKnown * prefixes_.TokensOf(blocks, i);
    if (best && cost >= least) continue;
    best = i;
    least = cost;
  }
  return *best;
}

size_t RequestRouter::Add(const std::shared_ptr<RequestTree>& request) {
  std::vector<std::uint64_t> blocks;
  if (devices_.size() > 1) blocks = KnownPrefixes::BlocksOf(*request);
  const size_t device = Choose(blocks);
  Give(*request, blocks, device);
  devices_[device].entries.emplace(std::pair(-request->priority, request->id),
                                   Entry{request, std::move(blocks)});
  ++waiting_;
  return device;
}

// The request is the device's work now, and no other's.
void RequestRouter::Give(RequestTree& request, const std::vector<std::uint64_t>& blocks,
                         size_t device) {
  const std::int64_t known = prefixes_.TokensOf(blocks, device);
  prefixes_.Note(blocks, device);
  request.work = WorkShare(devices_[device].work, WorkOf(request) - known);
}

// The device with most work of those that have no room for theirs.
std::optional<size_t> RequestRouter::Victim(size_t thief) const {
  std::optional<size_t> victim;
  for (size_t i = 0; i < devices_.size(); ++i) {
    const Device& device = devices_[i];
    if (i == thief || device.entries.empty() || (!device.full && !device.out)) continue;
    if (!victim || work(i) > work(*victim)) victim = i;
  }
  return victim;
}

bool RequestRouter::Has(size_t device) const {
  const Device& mine = devices_[device];
  return !mine.out && (!mine.entries.empty() || Victim(device).has_value());
}

std::shared_ptr<RequestTree> RequestRouter::TakeEntry(size_t device, Entries::iterator entry) {
  std::shared_ptr<RequestTree> request = std::move(entry->second.request);
  devices_[device].entries.erase(entry);
  --waiting_;
  return request;
}

std::shared_ptr<RequestTree> RequestRouter::Take(size_t device, std::optional<int> above) {
  Device& mine = devices_[device];
  if (mine.out) return nullptr;
  if (!mine.entries.empty()) {
    const auto first = mine.entries.begin();
    if (above && first->second.request->priority <= *above) return nullptr;
    return TakeEntry(device, first);
  }
  const std::optional<size_t> victim = above ? std::nullopt : Victim(device);
  if (!victim) return nullptr;
  const auto last = std::prev(devices_[*victim].entries.end());
  Give(*last->second.request, last->second.blocks, device);
  ++mine.stolen;
  return TakeEntry(*victim, last);
}

std::pair<std::shared_ptr<RequestTree>, size_t> RequestRouter::Remove(RequestId id) {
  for (size_t i = 0; i < devices_.size(); ++i) {
    Entries& entries = devices_[i].entries;
    const auto found = std::ranges::find_if(
        entries, [id](const auto& entry) { return entry.second.request->id == id; });
    if (found != entries.end()) return {TakeEntry(i, found), i};
  }
  return {};
}

void RequestRouter::TakeAll(size_t device, std::vector<std::shared_ptr<RequestTree>>& requests) {
  Entries& entries = devices_[device].entries;
  requests.reserve(requests.size() + entries.size());
  for (auto& [rank, entry] : entries) requests.push_back(std::move(entry.request));
  waiting_ -= entries.size();
  entries.clear();
}

void RequestRouter::TakeOut(size_t device) {
  devices_[device].out = true;
  if (std::ranges::any_of(devices_, [](const Device& one) { return !one.out; })) return;
  for (Device& one : devices_) one.out = false;
}

}  // namespace banyan
