#include "kernels/cuda/choices/choices.h"

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
    buffers->done.Wait();  // choices that nobody took may still be on their way
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
