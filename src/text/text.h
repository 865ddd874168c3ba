// The implementation of banyan::Text: a tokenizer and the chat template of its files.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "banyan/text.h"
#include "text/chat_template.h"
#include "text/tokenizer/tokenizer.h"

namespace banyan {

class TokenTrie;

struct Text::Parts {
  std::shared_ptr<const Tokenizer> tokenizer;
  std::optional<ChatTemplate> chat_template;  // nullopt: the files have none, or it cannot be used
  std::string chat_template_error;            // why it cannot be used
  bool harmony = false;                       // the template has channels
  // What MakeTokenTrie keeps here: whoever asks first makes it.
  mutable std::once_flag trie_made;
  mutable std::shared_ptr<const TokenTrie> trie;
};

// A tokenizer with its chat template parsed.
std::shared_ptr<const Text> MakeText(std::shared_ptr<const Tokenizer> tokenizer);

}  // namespace banyan
