// banyan::Text: passes calls to the tokenizer and the chat template.
#include "text/text.h"

#include "banyan/text.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "base/json.h"
#include "text/chat_template.h"

namespace banyan {

Text::Text(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Text::~Text() = default;

std::shared_ptr<const Text> MakeText(std::shared_ptr<const Tokenizer> tokenizer) {
  auto parts = std::make_unique<Text::Parts>();
  if (!tokenizer->chat_template().empty()) {
    try {
      parts->chat_template.emplace(tokenizer->chat_template());
      parts->harmony = IsHarmonyTemplate(tokenizer->chat_template());
    } catch (const Error& e) {
      // Tokenization works without it; RenderChat reports the error.
      parts->chat_template_error = e.what();
    }
  }
  parts->tokenizer = std::move(tokenizer);
  return std::make_shared<const Text>(std::move(parts));
}

std::shared_ptr<const Text> Text::Load(const std::string& path) {
  return MakeText(Tokenizer::Load(path));
}

std::vector<TokenId> Text::Encode(std::string_view text, bool add_special,
                                  bool parse_special) const {
  EncodeOptions options;
  options.add_special = add_special;
  options.parse_special = parse_special;
  return parts_->tokenizer->Encode(text, options);
}

namespace {

template <typename Piece>
std::vector<Tokenizer::Piece> PlainPieces(std::span<const Piece> pieces) {
  std::vector<Tokenizer::Piece> plain;
  plain.reserve(pieces.size());
  for (const Piece& piece : pieces) plain.push_back({piece.text, piece.from_user});
  return plain;
}

}  // namespace

std::vector<TokenId> Text::EncodeChat(std::span<const ChatText> pieces, bool add_special) const {
  return parts_->tokenizer->EncodePieces(PlainPieces(pieces), add_special);
}

std::vector<TokenId> Text::EncodePieces(std::span<const TextPiece> pieces) const {
  return parts_->tokenizer->EncodePieces(PlainPieces(pieces));
}

std::vector<TokenId> Text::EncodeRest(std::span<const TextPiece> pieces) const {
  return parts_->tokenizer->EncodeRest(PlainPieces(pieces));
}

bool Text::allows_cuts_before_words() const { return parts_->tokenizer->AllowsCutsBeforeWords(); }

std::string Text::Decode(std::span<const TokenId> ids, bool skip_special) const {
  return parts_->tokenizer->Decode(ids, skip_special);
}

std::optional<TokenId> Text::Find(std::string_view token) const {
  return parts_->tokenizer->Find(token);
}
bool Text::IsSpecial(TokenId id) const { return parts_->tokenizer->IsSpecial(id); }
std::optional<TokenId> Text::bos() const { return parts_->tokenizer->special_tokens().bos; }
std::vector<TokenId> Text::end_tokens() const {
  return parts_->tokenizer->special_tokens().end_ids;
}
int Text::vocab_size() const { return static_cast<int>(parts_->tokenizer->vocab_size()); }

std::string Text::description() const {
  const Tokenizer& tokenizer = *parts_->tokenizer;
  return fmt::format("{} ({}), {} tokens", tokenizer.model_kind(), tokenizer.pre_name(),
                     tokenizer.vocab_size());
}

bool Text::has_chat_template() const { return parts_->chat_template.has_value(); }

std::vector<ChatText> Text::RenderChat(std::string_view messages_json, bool add_generation_prompt,
                                       std::string_view extra_json) const {
  if (!parts_->chat_template) {
    if (!parts_->chat_template_error.empty()) {
      Throw(ErrorKind::kUnsupported, "the model's chat template cannot be used: {}",
            parts_->chat_template_error);
    }
    Throw(ErrorKind::kUnsupported, "the tokenizer's files have no chat template");
  }
  const auto parse = [](std::string_view text, const char* what) {
    try {
      return OrderedJson::parse(text);
    } catch (const OrderedJson::exception& e) {
      Throw(ErrorKind::kInput, "{}: not valid JSON: {}", what, e.what());
    }
  };
  ChatOptions options;
  options.add_generation_prompt = add_generation_prompt;
  if (!extra_json.empty()) options.extra = parse(extra_json, "template options");
  options.bos_token = parts_->tokenizer->bos_text();
  options.eos_token = parts_->tokenizer->eos_text();
  std::vector<ChatText> result;
  for (ChatPiece& piece :
       parts_->chat_template->RenderPieces(parse(messages_json, "messages"), options)) {
    result.push_back({std::move(piece.text), piece.from_user});
  }
  return result;
}

std::string_view Text::answer_opening() const { return parts_->harmony ? kHarmonyAnswer : ""; }

std::optional<Text::Said> Text::SplitChannels(std::span<const TokenId> written) const {
  if (!parts_->harmony) return std::nullopt;
  // Models with padded vocabularies may choose ids that the tokenizer does not have.
  std::vector<TokenId> known;
  std::ranges::copy_if(written, std::back_inserter(known),
                       [&](TokenId token) { return token >= 0 && token < vocab_size(); });
  HarmonyText split = SplitHarmony(Decode(known, /*skip_special=*/false));
  if (!split.in_channels) return std::nullopt;
  return Said{std::move(split.answer), std::move(split.thinking)};
}

}  // namespace banyan
