// Text ↔ tokens and chat templates, without a model.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/types.h"

namespace banyan {

// A stretch of a rendered chat: what the template wrote, or what came out of a message.
struct ChatText {
  std::string text;
  bool from_user = false;  // plain text: control tokens spelled in it are not control tokens
};

// The same by reference.
struct TextPiece {
  std::string_view text;
  bool from_user = false;
};

// Immutable; safe to use from many threads at once.
class Text {
 public:
  // A GGUF file, a tokenizer.json, or a directory that holds one.
  static std::shared_ptr<const Text> Load(const std::string& path);
  ~Text();

  // parse_special: control tokens spelled in the text become their ids. Use false for everything
  // that a user or a document wrote. add_special: BOS and the like, as the tokenizer's file says.
  std::vector<TokenId> Encode(std::string_view text, bool add_special, bool parse_special) const;
  // A rendered chat (or any prompt in pieces) as tokens: control tokens only where the template
  // wrote them, text between them tokenised as one run across pieces.
  std::vector<TokenId> EncodeChat(std::span<const ChatText> pieces, bool add_special = false) const;
  std::vector<TokenId> EncodePieces(std::span<const TextPiece> pieces) const;
  // Whether text may be cut between a letter and a space with a letter after it: the tokens of
  // pieces up to such a place inside a user's piece, and EncodeRest of what follows, are those of
  // all the pieces at once.
  bool allows_cuts_before_words() const;
  std::vector<TokenId> EncodeRest(std::span<const TextPiece> pieces) const;
  std::string Decode(std::span<const TokenId> ids, bool skip_special) const;
  std::optional<TokenId> Find(std::string_view token) const;
  bool IsSpecial(TokenId id) const;
  std::optional<TokenId> bos() const;
  std::vector<TokenId> end_tokens() const;
  int vocab_size() const;
  std::string description() const;  // "BPE (qwen2), 151669 tokens"

  bool has_chat_template() const;
  // `messages_json`: an array of {"role", "content", …}; `extra_json`: an object with the
  // template's options (enable_thinking, tools …), or empty. Throws kUnsupported without a
  // template, kInput when the template refuses the messages.
  std::vector<ChatText> RenderChat(std::string_view messages_json, bool add_generation_prompt,
                                   std::string_view extra_json) const;
  // What a rendered chat lacks for the model to begin with the answer itself, where it would write
  // its thoughts in a channel of their own first (Harmony). Control text; empty for most models.
  std::string_view answer_opening() const;
  struct Said {
    std::string answer, thinking;
  };
  // What a model wrote after a chat that ended without the opening. Nothing where the model writes
  // in no channels.
  std::optional<Said> SplitChannels(std::span<const TokenId> written) const;

  struct Parts;
  const Parts& parts() const { return *parts_; }
  explicit Text(std::unique_ptr<Parts> parts);

 private:
  std::unique_ptr<Parts> parts_;
};

}  // namespace banyan
