// Tokenises a prompt after the last safe cut of the part that is already known.
#include "tasks/prompt/prompt_encoder.h"

#include <algorithm>

#include "base/work_budget.h"
#include "text/unicode.h"

namespace banyan {
namespace {

size_t CommonPrefixLength(std::span<const TokenId> a, std::span<const TokenId> b) {
  const size_t most = std::min(a.size(), b.size());
  return static_cast<size_t>(
      std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(most), b.begin()).first -
      a.begin());
}

// The last place where words may be cut (Text::allows_cuts_before_words), or npos.
size_t LastCut(std::string_view text) {
  for (size_t at = text.size(); at-- > 1;) {
    if (text[at] == ' ' && IsCutBeforeWord(text, at)) return at;
  }
  return std::string_view::npos;
}

template <typename Part>
std::vector<TextPiece> PiecesOf(std::span<const ChatText> first, std::span<const Part> second) {
  std::vector<TextPiece> pieces;
  pieces.reserve(first.size() + second.size());
  for (const ChatText& piece : first) pieces.push_back({piece.text, piece.from_user});
  for (const Part& part : second) pieces.push_back({part.text, part.from_user});
  return pieces;
}

bool SameTexts(std::span<const ChatText> known, std::span<const PromptPart> parts) {
  return std::ranges::equal(known, parts, [](const ChatText& a, const PromptPart& b) {
    return a.from_user == b.from_user && a.text == b.text;
  });
}

void Append(std::vector<TokenId>& tokens, std::span<const TokenId> more) {
  tokens.insert(tokens.end(), more.begin(), more.end());
}

size_t CountBelow(std::span<const PromptPart> parts, PromptLevel level) {
  return static_cast<size_t>(std::count_if(
      parts.begin(), parts.end(), [&](const PromptPart& part) { return part.level < level; }));
}

}  // namespace

PromptEncoder::PromptEncoder(std::shared_ptr<const Text> text, bool add_bos)
    : text_(std::move(text)), allows_cuts_(text_->allows_cuts_before_words()) {
  start_.known = true;
  if (!add_bos || !text_->bos()) return;
  const Tokens added = text_->Encode("", /*add_special=*/true, /*parse_special=*/true);
  if (!added.empty() && added.front() == *text_->bos()) start_.tokens = {added.front()};
  start_.head = start_.tokens.size();
}

PromptEncoder::Tokens PromptEncoder::EncodePieces(std::span<const TextPiece> pieces, bool rest) {
  CheckBudget();
  for (const TextPiece& piece : pieces) {
    encoded_bytes_ += static_cast<std::int64_t>(piece.text.size());
  }
  return rest ? text_->EncodeRest(pieces) : text_->EncodePieces(pieces);
}

// Makes `beginning` the one of these parts: `above`, and the parts of the level below it.
void PromptEncoder::Update(std::span<const PromptPart> parts, const Beginning& above,
                           Beginning& beginning) {
  if (beginning.known && SameTexts(beginning.own, parts)) return;
  beginning = Beginning();
  beginning.known = true;
  // Copies of the texts: a template may name a long document many times.
  constexpr size_t kMuch = 1 << 20;
  size_t bytes = 0;
  for (const PromptPart& part : parts) bytes += part.text.size();
  if (bytes > kMuch) ChargeBudget(2 * bytes);
  for (const PromptPart& part : parts) {
    CheckBudget();
    beginning.own.push_back({std::string(part.text), part.from_user});
  }
  std::vector<TextPiece> pieces = PiecesOf(above.tail, parts);
  beginning.tokens.assign(above.tokens.begin(),
                          above.tokens.begin() + static_cast<std::ptrdiff_t>(above.head));
  beginning.cut = above.cut;
  for (size_t i = allows_cuts_ ? pieces.size() : 0; i-- > 0;) {
    if (!pieces[i].from_user) continue;
    const size_t place = LastCut(pieces[i].text);
    if (place == std::string_view::npos) continue;
    const TextPiece whole = pieces[i];
    pieces[i].text = whole.text.substr(0, place);
    Append(beginning.tokens, EncodePieces(std::span(pieces).first(i + 1), beginning.cut));
    pieces[i].text = whole.text.substr(place);
    pieces.erase(pieces.begin(), pieces.begin() + static_cast<std::ptrdiff_t>(i));
    beginning.cut = true;
    break;
  }
  beginning.head = beginning.tokens.size();
  for (const TextPiece& piece : pieces) {
    ChargeBudget(piece.text.size());
    beginning.tail.push_back({std::string(piece.text), piece.from_user});
  }
  Append(beginning.tokens, EncodePieces(pieces, beginning.cut));
}

EncodedPrompt PromptEncoder::Encode(std::span<const PromptPart> parts) {
  const size_t shared_parts = CountBelow(parts, PromptLevel::kRecord);
  const size_t prefix_parts = CountBelow(parts, PromptLevel::kQuestion);
  const std::span<const PromptPart> shared = parts.first(shared_parts);
  if (!shared_.known || !SameTexts(shared_.own, shared)) record_ = Beginning();
  Update(shared, start_, shared_);
  Update(parts.subspan(shared_parts, prefix_parts - shared_parts), shared_, record_);

  EncodedPrompt prompt;
  const size_t head = record_.head;
  const Tokens rest =
      EncodePieces(PiecesOf(record_.tail, parts.subspan(prefix_parts)), record_.cut);
  prompt.tokens.reserve(head + rest.size());
  prompt.tokens.assign(record_.tokens.begin(),
                       record_.tokens.begin() + static_cast<std::ptrdiff_t>(head));
  Append(prompt.tokens, rest);
  prompt.record_end = head + CommonPrefixLength(std::span(record_.tokens).subspan(head), rest);
  const size_t shared_head = shared_.head;  // the prompt begins with these tokens
  prompt.shared_end =
      shared_head + CommonPrefixLength(std::span(shared_.tokens).subspan(shared_head),
                                       std::span(prompt.tokens).subspan(shared_head));
  prompt.shared_end = std::min(prompt.shared_end, prompt.record_end);
  return prompt;
}

std::vector<TokenId> PromptEncoder::Continue(std::span<const PromptPart> parts,
                                             const EncodedPrompt& prompt, std::string_view text,
                                             size_t& kept) {
  std::vector<PromptPart> longer(parts.begin(), parts.end());
  longer.push_back({text, true, PromptLevel::kQuestion});
  const EncodedPrompt continued = Encode(longer);
  kept = CommonPrefixLength(prompt.tokens, continued.tokens);
  return continued.tokens;
}

}  // namespace banyan
