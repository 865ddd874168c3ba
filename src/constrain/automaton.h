// Expression → finite automata over bytes: Thompson's construction of an NFA, then the subset
// construction of a DFA, which is walked while a text is generated.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <string_view>
#include <vector>

#include "constrain/expression.h"

namespace banyan {

// Nondeterministic, with epsilon edges. The accepting state can be reached from every other one: no
// dead ends to prune.
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
  struct Epsilon {  // reads nothing
    State to;
    std::uint32_t next;
  };
  struct Node {
    std::uint32_t edges = kNone;
    std::uint32_t epsilons = kNone;
  };

  State start() const { return start_; }
  const std::vector<Node>& nodes() const { return nodes_; }
  const Edge& edge(std::uint32_t index) const { return edges_[index]; }
  const Epsilon& epsilon(std::uint32_t index) const { return epsilons_[index]; }
  const std::vector<Edge>& edges() const { return edges_; }

 private:
  friend class NfaBuilder;
  State start_ = kAccept;
  std::vector<Node> nodes_;
  std::vector<Edge> edges_;
  std::vector<Epsilon> epsilons_;
};

// Beyond these a constraint is refused: some patterns need a state for every subset of their parts.
struct DfaLimits {
  size_t states = 1 << 18;
  size_t entries = 1 << 24;  // that are kept, of states × byte classes
  size_t work = 60'000'000;  // states and edges visited, well under a second
};

// Deterministic. From every state but kDead a match can still be reached.
class Dfa {
 public:
  using State = std::uint32_t;
  static constexpr State kDead = 0;

  // Texts with a byte of `without` do not match. Throws kLimit, naming the limit.
  explicit Dfa(const Nfa& nfa, const DfaLimits& limits = {}, const std::bitset<256>& without = {});

  // Matches no text at all.
  static Dfa OfNothing();

  State start() const { return start_; }
  State Next(State state, std::uint8_t byte) const {
    const Row row = rows_[state];
    const std::uint32_t kind = class_of_[byte];
    if (row.size > kFewEntries) return TargetOf(entries_[row.begin + kind]);
    for (std::uint32_t i = row.begin; i < row.begin + row.size; ++i) {
      if (KindOf(entries_[i]) == kind) return TargetOf(entries_[i]);
    }
    return kDead;
  }
  State Next(State state, std::string_view bytes) const {
    for (const char byte : bytes) state = Next(state, static_cast<std::uint8_t>(byte));
    return state;
  }
  // Whether the text may end here.
  bool accepting(State state) const { return accepting_[state] != 0; }
  // Whether any byte may follow.
  bool can_continue(State state) const { return can_continue_[state] != 0; }
  size_t states() const { return accepting_.size(); }
  size_t entries() const { return entries_.size(); }  // that are kept, of states × byte classes

 private:
  friend class DfaBuilder;
  Dfa() = default;

  // The entries of a state: those of few byte classes, the others are dead, or of all classes. Most
  // states of a copied text have one.
  struct Row {
    std::uint32_t begin = 0, size = 0;
  };
  static constexpr size_t kFewEntries = 6;
  // An entry: a byte class and the state after it.
  static constexpr int kStateBits = 24;
  static std::uint32_t Entry(std::uint32_t kind, State to) { return kind << kStateBits | to; }
  static std::uint32_t KindOf(std::uint32_t entry) { return entry >> kStateBits; }
  static State TargetOf(std::uint32_t entry) { return entry & ((1u << kStateBits) - 1); }

  State start_ = kDead;
  size_t byte_classes_ = 0;                   // classes of bytes that no edge distinguishes
  std::array<std::uint8_t, 256> class_of_{};  // monotonic in the byte
  std::vector<Row> rows_;                     // [states]
  std::vector<std::uint32_t> entries_;        // byte classes rise in a row
  std::vector<std::uint8_t> accepting_, can_continue_;
};

}  // namespace banyan
