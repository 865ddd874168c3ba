// Answers that are copied: the spans of a text.
#pragma once

#include <bitset>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "constrain/dfa.h"
#include "constrain/expression.h"

namespace banyan {

// A text that spans are copied from. A span begins where a word, a number or a sign begins and ends
// where one ends; a number is not cut at its points, commas, colons and slashes. A run of white
// space is one space.
struct SpanSource {
  static constexpr int kBreak = -1;   // no span goes over it
  std::vector<int> bytes;             // kBreak at the end of every stretch
  std::vector<bool> ends;             // [bytes + 1] a span may end before byte p
  std::vector<std::uint32_t> starts;  // rising
};

// Characters with a byte of `without`, and control characters, are in no span.
std::shared_ptr<const SpanSource> MakeSpanSource(std::string_view text,
                                                 const std::bitset<256>& without);

// Matches the spans of the source and each of `others`, all of them behind the text `before`.
// Throws kLimit for a text that is too long, or repeats itself too much.
Dfa CopyAutomaton(std::string_view text, std::span<const std::string> others,
                  const std::bitset<256>& without, const DfaLimits& limits = {},
                  std::string_view before = {});

}  // namespace banyan
