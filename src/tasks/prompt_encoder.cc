#include "tasks/prompt_encoder.h"

#include <algorithm>

namespace banyan {
namespace {

constexpr size_t kWorthJoining = 1024;  // bytes of context below which nothing is gained
constexpr size_t kTailBytes = 256;      // from the safe place to the context's end, at least
constexpr size_t kSearchBytes = 4096;   // how far back a safe place is looked for

size_t CommonPrefix(std::span<const TokenId> a, std::span<const TokenId> b) {
  const size_t most = std::min(a.size(), b.size());
  return static_cast<size_t>(
      std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(most), b.begin()).first -
      a.begin());
}

size_t CommonSuffix(std::span<const TokenId> a, std::span<const TokenId> b) {
  const size_t most = std::min(a.size(), b.size());
  size_t count = 0;
  while (count < most && a[a.size() - 1 - count] == b[b.size() - 1 - count]) ++count;
  return count;
}

bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Between a letter and a single space with a letter after it every pre-tokenizer cuts, whatever
// stands further left or right. The last such place in [begin, end), or npos.
size_t SafePlace(std::string_view text, size_t begin, size_t end) {
  for (size_t i = end; i > begin; --i) {
    const size_t at = i - 1;
    if (at == 0 || at + 1 >= text.size()) continue;
    if (text[at] == ' ' && IsLetter(text[at - 1]) && IsLetter(text[at + 1])) return at;
  }
  return std::string_view::npos;
}

std::vector<ChatText> PiecesOf(std::span<const PromptPart> parts) {
  std::vector<ChatText> pieces;
  for (const PromptPart& part : parts) pieces.push_back({std::string(part.text), part.from_user});
  return pieces;
}

std::string KeyOf(std::span<const PromptPart> parts) {
  std::string key;
  for (const PromptPart& part : parts) {
    key += part.from_user ? 'u' : 'c';
    key += std::to_string(part.text.size());
    key += ':';
    key += part.text;
  }
  return key;
}

size_t CountBelow(std::span<const PromptPart> parts, PromptLevel level) {
  return static_cast<size_t>(std::count_if(
      parts.begin(), parts.end(), [&](const PromptPart& part) { return part.level < level; }));
}

}  // namespace

PromptEncoder::PromptEncoder(std::shared_ptr<const Text> text, bool add_bos)
    : text_(std::move(text)) {
  if (!add_bos || !text_->bos()) return;
  const Tokens added = text_->Encode("", /*add_special=*/true, /*parse_special=*/true);
  if (!added.empty() && added.front() == *text_->bos()) bos_ = {added.front()};
}

PromptEncoder::Tokens PromptEncoder::EncodePieces(std::span<const ChatText> pieces,
                                                  bool from_start) const {
  Tokens tokens = text_->EncodeChat(pieces);
  if (from_start) tokens.insert(tokens.begin(), bos_.begin(), bos_.end());
  return tokens;
}

EncodedPrompt PromptEncoder::Encode(std::span<const PromptPart> parts) {
  const size_t prefix_parts = CountBelow(parts, PromptLevel::kQuestion);
  const std::string key = KeyOf(parts.first(prefix_parts));
  EncodedPrompt prompt;
  if (key == prefix_.text && !prefix_.whole.empty()) {
    if (!prefix_.can_join || !Join(PiecesOf(parts.subspan(prefix_parts)), prompt)) {
      prompt.tokens = EncodePieces(PiecesOf(parts), true);
      if (prefix_.tokens.empty()) {
        prefix_.tokens = EncodePieces(PiecesOf(parts.first(prefix_parts)), true);
      }
      prompt.record_end = CommonPrefix(prefix_.tokens, prompt.tokens);
    }
  } else {
    prefix_ = Prefix();
    prefix_.text = key;
    const std::vector<ChatText> pieces = PiecesOf(parts);
    prefix_.whole = EncodePieces(pieces, true);
    PrepareJoin(parts, pieces, prefix_parts);
    if (!prefix_.can_join || !Join(std::span(pieces).subspan(prefix_parts), prompt)) {
      prompt.tokens = prefix_.whole;
      prefix_.tokens = EncodePieces(std::span(pieces).first(prefix_parts), true);
      prompt.record_end = CommonPrefix(prefix_.tokens, prompt.tokens);
    }
  }
  prompt.shared_end = std::min(SharedEnd(parts, prompt.tokens), prompt.record_end);
  return prompt;
}

