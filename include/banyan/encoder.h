// Encoders, for retrieval: texts in, vectors or relevance out. BERT and its family (MiniLM, BGE),
// RoBERTa and XLM-R (BGE-M3 with its three heads, rerankers with one logit).
//
//   const auto encoder = Encoder::Load(options);
//   for (const Embedding& e : encoder->Embed(token_lists)) …
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "banyan/model.h"
#include "banyan/text.h"
#include "banyan/types.h"

namespace banyan {

struct Embedding {
  std::vector<float> dense;  // a unit vector
  // Token id → positive weight, the maximum over its positions; ids ascending, special tokens
  // left out. Empty where the model has no such head.
  std::vector<std::pair<TokenId, float>> sparse;
  // A vector of length 1 for every token but the first. Empty where the model has no such head.
  std::vector<std::vector<float>> colbert;
};

struct EmbedOptions {
  bool sparse = true;   // if the model has that head
  bool colbert = true;  // the same
  // Rows (tokens) of one pass, filled with as many whole texts as fit; a longer text is a pass of
  // its own. 0 = as many as suit the backend, 1 = every text alone.
  int batch_rows = 0;
};

// Threads: every method may be called from any thread; passes are made one after the other. A
// text's results have the same bits alone and among others.
class Encoder {
 public:
  // Whether a model's files hold an encoder: then Load reads it, and Model::Load refuses it. Throws
  // as Load does when there is no such model.
  static bool IsEncoder(const std::string& model);
  // From a Hugging Face directory (with heads.safetensors beside the weights where there are sparse
  // and multi-vector heads) or a GGUF file. KV and YaRN options are ignored;
  // it runs on every device. Throws Error: kNotFound, kFormat, kUnsupported, kUsage.
  static std::shared_ptr<Encoder> Load(const LoadOptions& options);
  ~Encoder();

  bool embeds() const;  // has vectors: all but rerankers
  bool has_sparse() const;
  bool has_colbert() const;
  bool reranks() const;  // has a logit

  int dimensions() const;      // of dense vectors
  int context_length() const;  // tokens of one text
  int usual_length() const;    // tokens that the model's makers cut texts to; else the context
  int vocab_size() const;
  std::shared_ptr<const Text> text() const;  // null when the files have no tokenizer
  std::string backend_name() const;
  // EncoderFingerprint of its files, which are read at the first call alone.
  const std::string& fingerprint() const;

  // Throws kInput when a text is empty or has an unknown id, kLimit when it is too long.
  void Check(std::span<const TokenId> text) const;
  // In the order of the texts. Throws as Check does, naming the text by its place, before anything
  // is computed; kUnsupported when the model is of the other kind.
  std::vector<Embedding> Embed(std::span<const std::vector<TokenId>> texts,
                               const EmbedOptions& options = {});
  // A text is a whole pair with its special tokens: query, separators, document.
  std::vector<float> Rerank(std::span<const std::vector<TokenId>> texts, int batch_rows = 0);

 private:
  struct Parts;
  explicit Encoder(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

// Texts for encoders: from words to the tokens that a model's makers feed it, and which model it
// is.

// A text with its special tokens; a longer one than `most` tokens (0: the encoder's usual length)
// ends there, its last special token aside, and says so in `truncated` (may be null). Throws
// kUnsupported without a tokenizer.
std::vector<TokenId> EncoderTokens(const Encoder& encoder, std::string_view text, int most = 0,
                                   bool* truncated = nullptr);
// A query and a document as one text for Encoder::Rerank; the document ends where the length does.
// Throws kLimit when the query alone is too long.
std::vector<TokenId> RerankerTokens(const Encoder& reranker, std::string_view query,
                                    std::string_view document);

// A hash of weights, configuration and tokenizer of a model's files: vectors of models with
// different ones are not comparable. Throws as Encoder::Load does when there are no such files.
std::string EncoderFingerprint(const std::string& model);

// An encoder with what it was made of.
struct NamedEncoder {
  std::shared_ptr<Encoder> encoder;  // null: none
  std::string name;                  // as it was asked for
  std::string fingerprint;

  explicit operator bool() const { return encoder != nullptr; }
  Encoder* operator->() const { return encoder.get(); }
};

}  // namespace banyan
