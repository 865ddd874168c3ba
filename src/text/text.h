// What is behind banyan::Text: a tokenizer and the chat template of its files.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "banyan/text.h"
#include "text/chat_template.h"
#include "text/tokenizer/tokenizer.h"

namespace banyan {

struct Text::Parts {
  std::shared_ptr<const Tokenizer> tokenizer;
  std::optional<ChatTemplate> chat_template;  // nothing: the files have none
  std::string chat_template_error;            // why it cannot be used, when it has one
  bool harmony = false;                       // the template writes in channels
};

// The text side of a tokenizer, with its chat template parsed.
std::shared_ptr<const Text> MakeText(std::shared_ptr<const Tokenizer> tokenizer);

}  // namespace banyan
