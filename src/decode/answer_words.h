// The words of a growing answer: whether a token goes on with the word, the number, the date or the
// name that the answer ends with. Words are what stands between white space. Several of them are
// one unit where a word follows
//   a number                      "3 crates", "12 kg", "2 april", "4 PM"
//   a capital, and has one too    "Anna Berg", "April 2018", "Gate B", "LMB-K 402"
//   a unit with a number in it,
//   and begins with a digit       "2 april 2018"
// but not over the end of a line or after one of ; : ! ?, nor after a comma, unless digits stand
// before and after it ("April 2, 2018").
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/types.h"
#include "text/tokenizer/tokenizer.h"

namespace banyan {

enum class WordSign : std::uint8_t {
  kNone,
  kCapital,
  kLetter,
  kDigit,
  kMark,
  kPart,  // of a character: may be any of them
};

// Which tokens go on with an answer's last unit.
struct UnitEnd {
  bool inside = false;  // the answer ends with a character that is no white space
  // What may follow after white space.
  bool capital = false, letter = false, digit = false;

  bool operator==(const UnitEnd&) const = default;
};

// How the tokens of a vocabulary begin. Not thread-safe.
class WordTokens {
 public:
  explicit WordTokens(std::shared_ptr<const Tokenizer> tokenizer);

  // Tokens without text (ends, control tokens) and white space alone never go on.
  bool GoesOn(const UnitEnd& end, TokenId token) const;
  // Whether the token has a character that is no white space.
  bool Begins(TokenId token) const;
  // A bit for every token that does not go on, set; kept.
  std::span<const std::uint32_t> Others(const UnitEnd& end);
  // The bytes that a token adds to an answer.
  std::string BytesOf(TokenId token) const;

 private:
  enum class Space : std::uint8_t { kNone, kBlank, kNewline };
  struct Beginning {
    Space space = Space::kNone;
    WordSign sign = WordSign::kNone;  // of the first character that is no white space
  };
  bool GoesOn(const UnitEnd& end, const Beginning& beginning) const;

  std::shared_ptr<const Tokenizer> tokenizer_;
  std::vector<Beginning> beginnings_;                  // [tokens]
  std::array<std::vector<std::uint32_t>, 16> others_;  // by UnitEnd; empty: not made
};

// The end of one answer, token by token.
class AnswerWords {
 public:
  void Push(std::string_view bytes);
  const UnitEnd& end() const { return end_; }

 private:
  void Add(char32_t code);
  // What may follow the word after white space.
  UnitEnd AfterWord() const;

  UnitEnd end_;
  std::string unfinished_;  // the first bytes of a character
  bool in_word_ = false;
  // Of the last word: its first letter or digit, its last character, whether it has a digit.
  WordSign first_ = WordSign::kNone;
  char32_t last_ = 0;
  bool digits_ = false;
  bool unit_digits_ = false;  // the unit has a digit
};

}  // namespace banyan
