// Decoding: token spellings → text. Every decoder works on a stream of pieces, so that decoding a
// whole sequence and decoding token by token run the same code and give the same text.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "text/regex.h"
#include "text/tokenizer/pretokenizer.h"

namespace banyan {

using Pieces = std::vector<std::string>;

// The state of one decoder for one sequence.
class DecoderRun {
 public:
  virtual ~DecoderRun() = default;
  // Appends what no later piece can change.
  virtual void Push(std::string piece, Pieces& out) = 0;
  virtual void Finish(Pieces& out) = 0;
};

using DecoderStep = std::function<std::unique_ptr<DecoderRun>()>;

// A chain of decoders. Steps are told whether their input is still one piece per token or already
// one text that merely arrives in parts ("fused").
class Decoder {
 public:
  void Add(DecoderStep step) { steps_.push_back(std::move(step)); }
  void AddByteLevel();
  // Whether the text is just the tokens' bytes, with U+FFFD where they are ill-formed.
  bool only_byte_level() const { return byte_level_first_ && steps_.size() == 1; }
  const std::vector<DecoderStep>& steps() const { return steps_; }

 private:
  std::vector<DecoderStep> steps_;
  bool byte_level_first_ = false;
};

// The state of a chain for one sequence.
class DecoderChain {
 public:
  explicit DecoderChain(const Decoder& decoder);
  std::string Push(std::string piece);
  std::string Finish();

 private:
  std::string Through(size_t first, Pieces pieces);
  std::vector<std::unique_ptr<DecoderRun>> runs_;
};

// Steps that leave one text; what follows them must be built with fused = true.
DecoderStep ByteLevelDecoderStep();
DecoderStep FuseStep();

DecoderStep ByteFallbackStep(bool fused);
DecoderStep ReplaceStringDecoderStep(std::string pattern, std::string content, bool fused);
DecoderStep ReplaceRegexDecoderStep(std::shared_ptr<const Regex> pattern, std::string content,
                                    bool fused);
struct StripDecoderOptions {
  char32_t content = ' ';
  size_t start = 0;  // at most so many are stripped from the front
  size_t stop = 0;   // and from the end
};
DecoderStep StripDecoderStep(StripDecoderOptions options, bool fused);
DecoderStep MetaspaceDecoderStep(std::string replacement, PrependScheme prepend, bool fused);
DecoderStep WordPieceDecoderStep(std::string prefix, bool cleanup, bool fused);
DecoderStep BpeDecoderStep(std::string suffix, bool fused);
DecoderStep JoinWithSpacesStep();  // the default of the tokenizers library

}  // namespace banyan
