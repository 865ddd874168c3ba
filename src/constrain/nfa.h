// Expression → nondeterministic automaton over bytes. The accepting state is reached from every
// other one, so whatever is still in some state can still be completed: no dead ends to prune.
#pragma once

#include <cstdint>
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

}  // namespace banyan
