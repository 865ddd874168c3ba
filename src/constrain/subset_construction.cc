// The subset construction of the DFA.
#include <algorithm>
#include <bitset>
#include <span>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/work_budget.h"
#include "constrain/automaton.h"

namespace banyan {

// Subset construction. A state is the set of those states of the NFA that read a byte or accept,
// sorted.
class DfaBuilder {
 public:
  DfaBuilder(const Nfa& nfa, const DfaLimits& limits, const std::bitset<256>& without, Dfa& dfa)
      : nfa_(nfa), limits_(limits), without_(without), dfa_(dfa) {}

  void Build() {
    FindByteClasses();
    alone_.assign(nfa_.nodes().size(), kUnknown);
    seen_.assign(nfa_.nodes().size(), 0);
    sets_.push_back({0, 0});
    AddRow(false);  // kDead
    const Nfa::State start = nfa_.start();
    dfa_.start_ = StateOf({&start, 1});
    for (size_t state = 1; state < sets_.size(); ++state) FillRow(state);
    if (without_.any()) LeaveOut();
  }

 private:
  static constexpr Dfa::State kUnknown = 0xFFFFFFFF;
  struct Set {  // of members_
    size_t begin, size;
  };

  void FindByteClasses() {
    std::bitset<257> begins;
    begins.set(0);
    for (const Nfa::Edge& edge : nfa_.edges()) {
      begins.set(edge.low);
      begins.set(edge.high + size_t{1});
    }
    for (size_t byte = 0; byte < 256; ++byte) {
      if (byte > 0 && without_[byte] != without_[byte - 1]) begins.set(byte);
      if (begins.test(byte)) ++dfa_.byte_classes_;
      dfa_.class_of_[byte] = static_cast<std::uint8_t>(dfa_.byte_classes_ - 1);
    }
  }

  void Work(size_t amount) {
    constexpr size_t kBetweenLooks = 1 << 16;
    if ((work_ + amount) / kBetweenLooks != work_ / kBetweenLooks) CheckBudget();
    work_ += amount;
    if (work_ > limits_.work) {
      Throw(ErrorKind::kLimit,
            "the constraint is too ambiguous: making its automaton deterministic takes more than "
            "{} steps",
            limits_.work);
    }
  }

  void AddRow(bool accepting) {
    const size_t states = dfa_.accepting_.size() + 1;
    BANYAN_CHECK(limits_.states < size_t{1} << Dfa::kStateBits);
    if (states > limits_.states || dfa_.entries_.size() > limits_.entries) {
      Throw(ErrorKind::kLimit,
            "the constraint is too large: its automaton would have more than {} states; lower the "
            "repetition counts or lengths",
            states - 1);
    }
    dfa_.rows_.emplace_back();
    dfa_.accepting_.push_back(accepting ? 1 : 0);
    dfa_.can_continue_.push_back(0);
  }

  // The state for the epsilon closure of a set of NFA states.
  Dfa::State StateOf(std::span<const Nfa::State> from) {
    if (from.size() == 1 && alone_[from[0]] != kUnknown) return alone_[from[0]];
    Close(from);
    const std::uint64_t hash = HashOf(closed_);
    auto [begin, end] = known_.equal_range(hash);
    Dfa::State state = kUnknown;
    for (; begin != end && state == kUnknown; ++begin) {
      const Set& set = sets_[begin->second];
      if (std::ranges::equal(std::span(members_).subspan(set.begin, set.size), closed_)) {
        state = begin->second;
      }
    }
    if (state == kUnknown) {
      state = static_cast<Dfa::State>(sets_.size());
      AddRow(closed_[0] == Nfa::kAccept);
      Work(2 * closed_.size());  // kept states count more: they bound the memory too
      sets_.push_back({members_.size(), closed_.size()});
      members_.insert(members_.end(), closed_.begin(), closed_.end());
      known_.emplace(hash, state);
    }
    if (from.size() == 1) alone_[from[0]] = state;
    return state;
  }

