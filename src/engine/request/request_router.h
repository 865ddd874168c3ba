// Which device of an engine computes a request, and the requests that wait until their device takes
// them. Not thread-safe: RequestQueue guards it.
//
// A request is for the device with the least work, but text that a device has computed counts
// against the work before it: another device computes it again only where that saves waiting for
// several times as much. So the questions of one document are answered by one device, and where
// a device has no room for what waits, one that has takes the latest of it.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/request/request_tree.h"

namespace banyan {

// Where texts were computed, as far as is remembered: hashes of prompts up to every 64th token.
// What was not asked about for long is forgotten.
class KnownPrefixes {
 public:
  static constexpr int kBlockTokens = 64;

  // Of all paths of a request, every block once.
  static std::vector<std::uint64_t> BlocksOf(const RequestTree& request);

  // The devices that have computed a block, as bits.
  std::uint64_t DevicesWith(std::uint64_t block) const;
  // Tokens of the blocks that a device has computed.
  std::int64_t TokensOf(const std::vector<std::uint64_t>& blocks, size_t device) const;
  void Note(const std::vector<std::uint64_t>& blocks, size_t device);

 private:
  static constexpr size_t kMostBlocks = size_t{1} << 16;  // of each half; 4 million tokens
  std::unordered_map<std::uint64_t, std::uint64_t> newer_, older_;
};

class RequestRouter {
 public:
  explicit RequestRouter(size_t devices);

  // Puts the request to the queue of a device, which it returns.
  size_t Add(const std::shared_ptr<RequestTree>& request);
  // The first of the device's own requests; where there is none, one that another has no room for.
  // Null: none. With `above`, its own alone and of a higher priority.
  std::shared_ptr<RequestTree> Take(size_t device, std::optional<int> above = std::nullopt);
  bool Has(size_t device) const;  // something for Take
  // Takes a request out, wherever it waits; null: nowhere. Its device, too.
  std::pair<std::shared_ptr<RequestTree>, size_t> Remove(RequestId request);
  // Appends all of the device's own, in order of rank. Throws std::bad_alloc, and nothing has
  // changed.
  void TakeAll(size_t device, std::vector<std::shared_ptr<RequestTree>>& requests);

  // Whether the device leaves requests in its queue because it has no room for them.
  void SetFull(size_t device, bool full) { devices_[device].full = full; }
  // The device has failed: the others get its requests. When all have, all are tried again.
  void TakeOut(size_t device);

  size_t waiting() const { return waiting_; }  // requests
  std::int64_t stolen(size_t device) const { return devices_[device].stolen; }
  // Tokens to compute for requests that wait for a device or are under way there.
  std::int64_t work(size_t device) const { return devices_[device].work->load(); }

 private:
  struct Entry {
    std::shared_ptr<RequestTree> request;
    std::vector<std::uint64_t> blocks;
  };
  using Entries = std::map<std::pair<int, RequestId>, Entry>;  // by rank: -priority, id
  struct Device {
    Entries entries;
    std::shared_ptr<std::atomic<std::int64_t>> work;
    bool full = false, out = false;
    std::int64_t stolen = 0;  // requests that were another's
  };

  size_t Choose(const std::vector<std::uint64_t>& blocks) const;
  void Give(RequestTree& request, const std::vector<std::uint64_t>& blocks, size_t device);
  std::optional<size_t> Victim(size_t device) const;
  std::shared_ptr<RequestTree> TakeEntry(size_t device, Entries::iterator entry);

  std::vector<Device> devices_;
  KnownPrefixes prefixes_;
  size_t waiting_ = 0;
};

}  // namespace banyan
