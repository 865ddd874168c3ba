// The prompts of `rag` in segments: system ‖ document ‖ question, each tokenised for itself, so
// that a document's tokens (and its KV) do not depend on what is asked of it.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/rag.h"
#include "banyan/text.h"
#include "tasks/prompt/prompt.h"

namespace banyan {

struct RagSegments {
  std::vector<TokenId> system, document, question;

  size_t size() const { return system.size() + document.size() + question.size(); }
};

class RagPrompt {
 public:
  RagPrompt(std::shared_ptr<const Text> text, const RagOptions& options,
            const std::string& instruction);

  // With an empty document: system and question alone.
  RagSegments Encode(std::string_view document, const std::string& question) const;
  bool uses_chat() const { return writer_.uses_chat(); }
  std::string_view answer_separator() const { return writer_.answer_separator(); }

 private:
  std::vector<TokenId> TokensOf(const std::vector<PromptPart>& parts, PromptLevel level) const;

  std::shared_ptr<const Text> text_;
  std::string instruction_;
  PromptWriter writer_;
  std::vector<TokenId> bos_;  // the token that begins a prompt without a chat; empty: none
};

}  // namespace banyan