void PromptEncoder::PrepareJoin(std::span<const PromptPart> parts, std::span<const ChatText> pieces,
                                size_t prefix_pieces) {
  // The context: the longest part that the record's questions share.
  size_t longest = prefix_pieces;
  for (size_t i = 0; i < prefix_pieces; ++i) {
    if (parts[i].level != PromptLevel::kRecord || !parts[i].from_user) continue;
    if (longest == prefix_pieces || pieces[i].text.size() > pieces[longest].text.size()) {
      longest = i;
    }
  }
  if (longest == prefix_pieces || pieces[longest].text.size() < kWorthJoining) return;
  const std::string& context = pieces[longest].text;
  const size_t latest = context.size() - kTailBytes;
  const size_t earliest = latest - std::min(latest, kSearchBytes);
  const size_t place = SafePlace(context, earliest, latest);
  if (place == std::string::npos) return;
  // A second safe place behind the first: nothing that follows it can change the tokens before it.
  const size_t fence = SafePlace(context, place + kTailBytes / 4, context.size());
  if (fence == std::string::npos) return;

  prefix_.tail.push_back({context.substr(place), true});
  for (size_t i = longest + 1; i < prefix_pieces; ++i) prefix_.tail.push_back(pieces[i]);
  prefix_.tail_tokens = EncodePieces(prefix_.tail, false);
  std::vector<ChatText> first = prefix_.tail;
  first.insert(first.end(), pieces.begin() + static_cast<std::ptrdiff_t>(prefix_pieces),
               pieces.end());
  prefix_.first_tail = EncodePieces(first, false);
  const size_t agree = CommonSuffix(prefix_.whole, prefix_.first_tail);
  prefix_.agree_tail = prefix_.first_tail.size() - agree;
  prefix_.agree_whole = prefix_.whole.size() - agree;
  // They must agree from before the fence on: all but the very first tokens.
  const std::string before =
      text_->Decode(std::span(prefix_.first_tail).first(prefix_.agree_tail), false);
  prefix_.can_join = agree > 0 && before.size() + 8 < fence - place;
}

bool PromptEncoder::Join(std::span<const ChatText> suffix, EncodedPrompt& prompt) {
  std::vector<ChatText> pieces = prefix_.tail;
  pieces.insert(pieces.end(), suffix.begin(), suffix.end());
  const Tokens tail = EncodePieces(pieces, false);
  const size_t from = prefix_.agree_tail;
  const size_t shared = CommonPrefix(prefix_.tail_tokens, tail);
  if (CommonPrefix(prefix_.first_tail, tail) <= from || shared < from) return false;
  prompt.tokens.assign(prefix_.whole.begin(),
                       prefix_.whole.begin() + static_cast<std::ptrdiff_t>(prefix_.agree_whole));
  prompt.tokens.insert(prompt.tokens.end(), tail.begin() + static_cast<std::ptrdiff_t>(from),
                       tail.end());
  prompt.record_end = prefix_.agree_whole + (shared - from);
  ++joined_;
  return true;
}

size_t PromptEncoder::SharedEnd(std::span<const PromptPart> parts, const Tokens& tokens) {
  const std::span<const PromptPart> shared = parts.first(CountBelow(parts, PromptLevel::kRecord));
  const std::string key = KeyOf(shared);
  if (key != shared_text_ || shared_tokens_.empty()) {
    shared_text_ = key;
    shared_tokens_ = EncodePieces(PiecesOf(shared), true);
  }
  return CommonPrefix(shared_tokens_, tokens);
}

std::vector<TokenId> PromptEncoder::Continue(std::span<const PromptPart> parts,
                                             const EncodedPrompt& prompt, std::string_view text,
                                             size_t& kept) {
  std::vector<PromptPart> longer(parts.begin(), parts.end());
  longer.push_back({text, true, PromptLevel::kQuestion});
  const EncodedPrompt continued = Encode(longer);
  kept = CommonPrefix(prompt.tokens, continued.tokens);
  return continued.tokens;
}

}  // namespace banyan
