// Expression → nondeterministic automaton over bytes. The accepting state is reached from every
// other one, so whatever is still in some state can still be completed: no dead ends to prune.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <string_view>
#include <vector>

#include "constrain/expression.h"

namespace banyan {

class Nfa {
 public:
  using State = std::uint32_t;
  static constexpr State kAccept = 0;
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;
  static constexpr size_t kMaxStates = 1 << 19;

  // Throws kLimit beyond kMaxStates (or four times as many edges). REQUIRES: not kNever.
  explicit Nfa(const Expression& expression);

  struct Edge {  // reads a byte
    std::uint8_t low, high;
    State to;
    std::uint32_t next;  // edge of the same state, or kNone
  };
  struct Jump {  // reads nothing
    State to;
    std::uint32_t next;
  };
  struct Node {
    std::uint32_t edges = kNone;
    std::uint32_t jumps = kNone;
  };

  State start() const { return start_; }
  const std::vector<Node>& nodes() const { return nodes_; }
  const Edge& edge(std::uint32_t index) const { return edges_[index]; }
  const Jump& jump(std::uint32_t index) const { return jumps_[index]; }
  const std::vector<Edge>& edges() const { return edges_; }

 private:
  friend class NfaBuilder;
  State start_ = kAccept;
  std::vector<Node> nodes_;
  std::vector<Edge> edges_;
  std::vector<Jump> jumps_;
};

// Deterministic automaton over bytes: what is checked and walked while a text is written. Every
// state but kDead can be completed to a match.

// Beyond these a constraint is refused: some patterns need a state for every subset of their parts.
struct DfaLimits {
  size_t states = 1 << 18;
  size_t entries = 1 << 24;  // of the table: states × kinds of bytes
  size_t work = 60'000'000;  // states and edges looked at, well under a second
};

class Dfa {
 public:
  using State = std::uint32_t;
  static constexpr State kDead = 0;

  // Texts with a byte of `without` are no matches. Throws kLimit, naming the limit.
  explicit Dfa(const Nfa& nfa, const DfaLimits& limits = {}, const std::bitset<256>& without = {});

  // Matches no text at all.
  static Dfa OfNothing();

  State start() const { return start_; }
  State Next(State state, std::uint8_t byte) const {
    return table_[state * kinds_ + kind_of_[byte]];
  }
  State Next(State state, std::string_view bytes) const {
    for (const char byte : bytes) state = Next(state, static_cast<std::uint8_t>(byte));
    return state;
  }
  // Whether the text may end here.
  bool accepting(State state) const { return accepting_[state] != 0; }
  // Whether any byte may follow.
  bool goes_on(State state) const { return goes_on_[state] != 0; }
  size_t states() const { return accepting_.size(); }
  size_t kinds() const { return kinds_; }

 private:
  friend class DfaBuilder;
  Dfa() = default;
  State start_ = kDead;
  size_t kinds_ = 0;                         // of bytes that no edge tells apart
  std::array<std::uint8_t, 256> kind_of_{};  // rises with the byte
  std::vector<State> table_;                 // [states, kinds]
  std::vector<std::uint8_t> accepting_, goes_on_;
};

}  // namespace banyan
