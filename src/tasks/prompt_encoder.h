// Prompts → tokens, cut into the segments that questions share. The tokens are exactly those of the
// whole prompt tokenised at once; a token across a boundary belongs to the later segment. The
// context of many questions is tokenised once: for each further question only its last few hundred
// bytes are, and joined where the tokens agree.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "banyan/text.h"
#include "tasks/prompt.h"

namespace banyan {

struct EncodedPrompt {
  std::vector<TokenId> tokens;
  size_t shared_end = 0;  // tokens [0, shared_end) are the instruction's
  size_t record_end = 0;  // tokens [shared_end, record_end) are the context's
};

class PromptEncoder {
 public:
  // add_bos: begin with BOS where the tokenizer does so by itself (prompts without a chat
  // template).
  PromptEncoder(std::shared_ptr<const Text> text, bool add_bos);

  // Prompts whose parts before the question are equal profit from following one another.
  EncodedPrompt Encode(std::span<const PromptPart> parts);
  // The prompt's tokens and those of `text` after it. The first `kept` tokens are the prompt's own;
  // fewer than all where its last ones merge with the text.
  std::vector<TokenId> Continue(std::span<const PromptPart> parts, const EncodedPrompt& prompt,
                                std::string_view text, size_t& kept);

  // How often the join was used, for tests.
  std::int64_t joined() const { return joined_; }

 private:
  using Tokens = std::vector<TokenId>;
  // A record's prefix: what its questions have in common.
  struct Prefix {
    std::string text;  // of all parts before the question, to know it again
    Tokens tokens;     // of the prefix alone; empty when the join is used
    Tokens whole;      // of the first question's prompt
    // The join: tokens of the prefix's last bytes, from a safe place on.
    bool can_join = false;
    std::vector<ChatText> tail;  // pieces from the safe place to the prefix's end
    Tokens tail_tokens;          // of the tail alone
    Tokens first_tail;           // of the tail with the first question
    size_t agree_tail = 0;       // from here on first_tail equals …
    size_t agree_whole = 0;      // … whole from here on
  };

  Tokens EncodePieces(std::span<const ChatText> pieces, bool from_start) const;
  void PrepareJoin(std::span<const PromptPart> parts, std::span<const ChatText> pieces,
                   size_t prefix_pieces);
  bool Join(std::span<const ChatText> suffix, EncodedPrompt& prompt);
  size_t SharedEnd(std::span<const PromptPart> parts, const Tokens& tokens);

  std::shared_ptr<const Text> text_;
  Tokens bos_;
  Prefix prefix_;
  std::string shared_text_;
  Tokens shared_tokens_;
  std::int64_t joined_ = 0;
};

}  // namespace banyan
