#include "kernels/cuda/choices/selection_memory.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <utility>

#include "base/error.h"

namespace banyan::cuda {
namespace {

// Takes `bytes` bytes from the end of a block and returns where they begin.
std::int64_t Append(std::int64_t bytes, std::int64_t& end) {
  constexpr std::int64_t kAlignment = 16;
  const std::int64_t begin = end;
  end += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  return begin;
}

template <typename T>
void Write(const std::vector<T>& values, std::byte* target) {
  if (!values.empty()) std::memcpy(target, values.data(), values.size() * sizeof(T));
}

void CheckHistory(std::span<const TokenId> history, int vocabulary) {
  for (const TokenId token : history) {
    if (token < 0 || token >= vocabulary) {
      Throw(ErrorKind::kInput, "repetition penalty: token {} is outside the vocabulary of {}",
            token, vocabulary);
    }
  }
}

}  // namespace

SelectionMemory::SelectionMemory(std::span<const SamplingRow> requests, int vocabulary) {
  std::map<std::pair<const std::uint32_t*, size_t>, std::int32_t> known_masks;
  std::int64_t history_tokens = 0, mask_words = 0;
  for (const SamplingRow& row : requests) {
    const auto index = static_cast<std::int32_t>(requests_.size());
    SelectionRequest& request = requests_.emplace_back();
    BANYAN_CHECK(row.uniform >= 0.0 && row.uniform < 1.0 && row.forced < vocabulary);
    request.row = row.row;
    request.forced = row.forced >= 0 ? row.forced : kNone;
    request.alternatives = std::clamp(row.top_logprobs, 0, vocabulary);
    request.first_alternative = alternatives_;
    if (request.alternatives > 0) {
      lists_.push_back(index);
      alternatives_ += request.alternatives;
    }
    if (request.forced != kNone) continue;  // the rest would change nothing
    request.uniform = row.uniform;
    request.temperature = row.temperature;
    request.top_k = row.top_k;
    request.top_p = row.top_p;
    request.min_p = row.min_p;
    if (row.temperature > 0.0f) {
      draws_.push_back(index);
      any_top_k_ |= row.top_k > 0;
      any_top_p_ |= row.top_p < 1.0f;
    }
    if (row.repetition_penalty != 1.0f && !row.history.empty()) {
      CheckHistory(row.history, vocabulary);
      request.penalty = row.repetition_penalty;
      request.penalised = static_cast<std::int32_t>(penalties_.size());
      request.history = static_cast<std::int32_t>(history_tokens);
      request.history_tokens = static_cast<std::int32_t>(row.history.size());
      history_tokens += request.history_tokens;
      penalties_.push_back(index);
    }
    if (!row.allowed.empty()) {
      const auto [known, added] = known_masks.try_emplace({row.allowed.data(), row.allowed.size()},
                                                          static_cast<std::int32_t>(mask_words));
      request.mask = known->second;
      request.mask_words = static_cast<std::int32_t>(row.allowed.size());
      if (added) {
        masks_.push_back(row.allowed);
        mask_words += request.mask_words;
      }
    }
  }
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  BANYAN_CHECK(history_tokens <= kMost && mask_words <= kMost);
  PlaceUpload(history_tokens, mask_words);
  PlaceScratch(vocabulary);
}

void SelectionMemory::PlaceUpload(std::int64_t history_tokens, std::int64_t mask_words) {
  const auto bytes = [](const auto& values) {
    return static_cast<std::int64_t>(values.size() * sizeof(values[0]));
  };
  std::int64_t& end = upload_bytes_;
  place_.requests = Append(bytes(requests_), end);
  place_.draws = Append(bytes(draws_), end);
  place_.lists = Append(bytes(lists_), end);
  place_.penalties = Append(bytes(penalties_), end);
  place_.histories = Append(history_tokens * 4, end);
  place_.masks = Append(mask_words * 4, end);
}

void SelectionMemory::PlaceScratch(int vocabulary) {
  const DeviceLogits logits{nullptr, 0, vocabulary};
  const DrawBytes draw = BytesOfADraw();
  const auto count = static_cast<std::int64_t>(requests_.size());
  const auto draws = static_cast<std::int64_t>(draws_.size());
  std::int64_t& end = scratch_bytes_;
  place_.states = Append(draws * draw.state, end);
  place_.bins = Append(draws * draw.bins, end);
  place_.penalised = Append(static_cast<std::int64_t>(penalties_.size()) * logits.words() * 4, end);
  zero_bytes_ = end;
  place_.chunks = Append(count * logits.chunks() * std::int64_t{sizeof(ChunkBest)}, end);
  place_.scores = Append(count * std::int64_t{sizeof(RowScore)}, end);
  place_.gathered = Append(draws * draw.gathered, end);
}

void SelectionMemory::WriteUpload(std::span<const SamplingRow> requests, std::byte* block) const {
  Write(requests_, block + place_.requests);
  Write(draws_, block + place_.draws);
  Write(lists_, block + place_.lists);
  Write(penalties_, block + place_.penalties);
  std::byte* tokens = block + place_.histories;
  for (const std::int32_t index : penalties_) {
    const std::span<const TokenId> history = requests[static_cast<size_t>(index)].history;
    std::memcpy(tokens, history.data(), history.size_bytes());
    tokens += history.size_bytes();
  }
  std::byte* words = block + place_.masks;
  for (const std::span<const std::uint32_t> mask : masks_) {
    std::memcpy(words, mask.data(), mask.size_bytes());
    words += mask.size_bytes();
  }
}

std::int64_t SelectionMemory::result_bytes() const {
  return (static_cast<std::int64_t>(requests_.size()) + alternatives_) *
         std::int64_t{sizeof(ScoreResult)};
}

std::span<const ScoreResult> SelectionMemory::Alternatives(const ScoreResult* results,
                                                           size_t request) const {
  const SelectionRequest& asked = requests_[request];
  const std::span<const ScoreResult> all(results + requests_.size() + asked.first_alternative,
                                         static_cast<size_t>(asked.alternatives));
  const auto end = std::find_if(all.begin(), all.end(),
                                [](const ScoreResult& place) { return place.token == kNone; });
  return all.first(static_cast<size_t>(end - all.begin()));
}

SelectionCall SelectionMemory::CallFor(const DeviceLogits& logits, const Blocks& blocks) const {
  const auto uploaded = [&](std::int64_t place, auto type) {
    return reinterpret_cast<const decltype(type)*>(blocks.upload + place);
  };
  SelectionCall call;
  call.logits = logits;
  call.requests_count = static_cast<int>(requests_.size());
  call.draws_count = static_cast<int>(draws_.size());
  call.lists_count = static_cast<int>(lists_.size());
  call.penalties_count = static_cast<int>(penalties_.size());
  call.any_top_k = any_top_k_;
  call.any_top_p = any_top_p_;
  call.requests = uploaded(place_.requests, SelectionRequest{});
  call.draws = uploaded(place_.draws, std::int32_t{});
  call.lists = uploaded(place_.lists, std::int32_t{});
  call.penalties = uploaded(place_.penalties, std::int32_t{});
  call.histories = uploaded(place_.histories, std::int32_t{});
  call.masks = uploaded(place_.masks, std::uint32_t{});
  call.states = reinterpret_cast<DrawState*>(blocks.scratch + place_.states);
  call.bins = reinterpret_cast<DrawBins*>(blocks.scratch + place_.bins);
  call.penalised = reinterpret_cast<std::uint32_t*>(blocks.scratch + place_.penalised);
  call.chunks = reinterpret_cast<ChunkBest*>(blocks.scratch + place_.chunks);
  call.scores = reinterpret_cast<RowScore*>(blocks.scratch + place_.scores);
  call.gathered = reinterpret_cast<std::uint64_t*>(blocks.scratch + place_.gathered);
  call.results = blocks.results;
  call.alternatives = blocks.results + requests_.size();
  return call;
}

}  // namespace banyan::cuda
