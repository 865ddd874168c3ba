// Random texts of an automaton.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "constrain/automaton.h"

namespace banyan::testing_support {

class RandomMatches {
 public:
  explicit RandomMatches(const Dfa& dfa) : dfa_(dfa), distance_(dfa.states(), kFar) {
    // Bytes from each state to the nearest end, by rounds.
    for (std::uint32_t round = 0, changed = 1; changed != 0; ++round) {
      changed = 0;
      for (Dfa::State state = 1; state < dfa.states(); ++state) {
        if (distance_[state] != kFar) continue;
        bool near = round == 0 && dfa.accepting(state);
        for (int b = 0; b < 256 && round > 0 && !near; ++b) {
          near = distance_[dfa.Next(state, static_cast<std::uint8_t>(b))] == round - 1;
        }
        if (near) distance_[state] = round, changed = 1;
      }
    }
  }

  // Bytes from `state` to the nearest end.
  std::uint32_t Distance(Dfa::State state) const { return distance_[state]; }

  // Any byte that is allowed for a while, then the shortest way to an end.
  std::string Next(std::mt19937& random) {
    std::string text;
    Dfa::State state = dfa_.start();
    // Some steps go towards an end, in some texts more, so that they reach their later parts.
    const unsigned wander = 4 + random() % 12;
    for (size_t free = random() % 120;; free -= free > 0 ? 1 : 0) {
      if (dfa_.accepting(state) && (free == 0 || random() % 8 == 0)) return text;
      const bool anywhere = free > 0 && random() % 16 < wander;
      std::vector<std::uint8_t> allowed;
      for (int b = 0; b < 256; ++b) {
        const Dfa::State next = dfa_.Next(state, static_cast<std::uint8_t>(b));
        if (next == Dfa::kDead) continue;
        if (anywhere || distance_[next] + 1 == distance_[state]) {
          allowed.push_back(static_cast<std::uint8_t>(b));
        }
      }
      if (allowed.empty()) return text;  // an end, or a broken automaton: the match will tell
      const std::uint8_t byte = allowed[random() % allowed.size()];
      text += static_cast<char>(byte);
      state = dfa_.Next(state, byte);
    }
  }

 private:
  static constexpr std::uint32_t kFar = 0xFFFFFFFF;
  const Dfa& dfa_;
  std::vector<std::uint32_t> distance_;
};

}  // namespace banyan::testing_support
