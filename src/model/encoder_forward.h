// The encoder's network (the decoder's is forward.h): texts in, a vector per token out, and the
// heads that make embeddings and scores of them. Rows of several texts are concatenated without
// padding; each sees all tokens of its own text, and its bits do not depend on the other texts.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "banyan/encoder.h"
#include "kernels/kernels.h"
#include "model/encoder_config.h"
#include "model/encoder_weights.h"
#include "plan/build.h"

namespace banyan {

using TokenList = std::span<const TokenId>;

enum class WantedRows {
  kAll,
  kFirst,  // of every text: the others end at the last layer's keys and values
};

class EncoderPass {
 public:
  // The references must outlive it.
  EncoderPass(const EncoderConfig& config, const EncoderWeights& weights, Kernels& kernels);

  // The last layer's rows: of all tokens, text by text, or one per text. Valid until the next Run.
  // REQUIRES: texts of 1 to context_length tokens, all within the vocabulary.
  Tensor Run(std::span<const TokenList> texts, WantedRows wanted);

 private:
  struct Step;  // the texts as inputs of the kernels
  Step Prepare(std::span<const TokenList> texts, WantedRows wanted);
  void Reserve(int rows, int pages);
  void Embed(const Step& step, Tensor& x);
  void FeedForward(const EncoderLayerWeights& layer, Tensor& x);
  void Norm(const NormWeights& norm, Tensor& x);

  const EncoderConfig& config_;
  const EncoderWeights& weights_;
  Kernels& kernels_;
  AttentionShape shape_;
  PlanOptions plan_options_;
  // Activations for the most rows so far, and keys and values of one layer, reused by the next.
  Tensor x_, delta_, qkv_, attended_, inner_, chosen_, chosen_attended_;
  std::shared_ptr<KvMemory> kv_;
};

// From the vectors of a text's tokens to its embedding (one vector, weights of its tokens, or a
// vector per token) or a reranker's logit.
class EncoderHeads {
 public:
  // The references must outlive it. `special_ids`, ascending, have no place in sparse results.
  EncoderHeads(const EncoderConfig& config, const EncoderWeights& weights, Kernels& kernels,
               std::vector<TokenId> special_ids);

  // What of the texts' rows Embed will read.
  WantedRows RowsFor(const EmbedOptions& options) const;
  // REQUIRES: `rows` are the rows of `texts` that RowsFor asks for.
  std::vector<Embedding> Embed(const Tensor& rows, std::span<const TokenList> texts,
                               const EmbedOptions& options);
  // REQUIRES: `rows` are the first of each text, and the model has a classifier.
  std::vector<float> Rerank(const Tensor& rows);

 private:
  bool GivesSparse(const EmbedOptions& options) const;
  bool GivesColbert(const EmbedOptions& options) const;
  struct HostRows {
    std::int64_t columns = 0;
    std::vector<float> values;  // [rows, columns]

    std::span<const float> Row(std::int64_t row) const {
      return std::span(values).subspan(static_cast<size_t>(row * columns),
                                       static_cast<size_t>(columns));
    }
  };
  // All rows in one copy: a device answers each with a wait.
  HostRows Download(const Tensor& rows);
  static std::vector<float> Pooled(const HostRows& rows, std::int64_t first, std::int64_t count);
  // W rows + bias.
  Tensor Apply(const LinearWeights& linear, const Tensor& rows);

  const EncoderConfig& config_;
  const EncoderWeights& weights_;
  Kernels& kernels_;
  std::vector<TokenId> special_ids_;
};

}  // namespace banyan
