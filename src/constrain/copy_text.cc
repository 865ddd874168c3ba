#include "constrain/copy_text.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/error.h"
#include "constrain/nfa.h"
#include "text/utf8.h"

namespace banyan {
namespace {

bool IsSpace(int byte) { return byte == ' ' || (byte >= '\t' && byte <= '\r'); }
bool IsDigit(int byte) { return byte >= '0' && byte <= '9'; }
bool IsWord(int byte) {
  const int letter = byte | 0x20;
  return IsDigit(byte) || (letter >= 'a' && letter <= 'z' && byte < 0x80) || byte >= 0x80;
}
bool JoinsDigits(int byte) { return byte == '.' || byte == ',' || byte == ':' || byte == '/'; }

// A source while it is read.
struct SourceText : SpanSource {
  int at(size_t p) const { return p < bytes.size() ? bytes[p] : kBreak; }

  // Between bytes p - 1 and p, inside a text.
  bool IsBoundary(size_t p) const {
    const int before = p == 0 ? kBreak : at(p - 1), after = at(p);
    if (before == kBreak || after == kBreak) return true;
    if (IsDigit(before) && JoinsDigits(after) && IsDigit(at(p + 1))) return false;
    if (JoinsDigits(before) && IsDigit(after) && p >= 2 && IsDigit(at(p - 2))) return false;
    return !(IsWord(before) && IsWord(after));
  }

  void AddBreak() {
    while (!bytes.empty() && bytes.back() == ' ') bytes.pop_back();
    if (!bytes.empty() && bytes.back() != kBreak) bytes.push_back(kBreak);
  }

  void AddCharacter(std::string_view part, bool can_be_said, bool space_can_be_said) {
    if (IsSpace(static_cast<std::uint8_t>(part[0]))) {
      const bool inside = !bytes.empty() && bytes.back() != kBreak && bytes.back() != ' ';
      if (inside && space_can_be_said) bytes.push_back(' ');
      if (inside && !space_can_be_said) AddBreak();
    } else if (can_be_said) {
      for (const char byte : part) bytes.push_back(static_cast<std::uint8_t>(byte));
    } else {
      AddBreak();
    }
  }

  void FindBoundaries() {
    ends.assign(bytes.size() + 1, false);
    for (size_t p = 0; p < bytes.size(); ++p) {
      if (!IsBoundary(p)) continue;
      ends[p] = p > 0 && at(p - 1) != kBreak && at(p - 1) != ' ';
      if (at(p) != kBreak && at(p) != ' ') starts.push_back(static_cast<std::uint32_t>(p));
    }
  }
};

}  // namespace

std::shared_ptr<const SpanSource> MakeSpanSource(std::string_view text,
                                                 const std::bitset<256>& without) {
  auto source = std::make_shared<SourceText>();
  for (size_t at = 0; at < text.size();) {
    const Utf8Character character = ReadUtf8(text, at);
    const std::string_view part = text.substr(at, std::max<size_t>(character.length, 1));
    at += part.size();
    const bool can_be_said = character.valid && std::ranges::none_of(part, [&](char c) {
                               const auto byte = static_cast<std::uint8_t>(c);
                               return without[byte] || byte < 0x20 || byte == 0x7F;
                             });
    source->AddCharacter(part, can_be_said, !without[' ']);
  }
  source->AddBreak();
  source->FindBoundaries();
  return source;
}

Dfa CopyAutomaton(std::string_view text, std::span<const std::string> others,
                  const std::bitset<256>& without, const DfaLimits& limits,
                  std::string_view before) {
  std::vector<ExpressionPtr> choices = {SpanOf(MakeSpanSource(text, without), SpanForm::kPlain)};
  for (const std::string& other : others) choices.push_back(Literal(other));
  ExpressionPtr expression = Choice(std::move(choices));
  if (expression->kind == Expression::Kind::kNever) return Dfa::OfNothing();
  if (!before.empty()) expression = Sequence({Literal(before), expression});
  try {
    return Dfa(Nfa(*expression), limits, without);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kLimit) throw;
    Throw(ErrorKind::kLimit,
          "the text of {} bytes is too long to copy answers from, or repeats itself too much",
          text.size());
  }
}

}  // namespace banyan
