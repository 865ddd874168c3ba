#include "constrain/plain_text.h"

#include <algorithm>

#include "constrain/utf8_ranges.h"
#include "text/utf8.h"

namespace banyan {
namespace {

constexpr char32_t kLastPlain = 0xFFFF;

bool IsPlain(char32_t code) {
  return code >= ' ' && code <= kLastPlain && code != '"' && code != '\\';
}

const std::vector<Utf8Sequence>& PlainSequences() {
  static const std::vector<Utf8Sequence> sequences =
      Utf8Sequences(CharacterSet({{' ', '!'}, {'#', '['}, {']', kLastPlain}}));
  return sequences;
}

// Appends the states after each text of `sequence` from byte `at` on. False when one is dead.
bool AppendAfter(const Dfa& dfa, Dfa::State state, const Utf8Sequence& sequence, int at,
                 std::vector<Dfa::State>& out) {
  if (at == sequence.length) {
    if (out.empty() || out.back() != state) out.push_back(state);
    return true;
  }
  const ByteRange bytes = sequence.bytes[static_cast<size_t>(at)];
  Dfa::State before = Dfa::kDead;  // bytes of a kind stand together: each is followed once
  for (int byte = bytes.low; byte <= bytes.high; ++byte) {
    const Dfa::State next = dfa.Next(state, static_cast<std::uint8_t>(byte));
    if (next == Dfa::kDead) return false;
    if (next == before) continue;
    before = next;
    if (!AppendAfter(dfa, next, sequence, at + 1, out)) return false;
  }
  return true;
}

}  // namespace

std::optional<size_t> PlainLength(std::string_view bytes) {
  size_t characters = 0;
  for (size_t at = 0; at < bytes.size(); ++characters) {
    const Utf8Character character = ReadUtf8(bytes, at);
    if (!character.valid || !IsPlain(character.code)) return std::nullopt;
    at += character.length;
  }
  return characters;
}

int AllowedPlainLength(const Dfa& dfa, Dfa::State state, int most) {
  constexpr size_t kMostStates = 8;  // beyond, walking the trie is as quick
  std::vector<Dfa::State> now = {state}, after;
  for (int length = 0; length < most; ++length) {
    after.clear();
    for (const Dfa::State from : now) {
      for (const Utf8Sequence& sequence : PlainSequences()) {
        if (!AppendAfter(dfa, from, sequence, 0, after)) return length;
      }
    }
    std::ranges::sort(after);
    after.erase(std::ranges::unique(after).begin(), after.end());
    if (after == now) return most;
    if (after.size() > kMostStates) return length + 1;
    std::swap(now, after);
  }
  return most;
}

}  // namespace banyan
