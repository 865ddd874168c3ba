// A constraint as a syntax tree: a regular expression over characters, and the sets of characters
// in it. regex_parser.h and json_schema.h build it, automaton.h compiles it. Nodes are immutable
// and may be shared.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace banyan {

inline constexpr char32_t kLastCharacter = 0x10FFFF;

struct CharacterRange {
  char32_t first = 0;
  char32_t last = 0;  // inclusive
  bool operator==(const CharacterRange&) const = default;
};

// Unicode characters (scalar values: no surrogates), as ranges.
class CharacterSet {
 public:
  CharacterSet() = default;
  // Any order, overlaps allowed; surrogates are dropped.
  CharacterSet(std::vector<CharacterRange> ranges);  // NOLINT(google-explicit-constructor)
  static CharacterSet Of(char32_t character) { return CharacterSet({{character, character}}); }
  static CharacterSet All() { return CharacterSet({{0, kLastCharacter}}); }

  // Ascending, disjoint, no two that touch except around the surrogates.
  const std::vector<CharacterRange>& ranges() const { return ranges_; }
  bool empty() const { return ranges_.empty(); }
  bool Contains(char32_t character) const;

  CharacterSet Complement() const;
  CharacterSet Union(const CharacterSet& other) const;
  CharacterSet Intersection(const CharacterSet& other) const;
  bool operator==(const CharacterSet&) const = default;

 private:
  std::vector<CharacterRange> ranges_;
};

struct ByteRange {
  std::uint8_t low = 0;
  std::uint8_t high = 0;  // inclusive
  bool operator==(const ByteRange&) const = default;
};

// Stands for every text of `length` bytes whose byte i lies in bytes[i].
struct Utf8Sequence {
  std::array<ByteRange, 4> bytes{};
  int length = 0;
};

// The UTF-8 of exactly the characters of `set`, each by one sequence.
std::vector<Utf8Sequence> Utf8Sequences(const CharacterSet& set);

// A text that spans are copied from. A span begins where a word, a number or a sign begins and ends
// where one ends; a number is not cut at its points, commas, colons and slashes. A run of white
// space is one space.
struct SpanSource {
  static constexpr int kBreak = -1;   // no span crosses it
  std::vector<int> bytes;             // kBreak ends every run of text
  std::vector<bool> ends;             // [bytes + 1] a span may end before byte p
  std::vector<std::uint32_t> starts;  // ascending
};

// No span contains a control character or a character with a byte of `without`.
std::shared_ptr<const SpanSource> MakeSpanSource(std::string_view text,
                                                 const std::bitset<256>& without);

struct Expression;
using ExpressionPtr = std::shared_ptr<const Expression>;

inline constexpr std::int64_t kUnbounded = std::numeric_limits<std::int64_t>::max();

// How a span is written.
enum class SpanForm {
  kPlain,
  kJson,  // as inside a JSON string: quotes and backslashes escaped, without the string's quotes
};

struct Expression {
  enum class Kind {
    kNever,     // no text at all
    kNothing,   // the empty text
    kClass,     // one character of `set`
    kSequence,  // `parts` one after another
    kChoice,    // one of `parts`
    kRepeat,    // parts[0], from `least` to `most` times
    kList,      // parts[1 …], each at most once and in order, parts[0] between any two; those
                // with required[i] (of parts[i]) at least once
    kSpan,      // a span of `source`
    kJoined,    // parts[0] once or more, with parts[1] between any two
  };
  Kind kind = Kind::kNever;
  CharacterSet set;
  std::vector<ExpressionPtr> parts;
  std::vector<bool> required;
  std::shared_ptr<const SpanSource> source;
  SpanForm form = SpanForm::kPlain;
  std::int64_t least = 0, most = 0;        // kUnbounded: no end
  std::int64_t shortest = 0, longest = 0;  // bounds of a text's length in characters
};

// Constructors. They drop alternatives that match nothing (kNever) and empty parts (kNothing), so
// that a tree either is one kNever node or has none, and every node but kNothing adds at least one
// state to the automaton.
ExpressionPtr Never();
ExpressionPtr Nothing();
ExpressionPtr OneOf(CharacterSet set);
ExpressionPtr Literal(std::string_view utf8);  // REQUIRES: well-formed
ExpressionPtr Sequence(std::vector<ExpressionPtr> parts);
ExpressionPtr Choice(std::vector<ExpressionPtr> parts);
ExpressionPtr Repeat(ExpressionPtr part, std::int64_t least, std::int64_t most);

// kNever for a source without a span.
ExpressionPtr SpanOf(std::shared_ptr<const SpanSource> source, SpanForm form);
// The states of `part` stand once, however often it comes.
ExpressionPtr Joined(ExpressionPtr part, ExpressionPtr separator);

struct ListItem {
  ExpressionPtr value;
  bool required = true;
};
ExpressionPtr List(ExpressionPtr separator, std::vector<ListItem> items);

}  // namespace banyan
