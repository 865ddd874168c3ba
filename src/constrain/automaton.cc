// The builder of the NFA.
#include "constrain/automaton.h"

#include <unordered_map>
#include <utility>

#include "base/error.h"
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
      case Expression::Kind::kJoined: {
        const State end = Add();
        const State begin = Before(*e.parts[0], end);
        AddEpsilon(end, next);
        AddEpsilon(end, Before(*e.parts[1], begin));
        return begin;
      }
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
    // A state for every first byte: `begin` stands in many states of a DFA where spans are joined.
    std::unordered_map<int, State> after_first;
    for (const std::uint32_t p : source.starts) {
      const auto [after, is_new] = after_first.try_emplace(source.bytes[p], 0);
      if (is_new) {
        after->second = Add();
        AddByte(begin, source.bytes[p], after->second, e.form);
      }
      AddEpsilon(after->second, places[p + 1]);
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

}  // namespace banyan
