#include "kernels/cuda/choices.h"

#include <algorithm>

#include "base/error.h"

namespace banyan::cuda {
namespace {

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

std::vector<TokenChoice> DeviceChoices::Take() {
  std::vector<TokenChoice> choices(count_);
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
  return choices;
}

std::unique_ptr<ChoiceBuffers> TokenChooser::BuffersFor(const SelectionMemory& memory) {
  std::unique_ptr<ChoiceBuffers> buffers;
  if (pool_->empty()) {
    buffers = std::make_unique<ChoiceBuffers>();
  } else {
    buffers = std::move(pool_->back());
    pool_->pop_back();
    buffers->done.Wait();  // choices that nobody took may still be on their way
  }
  Grow(memory.upload_bytes(), buffers->upload);
  Grow(memory.result_bytes(), buffers->results);
  Grow(device_, memory.upload_bytes(), "requests for tokens", buffers->device_upload);
  Grow(device_, memory.result_bytes(), "chosen tokens", buffers->device_results);
  return buffers;
}

std::unique_ptr<DeviceChoices> TokenChooser::Begin(const DeviceLogits& logits,
                                                   std::span<const SamplingRow> requests) {
  auto choices = std::make_unique<DeviceChoices>(pool_, requests, logits.vocabulary);
  if (requests.empty()) return choices;
  const SelectionMemory& memory = choices->memory_;
  choices->buffers_ = BuffersFor(memory);
  Grow(device_, memory.scratch_bytes(), "choosing tokens", scratch_);
  const ChoiceBuffers& buffers = *choices->buffers_;
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
  choices->buffers_->done.Record(stream);
  return choices;
}

}  // namespace banyan::cuda