  void Close(std::span<const Nfa::State> from) {
    ++round_;
    closed_.clear();
    todo_.assign(from.begin(), from.end());
    size_t visited = 0;
    while (!todo_.empty()) {
      const Nfa::State state = todo_.back();
      todo_.pop_back();
      if (std::exchange(seen_[state], round_) == round_) continue;
      ++visited;
      const Nfa::Node& node = nfa_.nodes()[state];
      if (node.edges != Nfa::kNone || state == Nfa::kAccept) closed_.push_back(state);
      for (std::uint32_t j = node.epsilons; j != Nfa::kNone; j = nfa_.epsilon(j).next) {
        todo_.push_back(nfa_.epsilon(j).to);
        ++visited;
      }
    }
    Work(visited);
    std::ranges::sort(closed_);
  }

  static std::uint64_t HashOf(std::span<const Nfa::State> set) {
    std::uint64_t hash = set.size();
    for (const Nfa::State state : set) {
      hash = (hash ^ state) * 0x9E3779B97F4A7C15u;
      hash ^= hash >> 29;
    }
    return hash;
  }

  // What the members of a state read: (class, target), in order of the class and then of members.
  void GatherEdges(const Set& set) {
    edges_.clear();
    for (size_t i = 0; i < set.size; ++i) {
      std::uint32_t e = nfa_.nodes()[members_[set.begin + i]].edges;
      for (; e != Nfa::kNone; e = nfa_.edge(e).next) {
        const Nfa::Edge& edge = nfa_.edge(e);
        const std::uint8_t last = dfa_.class_of_[edge.high];
        for (size_t kind = dfa_.class_of_[edge.low]; kind <= last; ++kind) {
          edges_.push_back({static_cast<std::uint8_t>(kind), edge.to});
        }
      }
    }
    if (!std::ranges::is_sorted(edges_, {}, &ClassEdge::kind)) {
      std::ranges::stable_sort(edges_, {}, &ClassEdge::kind);
    }
  }

  void FillRow(size_t state) {
    GatherEdges(sets_[state]);
    Work(dfa_.byte_classes_ + edges_.size());
    row_.clear();
    before_.clear();
    Dfa::State to = Dfa::kDead;
    for (size_t begin = 0; begin < edges_.size();) {
      const std::uint8_t kind = edges_[begin].kind;
      size_t end = begin;
      for (targets_.clear(); end < edges_.size() && edges_[end].kind == kind; ++end) {
        targets_.push_back(edges_[end].to);
      }
      begin = end;
      if (before_ != targets_) to = StateOf(targets_);
      std::swap(before_, targets_);
      row_.push_back({kind, to});
    }
    KeepRow(state);
  }

  // row_ becomes the row of a state.
  void KeepRow(size_t state) {
    const size_t begin = dfa_.entries_.size();
    if (row_.size() > Dfa::kFewEntries) {
      for (std::uint32_t kind = 0; kind < dfa_.byte_classes_; ++kind) {
        dfa_.entries_.push_back(Dfa::Entry(kind, Dfa::kDead));
      }
      for (const ClassEdge& edge : row_) {
        dfa_.entries_[begin + edge.kind] = Dfa::Entry(edge.kind, edge.to);
      }
    } else {
      for (const ClassEdge& edge : row_) dfa_.entries_.push_back(Dfa::Entry(edge.kind, edge.to));
    }
    dfa_.rows_[state] = {static_cast<std::uint32_t>(begin),
                         static_cast<std::uint32_t>(dfa_.entries_.size() - begin)};
    dfa_.can_continue_[state] = row_.empty() ? 0 : 1;
  }

  std::span<std::uint32_t> RowOf(size_t state) {
    return std::span(dfa_.entries_).subspan(dfa_.rows_[state].begin, dfa_.rows_[state].size);
  }

