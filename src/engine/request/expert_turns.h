// Which experts of a panel may say the next token of an answer, where that depends on what was said
// (banyan/request.h: SwitchRule::kWord). A function of the answer's tokens and of the experts that
// said them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "decode/answer_words.h"
#include "engine/request/request_tree.h"

namespace banyan {

// Whether `text` has `words` from where a word, a number or a sign begins.
bool HasFromWord(std::string_view text, std::string_view words);

class ExpertTurns {
 public:
  // `panel` must outlive this object.
  ExpertTurns(const RequestPanel& panel, std::shared_ptr<WordTokens> words);

  // Experts that may vote, rising, as the panel counts them (from 0; without a prior, the answer's
  // own segment is the first). At the first token: all.
  std::span<const std::int32_t> voters() const { return voters_; }
  // The expert that has begun the unit with which the answer ends; none: there is no such unit, or
  // experts have texts of their own.
  std::optional<std::int32_t> owner() const { return owner_; }
  bool GoesOn(TokenId token) const { return words_->GoesOn(text_.end(), token); }
  // A bit for every token that does not go on with the owner's unit.
  std::span<const std::uint32_t> OtherTokens() { return words_->Others(text_.end()); }

  // `expert` won this token. Returns the expert whose token it is: of those whose own texts have
  // it, the winner or else the most relevant one.
  std::int32_t Take(TokenId token, std::int32_t expert);

 private:
  std::string_view OwnText(std::int32_t expert) const;
  double RelevanceOf(std::int32_t expert) const;
  void TakeTurn(TokenId token, std::int32_t expert, std::string_view bytes);
  std::vector<std::int32_t> ThoseWhoHave(std::string_view said) const;

  const RequestPanel& panel_;
  const std::int32_t unnamed_;  // 1: the answer's own segment is an expert
  bool own_ = false;            // experts have texts of their own
  std::shared_ptr<WordTokens> words_;
  AnswerWords text_;
  std::string said_;  // since the last "; "
  std::optional<std::int32_t> owner_;
  std::vector<std::int32_t> all_, voters_;
};

}  // namespace banyan
