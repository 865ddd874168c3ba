// Prompts → tokens, cut into the segments that questions share. The tokens are exactly those of the
// whole prompt tokenised at once; a token across a boundary belongs to the later segment. What many
// prompts begin with is tokenised once: for each further question only it and the few words before
// it are (Text::allows_cuts_before_words; the few tokenizers that do not allow it see each prompt
// as a whole).
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "banyan/text.h"
#include "tasks/prompt/prompt.h"

namespace banyan {

// The longest tokens, runs of spaces, have 128 bytes in the vocabularies of the supported families.
inline constexpr size_t kMostBytesOfToken = 256;

struct EncodedPrompt {
  std::vector<TokenId> tokens;
  size_t shared_end = 0;  // tokens [0, shared_end) are the instruction's
  size_t record_end = 0;  // tokens [shared_end, record_end) are the context's
};

// Not safe to use from several threads at once; several encoders of one Text are.
class PromptEncoder {
 public:
  // add_bos: begin with BOS where the tokenizer does so by itself (prompts without a chat
  // template).
  PromptEncoder(std::shared_ptr<const Text> text, bool add_bos);

  // Fastest when prompts with equal parts before the question follow one another.
  EncodedPrompt Encode(std::span<const PromptPart> parts);
  // The prompt's tokens and those of `text` after it. The first `kept` tokens are the prompt's own;
  // fewer than all where its last ones merge with the text.
  std::vector<TokenId> Continue(std::span<const PromptPart> parts, const EncodedPrompt& prompt,
                                std::string_view text, size_t& kept);

  // Bytes given to the tokenizer so far.
  std::int64_t encoded_bytes() const { return encoded_bytes_; }

 private:
  using Tokens = std::vector<TokenId>;
  // What some prompts begin with: of a job the instruction, of a record that and the context.
  struct Beginning {
    bool known = false;
    std::vector<ChatText> own;   // its parts after those of the beginning above, to compare
    std::vector<ChatText> tail;  // its end, from the last place where the tokenizer surely cuts
    Tokens tokens;               // of all of it, as if nothing followed; from `head` on the tail's
    size_t head = 0;
    bool cut = false;  // the tail does not begin where the prompt does
  };

  void Update(std::span<const PromptPart> parts, const Beginning& above, Beginning& beginning);
  Tokens EncodePieces(std::span<const TextPiece> pieces, bool rest);

  std::shared_ptr<const Text> text_;
  bool allows_cuts_ = false;
  Beginning start_;   // of every prompt: nothing but BOS
  Beginning shared_;  // the parts of PromptLevel::kShared
  Beginning record_;  // … and kRecord
  std::int64_t encoded_bytes_ = 0;
};

// Encoders for several threads: each takes one for as long as it works on a record, so that what an
// encoder remembers of the record's context serves all its questions.
class EncoderPool {
 public:
  EncoderPool(std::shared_ptr<const Text> text, bool add_bos)
      : text_(std::move(text)), add_bos_(add_bos) {}

  class Lease {
   public:
    Lease(EncoderPool& pool, std::unique_ptr<PromptEncoder> encoder)
        : pool_(pool), encoder_(std::move(encoder)) {}
    ~Lease() {
      const std::lock_guard lock(pool_.mutex_);
      pool_.free_.push_back(std::move(encoder_));
    }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    PromptEncoder* get() const { return encoder_.get(); }

   private:
    EncoderPool& pool_;
    std::unique_ptr<PromptEncoder> encoder_;
  };

  Lease Take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return {*this, std::make_unique<PromptEncoder>(text_, add_bos_)};
    std::unique_ptr<PromptEncoder> encoder = std::move(free_.back());
    free_.pop_back();
    return {*this, std::move(encoder)};
  }

 private:
  std::shared_ptr<const Text> text_;
  const bool add_bos_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<PromptEncoder>> free_;
};

}  // namespace banyan