  // Removes edges over the bytes of without_, and into states that cannot be completed without
  // them.
  void LeaveOut() {
    std::vector<bool> dropped(dfa_.byte_classes_);
    for (size_t byte = 0; byte < 256; ++byte) {
      if (without_[byte]) dropped[dfa_.class_of_[byte]] = true;
    }
    for (std::uint32_t& entry : dfa_.entries_) {
      const std::uint32_t kind = Dfa::KindOf(entry);
      if (dropped[kind]) entry = Dfa::Entry(kind, Dfa::kDead);
    }
    const std::vector<bool> completes = StatesThatComplete();
    for (size_t state = 0; state < sets_.size(); ++state) {
      dfa_.can_continue_[state] = 0;
      for (std::uint32_t& entry : RowOf(state)) {
        if (!completes[Dfa::TargetOf(entry)]) {
          entry = Dfa::Entry(Dfa::KindOf(entry), Dfa::kDead);
        } else {
          dfa_.can_continue_[state] = 1;
        }
      }
    }
    if (!completes[dfa_.start_]) dfa_.start_ = Dfa::kDead;
  }

  std::vector<bool> StatesThatComplete() {
    const size_t states = sets_.size();
    // The states with an edge into each state: from[begin[to]] to from[begin[to + 1] - 1].
    std::vector<std::uint32_t> begin(states + 1, 0);
    for (const std::uint32_t entry : dfa_.entries_) ++begin[Dfa::TargetOf(entry)];
    begin[Dfa::kDead] = 0;
    for (size_t to = 0, sum = 0; to <= states; ++to) {
      sum += std::exchange(begin[to], static_cast<std::uint32_t>(sum));
    }
    std::vector<Dfa::State> from(begin[states]);
    for (size_t state = 0; state < states; ++state) {
      for (const std::uint32_t entry : RowOf(state)) {
        const Dfa::State to = Dfa::TargetOf(entry);
        if (to != Dfa::kDead) from[begin[to]++] = static_cast<Dfa::State>(state);
      }
    }
    std::vector<bool> completes(states);
    std::vector<Dfa::State> todo;
    for (size_t state = 1; state < states; ++state) {
      if (dfa_.accepting_[state] == 0) continue;
      completes[state] = true;
      todo.push_back(static_cast<Dfa::State>(state));
    }
    while (!todo.empty()) {
      const Dfa::State state = todo.back();
      todo.pop_back();
      // Filling moved each begin to the end of its states.
      for (std::uint32_t i = begin[state - 1]; i < begin[state]; ++i) {
        if (completes[from[i]]) continue;
        completes[from[i]] = true;
        todo.push_back(from[i]);
      }
    }
    return completes;
  }

  struct ClassEdge {
    std::uint8_t kind;  // class of bytes
    std::uint32_t to;   // a state of the NFA, or of the DFA
  };

  const Nfa& nfa_;
  const DfaLimits& limits_;
  const std::bitset<256>& without_;
  Dfa& dfa_;
  size_t work_ = 0;
  std::vector<Set> sets_;
  std::vector<Nfa::State> members_;
  std::unordered_multimap<std::uint64_t, Dfa::State> known_;  // by hash of the set
  std::vector<Dfa::State> alone_;                             // by a single NFA state
  std::vector<std::uint32_t> seen_;                           // round of the last visit
  std::uint32_t round_ = 0;
  std::vector<Nfa::State> closed_, todo_;
  std::vector<ClassEdge> edges_, row_;        // of the state that is being filled
  std::vector<Nfa::State> targets_, before_;  // of a class of bytes, and of the one before it
};

Dfa Dfa::OfNothing() {
  Dfa dfa;
  dfa.byte_classes_ = 1;
  dfa.rows_.resize(1);
  dfa.accepting_ = dfa.can_continue_ = {0};
  return dfa;
}

Dfa::Dfa(const Nfa& nfa, const DfaLimits& limits, const std::bitset<256>& without) {
  DfaBuilder(nfa, limits, without, *this).Build();
}

}  // namespace banyan
