// From logits to tokens on the device, as kernels/sampling.h defines it, without waiting: requests
// and results are arrays in device memory, and a call only launches kernels.
//
// Greedy choice and log-softmax take each row in chunks of kChunkTokens (selection_chunks.cu), and
// then a warp a row; both depend on the vocabulary alone, so a choice does not depend on its
// batch. Draws (draw.cu) sum weights as integers, which have no order. The host packs requests
// and lays out memory (choices.h).
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace banyan::cuda {

inline constexpr int kChunkTokens = 4096;
inline constexpr std::int32_t kNone = -1;

// Rows of `stride` floats (a multiple of four) of which `vocabulary` count.
struct DeviceLogits {
  const float* values = nullptr;
  std::int64_t stride = 0;
  int vocabulary = 0;

  __host__ __device__ int chunks() const { return (vocabulary + kChunkTokens - 1) / kChunkTokens; }
  // 32-bit words of one bit a token.
  __host__ __device__ int words() const { return (vocabulary + 31) / 32; }
};

// A SamplingRow whose spans are places in the arrays of SelectionCall.
struct SelectionRequest {
  std::int32_t row = 0;
  std::int32_t forced = kNone;  // this token is taken, for its logprob
  float temperature = 0.0f;
  std::int32_t top_k = 0;
  float top_p = 1.0f;
  float min_p = 0.0f;
  float penalty = 1.0f;
  std::int32_t alternatives = 0;       // how many to report
  std::int32_t first_alternative = 0;  // where
  std::int32_t mask = kNone;           // first word in `masks`; kNone: every token is allowed
  std::int32_t mask_words = 0;         // tokens beyond these are not allowed
  std::int32_t history = 0;            // first token in `histories`
  std::int32_t history_tokens = 0;
  std::int32_t penalised = kNone;  // which row of `penalised`; kNone: no penalty
  double uniform = 0.0;

  // What is chosen from is the logits as they are: both are kNone, all of whose bits are set.
  __host__ __device__ bool IsPlain() const { return (penalised & mask) == kNone; }
};

struct ScoreResult {
  std::int32_t token = 0;  // kNone: no token can be chosen
  float logprob = 0.0f;
};

// The best tokens of one chunk of a request's row.
struct ChunkBest {
  float value = 0.0f;  // raw; minus infinity with token kNoCandidate where there is nothing
  std::int32_t token = 0;
  float allowed_value = 0.0f;  // after penalty and mask
  std::int32_t allowed_token = 0;
  double sum = 0.0;  // of exp(raw - value)
};

// What a request's row is scored by.
struct RowScore {
  float largest = 0.0f;   // raw
  float best = 0.0f;      // after penalty and mask; minus infinity: nothing can be chosen
  double log_rest = 0.0;  // log(sum(exp(raw - largest)))
};

struct DrawState;
struct DrawBins;

// All pointers are to device memory.
struct SelectionCall {
  DeviceLogits logits;
  int requests_count = 0, draws_count = 0, lists_count = 0, penalties_count = 0;
  bool any_top_k = false, any_top_p = false;

  const SelectionRequest* requests = nullptr;  // [requests_count]
  const std::int32_t* draws = nullptr;         // [draws_count] requests with a temperature
  const std::int32_t* lists = nullptr;         // [lists_count] requests with alternatives
  const std::int32_t* penalties = nullptr;     // [penalties_count] requests with a penalty
  const std::int32_t* histories = nullptr;
  const std::uint32_t* masks = nullptr;

  ChunkBest* chunks = nullptr;         // [requests_count, logits.chunks()]
  RowScore* scores = nullptr;          // [requests_count]
  std::uint32_t* penalised = nullptr;  // [penalties_count, logits.words()]; zero
  DrawState* states = nullptr;         // [draws_count]; zero
  DrawBins* bins = nullptr;            // [draws_count]; zero
  std::uint64_t* gathered = nullptr;   // [draws_count, kGathered]

  ScoreResult* results = nullptr;       // [requests_count]
  ScoreResult* alternatives = nullptr;  // best first; kNone ends a request's list early
};

// Bytes of one draw in `states`, `bins` and `gathered`.
struct DrawBytes {
  std::int64_t state = 0, bins = 0, gathered = 0;
};
DrawBytes BytesOfADraw();

// Fills `chunks`.
void FindBestOfChunks(cudaStream_t stream, const SelectionCall& call);
// Chooses for every request.
void SelectOnDevice(cudaStream_t stream, const SelectionCall& call);
// The part of it that serves requests with a temperature, once `scores` are there.
void DrawTokens(cudaStream_t stream, const SelectionCall& call);

// Puts chosen tokens where `tokens` [rows] names choices (plan/batch.h).
void FeedChosen(cudaStream_t stream, const ScoreResult* results, int rows, std::int32_t* tokens);

}  // namespace banyan::cuda
