// Requests for tokens as one block of bytes that travels to the device, and the place of every
// array of a SelectionCall. Integers only: no CUDA call is made here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cuda/choices/selection.h"
#include "kernels/sampling.h"

namespace banyan::cuda {

class SelectionMemory {
 public:
  // Throws kInput when a history names a token outside the vocabulary.
  SelectionMemory(std::span<const SamplingRow> requests, int vocabulary);

  // The block to upload; `requests` as they were given.
  std::int64_t upload_bytes() const { return upload_bytes_; }
  void WriteUpload(std::span<const SamplingRow> requests, std::byte* block) const;

  // Working memory, of which the first zero_bytes() must be zero.
  std::int64_t scratch_bytes() const { return scratch_bytes_; }
  std::int64_t zero_bytes() const { return zero_bytes_; }

  // Results [requests], then alternatives.
  std::int64_t result_bytes() const;
  // The alternatives of request i begin here and are at most so many.
  std::span<const ScoreResult> Alternatives(const ScoreResult* results, size_t request) const;

  // The three blocks' places on the device, each aligned to 256 bytes.
  struct Blocks {
    std::byte* upload = nullptr;
    std::byte* scratch = nullptr;
    ScoreResult* results = nullptr;
  };
  SelectionCall CallFor(const DeviceLogits& logits, const Blocks& blocks) const;

 private:
  struct Place {
    std::int64_t requests, draws, lists, penalties, histories, masks;  // upload
    std::int64_t states, bins, penalised, chunks, scores, gathered;    // scratch
  };

  void PlaceUpload(std::int64_t history_tokens, std::int64_t mask_words);
  void PlaceScratch(int vocabulary);

  std::vector<SelectionRequest> requests_;
  std::vector<std::int32_t> draws_, lists_, penalties_;
  std::vector<std::span<const std::uint32_t>> masks_;  // each once
  std::int32_t alternatives_ = 0;
  bool any_top_k_ = false, any_top_p_ = false;
  Place place_{};
  std::int64_t upload_bytes_ = 0, scratch_bytes_ = 0, zero_bytes_ = 0;
};

}  // namespace banyan::cuda
