// The builder of the NFA, then the subset construction of the DFA.
#include "constrain/automaton.h"

#include <algorithm>
#include <bitset>
#include <span>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/work_budget.h"
#include "constrain/expression.h"

namespace banyan {

// Builds from the end: each part takes the state after it and returns the state where it begins.
class NfaBuilder {
 public:
  using State = Nfa::State;
  explicit NfaBuilder(Nfa& nfa) : nfa_(nfa) {}

  State Add() {
    if (nfa_.nodes_.size() >= Nfa::kMaxStates || nfa_.edges_.size() >= 4 * Nfa::kMaxStates ||
        nfa_.epsilons_.size() >= 4 * Nfa::kMaxStates) {
      Throw(ErrorKind::kLimit,
            "the constraint is too large: its automaton would have more than {} states before it "
            "is made deterministic; lower the repetition counts or lengths",
            Nfa::kMaxStates);
    }
    nfa_.nodes_.emplace_back();
    return static_cast<State>(nfa_.nodes_.size() - 1);
  }

  State Before(const Expression& e, State next) {
    switch (e.kind) {
      case Expression::Kind::kNever:
        BANYAN_CHECK(!"a tree with kNever in it");
        break;
      case Expression::Kind::kNothing:
        return next;
      case Expression::Kind::kClass:
        return BeforeClass(e, next);
      case Expression::Kind::kSequence:
        for (size_t i = e.parts.size(); i > 0; --i) next = Before(*e.parts[i - 1], next);
        return next;
      case Expression::Kind::kChoice: {
        const State choice = Add();
        for (const ExpressionPtr& part : e.parts) AddEpsilon(choice, Before(*part, next));
        return choice;
      }
      case Expression::Kind::kRepeat:
        return BeforeRepeat(e, next);
      case Expression::Kind::kList:
        return BeforeList(e, next);
      case Expression::Kind::kSpan:
        return BeforeSpan(e, next);
    }
    return next;
  }

 private:
  void AddEpsilon(State from, State to) {
    std::uint32_t& epsilons = nfa_.nodes_[from].epsilons;
    nfa_.epsilons_.push_back({to, epsilons});
    epsilons = static_cast<std::uint32_t>(nfa_.epsilons_.size() - 1);
  }

  void AddEdge(State from, ByteRange bytes, State to) {
    std::uint32_t& edges = nfa_.nodes_[from].edges;
    nfa_.edges_.push_back({bytes.low, bytes.high, to, edges});
    edges = static_cast<std::uint32_t>(nfa_.edges_.size() - 1);
  }

  // Sequences with equal suffixes share the states of these.
  State BeforeClass(const Expression& e, State next) {
    auto [entry, is_new] = sequences_.try_emplace(&e);
    if (is_new) entry->second = Utf8Sequences(e.set);
    const std::vector<Utf8Sequence>& sequences = entry->second;
    const State begin = Add();
    ends_.clear();
    for (const Utf8Sequence& sequence : sequences) {
      State to = next;
      for (int i = sequence.length - 1; i > 0; --i) {
        to = BeforeByte(sequence.bytes[static_cast<size_t>(i)], to);
      }
      AddEdge(begin, sequence.bytes[0], to);
    }
    return begin;
  }

  State BeforeByte(ByteRange bytes, State to) {
    for (const End& end : ends_) {
      if (end.bytes == bytes && end.to == to) return end.state;
    }
    const State state = Add();
    AddEdge(state, bytes, to);
    ends_.push_back({bytes, to, state});
    return state;
  }

  State BeforeRepeat(const Expression& e, State next) {
    const Expression& part = *e.parts[0];
    if (e.most == kUnbounded) {
      const State loop = Add();
      AddEpsilon(loop, Before(part, loop));
      AddEpsilon(loop, next);
      next = loop;
    } else {
      const State after = next;
      for (std::int64_t i = e.least; i < e.most; ++i) {
        const State choice = Add();
        AddEpsilon(choice, Before(part, next));
        AddEpsilon(choice, after);
        next = choice;
      }
    }
    for (std::int64_t i = 0; i < e.least; ++i) next = Before(part, next);
    return next;
  }

  // From the last item to the first: `rest` follows once an item has been matched, `none` while
  // none has.
  State BeforeList(const Expression& e, State next) {
    State rest = next, none = next;
    for (size_t i = e.parts.size() - 1; i > 0; --i) {
      const State item = Before(*e.parts[i], rest);
      const State separated = Before(*e.parts[0], item);
      if (e.required[i]) {
        rest = separated;
        none = item;
        continue;
      }
      rest = Either(separated, rest);
      none = Either(item, none);
    }
    return none;
  }

  // A state for every position of the source: it reads the byte there, and continues to `next`
  // where a span may end. `begin` is separate because a span has at least one byte.
  State BeforeSpan(const Expression& e, State next) {
    const SpanSource& source = *e.source;
    std::vector<State> places(source.bytes.size() + 1);
    for (size_t p = source.bytes.size() + 1; p-- > 0;) {
      const bool reads = p < source.bytes.size() && source.bytes[p] != SpanSource::kBreak;
      if (!reads && !source.ends[p]) continue;  // unreachable
      const State place = places[p] = Add();
      if (source.ends[p]) AddEpsilon(place, next);
      if (reads) AddByte(place, source.bytes[p], places[p + 1], e.form);
    }
    const State begin = Add();
    for (const std::uint32_t p : source.starts) {
      AddByte(begin, source.bytes[p], places[p + 1], e.form);
    }
    return begin;
  }

