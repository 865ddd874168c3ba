#include "engine/request/expert_turns.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace banyan {
namespace {

constexpr std::string_view kSeparator = "; ";

bool IsWordByte(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x80 || (byte >= '0' && byte <= '9') || (byte >= 'A' && byte <= 'Z') ||
         (byte >= 'a' && byte <= 'z');
}

}  // namespace

bool HasFromWord(std::string_view text, std::string_view words) {
  if (words.empty()) return true;
  for (size_t at = text.find(words); at != std::string_view::npos; at = text.find(words, at + 1)) {
    if (at == 0 || !IsWordByte(text[at]) || !IsWordByte(text[at - 1])) return true;
  }
  return false;
}

ExpertTurns::ExpertTurns(const RequestPanel& panel, std::shared_ptr<WordTokens> words)
    : panel_(panel), unnamed_(panel.options.prior ? 0 : 1), words_(std::move(words)) {
  own_ = std::ranges::any_of(panel.experts, [](const auto& one) { return !one.own_text.empty(); });
  all_.resize(panel.experts.size() + static_cast<size_t>(unnamed_));
  std::iota(all_.begin(), all_.end(), 0);
  voters_ = all_;
}

std::string_view ExpertTurns::OwnText(std::int32_t expert) const {
  return expert < unnamed_ ? std::string_view()
                           : panel_.experts[static_cast<size_t>(expert - unnamed_)].own_text;
}

double ExpertTurns::RelevanceOf(std::int32_t expert) const {
  return expert < unnamed_ ? 1.0 : panel_.experts[static_cast<size_t>(expert - unnamed_)].relevance;
}

std::int32_t ExpertTurns::Take(TokenId token, std::int32_t expert) {
  const std::string bytes = words_->BytesOf(token);
  if (!own_) {
    TakeTurn(token, expert, bytes);
    return expert;
  }
  said_ += bytes;
  const size_t separator = said_.rfind(kSeparator);
  if (separator != std::string::npos) said_.erase(0, separator + kSeparator.size());
  std::string_view said = said_;
  while (!said.empty() && said.front() == ' ') said.remove_prefix(1);
  voters_ = said.ends_with(';') ? all_ : ThoseWhoHave(said);
  if (std::ranges::binary_search(voters_, expert)) return expert;
  return *std::ranges::max_element(voters_, {}, [&](std::int32_t one) { return RelevanceOf(one); });
}

std::vector<std::int32_t> ExpertTurns::ThoseWhoHave(std::string_view said) const {
  std::vector<std::int32_t> found;
  for (const std::int32_t expert : all_) {
    const std::string_view own = OwnText(expert);
    if (own.empty() || HasFromWord(own, said)) found.push_back(expert);
  }
  return found.empty() ? all_ : found;
}

void ExpertTurns::TakeTurn(TokenId token, std::int32_t expert, std::string_view bytes) {
  text_.Push(bytes);
  // White space alone begins nothing: what follows may still go on with the unit before it.
  if (words_->Begins(token) || !owner_) owner_ = expert;
  const UnitEnd& end = text_.end();
  if (!end.inside && !end.capital && !end.letter && !end.digit) owner_.reset();
}

}  // namespace banyan
