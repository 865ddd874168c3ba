// Requests for tokens, sent to the device, and choices, copied back (choices.h).
#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <utility>

#include "base/error.h"
#include "kernels/cuda/choices/choices.h"

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

// Sizes grow in powers of two, so that a batch that changes a little fits what is there.
std::int64_t RoundedUp(std::int64_t bytes) {
  std::int64_t size = std::int64_t{1} << 14;
  while (size < bytes) size *= 2;
  return size;
}

void Grow(const std::shared_ptr<const Device>& device, std::int64_t bytes, const char* what,
          DeviceMemory& memory) {
  if (memory.bytes() >= bytes) return;
  memory = {};
  memory = DeviceMemory(device, RoundedUp(bytes), what);
}

void Grow(std::int64_t bytes, PinnedMemory& memory) {
  if (memory.bytes() < bytes) memory = PinnedMemory(RoundedUp(bytes));
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

const std::vector<TokenChoice>& DeviceChoices::Take() {
  std::vector<TokenChoice>& choices = taken_;
  choices.assign(count_, {});
  if (count_ == 0) return choices;
  buffers_->done.Wait();
  const auto* results = reinterpret_cast<const ScoreResult*>(buffers_->results.data());
  for (size_t i = 0; i < choices.size(); ++i) {
    if (results[i].token == kNone) {
      choices[i].token = kNoToken;
      continue;
    }
    choices[i].token = results[i].token;
    choices[i].logprob = results[i].logprob;
    for (const ScoreResult& place : memory_.Alternatives(results, i)) {
      choices[i].top.push_back({place.token, place.logprob});
    }
  }
  TakePanels(choices);
  return choices;
}

std::unique_ptr<ChoiceBuffers> TokenChooser::BuffersFor(const SelectionMemory& memory) {
  std::unique_ptr<ChoiceBuffers> buffers;
  if (pool_->empty()) {
    buffers = std::make_unique<ChoiceBuffers>();
  } else {
    buffers = std::move(pool_->back());
    pool_->pop_back();
    buffers->done.Wait();  // choices that were never taken may still be in flight
  }
  Grow(memory.upload_bytes(), buffers->upload);
  Grow(memory.result_bytes(), buffers->results);
  Grow(device_, memory.upload_bytes(), "requests for tokens", buffers->device_upload);
  Grow(device_, memory.result_bytes(), "chosen tokens", buffers->device_results);
  return buffers;
}

std::unique_ptr<DeviceChoices> TokenChooser::Prepare(std::span<const SamplingRow> requests,
                                                     int vocabulary) {
  auto choices = std::make_unique<DeviceChoices>(pool_, requests, vocabulary);
  if (requests.empty()) return choices;
  choices->buffers_ = BuffersFor(choices->memory_);
  Grow(device_, choices->memory_.scratch_bytes(), "choosing tokens", scratch_);
  return choices;
}

void TokenChooser::Select(const DeviceLogits& logits, std::span<const SamplingRow> requests,
                          const DeviceChoices& choices) {
  const SelectionMemory& memory = choices.memory_;
  const ChoiceBuffers& buffers = *choices.buffers_;
  const cudaStream_t stream = device_->stream;
  memory.WriteUpload(requests, buffers.upload.data());
  Check(cudaMemcpyAsync(buffers.device_upload.As<void>(), buffers.upload.data(),
                        static_cast<size_t>(memory.upload_bytes()), cudaMemcpyHostToDevice, stream),
        "copy of requests for tokens");
  if (memory.zero_bytes() > 0) {
    Check(cudaMemsetAsync(scratch_.As<void>(), 0, static_cast<size_t>(memory.zero_bytes()), stream),
          "clear");
  }
  SelectOnDevice(stream, memory.CallFor(logits, {buffers.device_upload.As<std::byte>(),
                                                 scratch_.As<std::byte>(),
                                                 buffers.device_results.As<ScoreResult>()}));
  Check(cudaMemcpyAsync(buffers.results.data(), buffers.device_results.As<void>(),
                        static_cast<size_t>(memory.result_bytes()), cudaMemcpyDeviceToHost, stream),
        "copy of chosen tokens");
}

std::unique_ptr<DeviceChoices> TokenChooser::Begin(const DeviceLogits& logits,
                                                   std::span<const SamplingRow> requests) {
  std::unique_ptr<DeviceChoices> choices = Prepare(requests, logits.vocabulary);
  if (requests.empty()) return choices;
  Select(logits, requests, *choices);
  choices->buffers_->done.Record(device_->stream);
  return choices;
}

// Room for the fused rows of panels, and behind them the rows that other requests choose from: all
// requests name rows there afterwards.
DeviceLogits TokenChooser::Gather(const DeviceLogits& logits, std::span<SamplingRow> requests,
                                  size_t panels) {
  std::int64_t next = static_cast<std::int64_t>(panels);
  for (SamplingRow& request : requests) next += request.panel < 0 ? 1 : 0;
  Grow(device_, next * logits.stride * std::int64_t{sizeof(float)}, "fused logits", gathered_);
  float* rows = gathered_.As<float>();
  next = static_cast<std::int64_t>(panels);
  for (SamplingRow& request : requests) {
    if (request.panel >= 0) {
      request.row = request.panel;
      continue;
    }
    Check(cudaMemcpyAsync(rows + next * logits.stride, logits.values + request.row * logits.stride,
                          static_cast<size_t>(logits.stride) * sizeof(float),
                          cudaMemcpyDeviceToDevice, device_->stream),
          "copy of logits");
    request.row = static_cast<std::int32_t>(next++);
  }
  return {rows, logits.stride, logits.vocabulary};
}

std::unique_ptr<DeviceChoices> TokenChooser::Begin(const DeviceLogits& logits,
                                                   std::span<const SamplingRow> requests,
                                                   const StepPanels& step, PanelFusion& fusion) {
  std::vector<SamplingRow> moved(requests.begin(), requests.end());
  const DeviceLogits gathered = Gather(logits, moved, step.panels.size());
  std::unique_ptr<DeviceChoices> choices = Prepare(moved, logits.vocabulary);
  const auto* earlier = static_cast<const DeviceChoices*>(step.earlier);

  std::vector<std::int32_t> choice_of(step.panels.size(), kNone), earlier_first;
  bool looks_back = false;  // else the earlier choices may be none, of a step of prompts alone
  for (size_t i = 0; i < requests.size(); ++i) {
    if (requests[i].panel < 0) continue;
    std::int32_t& choice = choice_of.at(static_cast<size_t>(requests[i].panel));
    BANYAN_CHECK(choice == kNone);
    choice = static_cast<std::int32_t>(i);
  }
  for (size_t p = 0; p < step.panels.size(); ++p) {
    const PanelRow& panel = step.panels[p];
    BANYAN_CHECK(choice_of[p] != kNone);
    const auto count = static_cast<std::int32_t>(panel.experts.size());
    choices->panels_.push_back({choice_of[p], choices->experts_, count, panel.MeasuresBetas(),
                                panel.MeasuresAbstentions()});
    choices->experts_ += count;
    const bool early =
        panel.betas == BetaSource::kEarlier || panel.abstentions == AbstentionSource::kEarlier;
    BANYAN_CHECK(!early || earlier != nullptr);
    looks_back |= early;
    earlier_first.push_back(early ? earlier->FirstExpert(panel.earlier_choice) : 0);
  }
  ChoiceBuffers& buffers = *choices->buffers_;
  const std::int64_t bytes = choices->experts_ * std::int64_t{2 * sizeof(double)} +
                             static_cast<std::int64_t>(step.panels.size() * sizeof(std::int32_t));
  Grow(bytes, buffers.panels);
  Grow(device_, bytes, "measured experts", buffers.device_panels);

  const MeasuredExperts measured = choices->measured();
  fusion.FuseStep({.logits = logits,
                   .panels = step.panels,
                   .choices = choice_of,
                   .earlier_first = earlier_first,
                   .earlier = looks_back ? earlier->measured() : MeasuredExperts(),
                   .out = gathered_.As<float>(),
                   .measured = measured});
  Select(gathered, moved, *choices);
  fusion.FindStepWinners(choices->results(),
                         reinterpret_cast<std::int32_t*>(measured.abstentions + choices->experts_));
  Check(cudaMemcpyAsync(buffers.panels.data(), measured.betas, static_cast<size_t>(bytes),
                        cudaMemcpyDeviceToHost, device_->stream),
        "copy of measured experts");
  buffers.done.Record(device_->stream);
  return choices;
}

std::int32_t DeviceChoices::FirstExpert(std::int32_t choice) const {
  for (const PanelChoice& panel : panels_) {
    if (panel.choice == choice) return panel.first;
  }
  BANYAN_CHECK(false);
  return 0;
}

void DeviceChoices::TakePanels(std::vector<TokenChoice>& choices) const {
  if (panels_.empty()) return;
  const auto* betas = reinterpret_cast<const double*>(buffers_->panels.data());
  const double* abstentions = betas + experts_;
  const auto* winners = reinterpret_cast<const std::int32_t*>(abstentions + experts_);
  for (size_t p = 0; p < panels_.size(); ++p) {
    const PanelChoice& panel = panels_[p];
    TokenChoice& choice = choices[static_cast<size_t>(panel.choice)];
    choice.expert = winners[p];
    const std::int32_t first = panel.first, end = panel.first + panel.count;
    if (panel.betas) choice.betas.assign(betas + first, betas + end);
    if (panel.abstentions) choice.abstentions.assign(abstentions + first, abstentions + end);
  }
}

}  // namespace banyan::cuda
