#include "tasks/rag/rag_prompt.h"

#include <optional>

namespace banyan {
namespace {

AskOptions WriterOptions(const RagOptions& options, const std::string& instruction) {
  AskOptions writer;
  writer.instruction = instruction;
  writer.chat = options.chat;
  return writer;
}

}  // namespace

RagPrompt::RagPrompt(std::shared_ptr<const Text> text, const RagOptions& options,
                     const std::string& instruction)
    : text_(text), instruction_(instruction), writer_(text, WriterOptions(options, instruction)) {
  if (writer_.uses_chat() || !text_->bos()) return;
  const std::vector<TokenId> added = text_->Encode("", /*add_special=*/true, true);
  if (!added.empty() && added.front() == *text_->bos()) bos_ = {added.front()};
}

std::vector<TokenId> RagPrompt::TokensOf(const std::vector<PromptPart>& parts,
                                         PromptLevel level) const {
  std::vector<TextPiece> pieces;
  for (const PromptPart& part : parts) {
    if (part.level == level) pieces.push_back({part.text, part.from_user});
  }
  if (pieces.empty()) return {};
  return level == PromptLevel::kShared ? text_->EncodePieces(pieces) : text_->EncodeRest(pieces);
}

RagSegments RagPrompt::Encode(std::string_view document, const std::string& question) const {
  // Where there is no document, what stands between the system prompt and the question is the
  // question's, as with one.
  const std::string_view shown = document.empty() ? "-" : document;
  const std::vector<PromptPart> parts =
      writer_.Write([&](const std::string& name) -> std::optional<PromptVariable> {
        if (name == "context") return PromptVariable{shown, PromptLevel::kRecord};
        if (name == "question") return PromptVariable{question, PromptLevel::kQuestion};
        if (name == "instruction") return PromptVariable{instruction_, PromptLevel::kShared};
        return std::nullopt;
      });
  RagSegments segments;
  segments.system = bos_;
  const std::vector<TokenId> system = TokensOf(parts, PromptLevel::kShared);
  segments.system.insert(segments.system.end(), system.begin(), system.end());
  if (!document.empty()) segments.document = TokensOf(parts, PromptLevel::kRecord);
  segments.question = TokensOf(parts, PromptLevel::kQuestion);
  return segments;
}

}  // namespace banyan