  void AddByte(State from, int byte, State to, SpanForm form) {
    const auto value = static_cast<std::uint8_t>(byte);
    if (form == SpanForm::kJson && (value == '"' || value == '\\')) {
      const State escaped = Add();
      AddEdge(escaped, {value, value}, to);
      AddEdge(from, {'\\', '\\'}, escaped);
      return;
    }
    AddEdge(from, {value, value}, to);
  }

  State Either(State a, State b) {
    const State choice = Add();
    AddEpsilon(choice, a);
    AddEpsilon(choice, b);
    return choice;
  }

  struct End {
    ByteRange bytes;
    State to, state;
  };
  Nfa& nfa_;
  std::unordered_map<const Expression*, std::vector<Utf8Sequence>> sequences_;
  std::vector<End> ends_;
};

Nfa::Nfa(const Expression& expression) {
  NfaBuilder builder(*this);
  builder.Add();  // kAccept
  start_ = builder.Before(expression, kAccept);
}

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
    targets_.resize(dfa_.byte_classes_);
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
    if (states > limits_.states || states * dfa_.byte_classes_ > limits_.entries) {
      Throw(ErrorKind::kLimit,
            "the constraint is too large: its automaton would have more than {} states; lower the "
            "repetition counts or lengths",
            states - 1);
    }
    dfa_.table_.resize(states * dfa_.byte_classes_, Dfa::kDead);
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

  void FillRow(size_t state) {
    for (std::vector<Nfa::State>& targets : targets_) targets.clear();
    const Set set = sets_[state];
    size_t edges = dfa_.byte_classes_;
    for (size_t i = 0; i < set.size; ++i) {
      std::uint32_t e = nfa_.nodes()[members_[set.begin + i]].edges;
      for (; e != Nfa::kNone; e = nfa_.edge(e).next) {
        const Nfa::Edge& edge = nfa_.edge(e);
        const size_t last = dfa_.class_of_[edge.high];
        for (size_t kind = dfa_.class_of_[edge.low]; kind <= last; ++kind, ++edges) {
          targets_[kind].push_back(edge.to);
        }
      }
    }
    Work(edges);
    const std::vector<Nfa::State>* before = nullptr;
    Dfa::State to = Dfa::kDead;
    for (size_t kind = 0; kind < dfa_.byte_classes_; ++kind) {
      const std::vector<Nfa::State>& targets = targets_[kind];
      if (targets.empty()) continue;
      if (before == nullptr || *before != targets) to = StateOf(targets);
      before = &targets;
      dfa_.table_[state * dfa_.byte_classes_ + kind] = to;
      dfa_.can_continue_[state] = 1;
    }
  }

  // Removes edges over the bytes of without_, and into states that cannot be completed without
  // them.
  void LeaveOut() {
    const size_t states = sets_.size();
    std::vector<std::vector<Dfa::State>> before(states);
    std::vector<bool> dropped(dfa_.byte_classes_);
    for (size_t byte = 0; byte < 256; ++byte) {
      if (without_[byte]) dropped[dfa_.class_of_[byte]] = true;
    }
    for (size_t i = 0; i < dfa_.table_.size(); ++i) {
      Dfa::State& to = dfa_.table_[i];
      if (dropped[i % dfa_.byte_classes_]) to = Dfa::kDead;
      if (to == Dfa::kDead) continue;
      std::vector<Dfa::State>& known = before[to];
      const auto from = static_cast<Dfa::State>(i / dfa_.byte_classes_);
      if (known.empty() || known.back() != from) known.push_back(from);
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
      for (const Dfa::State from : before[state]) {
        if (completes[from]) continue;
        completes[from] = true;
        todo.push_back(from);
      }
    }
    std::ranges::fill(dfa_.can_continue_, std::uint8_t{0});
    for (size_t i = 0; i < dfa_.table_.size(); ++i) {
      Dfa::State& to = dfa_.table_[i];
      if (!completes[to]) to = Dfa::kDead;
      if (to != Dfa::kDead) dfa_.can_continue_[i / dfa_.byte_classes_] = 1;
    }
    if (!completes[dfa_.start_]) dfa_.start_ = Dfa::kDead;
  }

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
  std::vector<std::vector<Nfa::State>> targets_;  // [byte classes]
};

Dfa Dfa::OfNothing() {
  Dfa dfa;
  dfa.byte_classes_ = 1;
  dfa.table_ = {kDead};
  dfa.accepting_ = dfa.can_continue_ = {0};
  return dfa;
}

Dfa::Dfa(const Nfa& nfa, const DfaLimits& limits, const std::bitset<256>& without) {
  DfaBuilder(nfa, limits, without, *this).Build();
}

}  // namespace banyan
