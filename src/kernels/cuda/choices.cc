#include "kernels/cuda/choices.h"

#include <algorithm>
#include <map>

#include "base/error.h"

namespace banyan::cuda {
namespace {

// What the device chooses by itself.
bool OnDevice(const SamplingRow& request) {
  if (request.top_logprobs > 0) return false;
  if (request.forced >= 0) return true;
  return request.temperature <= 0.0f && request.repetition_penalty == 1.0f &&
         request.allowed.empty();
}

void CopyToHost(const Device& device, const void* source, void* target, std::int64_t bytes) {
  Check(cudaMemcpyAsync(target, source, static_cast<size_t>(bytes), cudaMemcpyDeviceToHost,
                        device.stream),
        "copy to the host");
}

void CopyToDevice(const Device& device, const void* source, void* target, std::int64_t bytes) {
  Check(cudaMemcpyAsync(target, source, static_cast<size_t>(bytes), cudaMemcpyHostToDevice,
                        device.stream),
        "copy to the device");
}

}  // namespace

std::vector<TokenChoice> DeviceChoices::Take() {
  if (!on_host_.empty()) return std::move(on_host_);
  buffers_->done.Wait();
  const auto* results = reinterpret_cast<const ScoreResult*>(buffers_->results.data());
  std::vector<TokenChoice> choices(static_cast<size_t>(count_));
  for (size_t i = 0; i < choices.size(); ++i) {
    if (results[i].token < 0) {
      Throw(ErrorKind::kInput, "no token of {} can be chosen: no logit is above minus infinity",
            vocabulary_);
    }
    choices[i].token = results[i].token;
    choices[i].logprob = results[i].logprob;
  }
  return choices;
}

std::unique_ptr<ChoiceBuffers> TokenChooser::BuffersFor(int count) {
  std::unique_ptr<ChoiceBuffers> buffers;
  if (pool_->empty()) {
    buffers = std::make_unique<ChoiceBuffers>();
  } else {
    buffers = std::move(pool_->back());
    pool_->pop_back();
    buffers->done.Wait();  // choices that nobody took may still be on their way
  }
  if (buffers->capacity < count) {
    int capacity = 256;
    while (capacity < count) capacity *= 2;
    const std::int64_t request_bytes = capacity * std::int64_t{sizeof(ScoreRequest)};
    const std::int64_t result_bytes = capacity * std::int64_t{sizeof(ScoreResult)};
    buffers->requests = PinnedMemory(request_bytes);
    buffers->results = PinnedMemory(result_bytes);
    buffers->device_requests = DeviceMemory(device_, request_bytes, "requests for tokens");
    buffers->device_results = DeviceMemory(device_, result_bytes, "chosen tokens");
    buffers->capacity = capacity;
  }
  return buffers;
}

std::unique_ptr<DeviceChoices> TokenChooser::Begin(const DeviceLogits& logits,
                                                   std::span<const SamplingRow> requests) {
  const auto count = static_cast<int>(requests.size());
  auto choices = std::make_unique<DeviceChoices>(pool_, BuffersFor(count), logits.vocabulary);
  choices->count_ = count;
  if (count == 0) return choices;
  ChoiceBuffers& buffers = *choices->buffers_;
  auto* sent = reinterpret_cast<ScoreRequest*>(buffers.requests.data());
  for (int i = 0; i < count; ++i) {
    const SamplingRow& request = requests[static_cast<size_t>(i)];
    BANYAN_CHECK(request.forced < logits.vocabulary);
    sent[i] = {request.row, request.forced >= 0 ? request.forced : kGreedy};
  }
  CopyToDevice(*device_, sent, buffers.device_requests.As<void>(),
               count * std::int64_t{sizeof(ScoreRequest)});
  ScoreLogits(device_->stream, logits.values, logits.stride, logits.vocabulary,
              buffers.device_requests.As<ScoreRequest>(), count,
              buffers.device_results.As<ScoreResult>());
  CopyToHost(*device_, buffers.device_results.As<void>(), buffers.results.data(),
             count * std::int64_t{sizeof(ScoreResult)});
  buffers.done.Record(device_->stream);
  if (!std::all_of(requests.begin(), requests.end(), OnDevice)) {
    ChooseOnHost(logits, requests, *choices);
  }
  return choices;
}

// Overwrites what the device chose for rows that are not its business, here and there.
void TokenChooser::ChooseOnHost(const DeviceLogits& logits, std::span<const SamplingRow> requests,
                                DeviceChoices& choices) {
  ChoiceBuffers& buffers = *choices.buffers_;
  auto* results = reinterpret_cast<ScoreResult*>(buffers.results.data());
  buffers.done.Wait();
  std::map<std::int32_t, std::vector<float>> downloaded;
  std::vector<TokenChoice> on_host(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    if (OnDevice(requests[i])) continue;
    std::vector<float>& row = downloaded[requests[i].row];
    if (row.empty()) {
      row.resize(static_cast<size_t>(logits.vocabulary));
      CopyToHost(*device_, logits.values + requests[i].row * logits.stride, row.data(),
                 static_cast<std::int64_t>(row.size() * sizeof(float)));
      device_->Synchronize();
    }
    on_host[i] = SelectToken(row, requests[i]);
    results[i] = {on_host[i].token, on_host[i].logprob};
  }
  CopyToDevice(*device_, results, buffers.device_results.As<void>(),
               choices.count_ * std::int64_t{sizeof(ScoreResult)});
  buffers.done.Record(device_->stream);  // until then the pinned results are being read
  std::vector<TokenChoice> all = choices.Take();
  for (size_t i = 0; i < all.size(); ++i) {
    if (!OnDevice(requests[i])) all[i].top = std::move(on_host[i].top);
  }
  choices.on_host_ = std::move(all);
}

}  // namespace banyan::cuda
