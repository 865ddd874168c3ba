// Patterns are hostile: one is compiled or refused with banyan::Error, soon; what is compiled can
// be walked from its start to a match.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "banyan/error.h"
#include "base/error.h"
#include "constrain/automaton.h"
#include "constrain/regex_parser.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace banyan;  // NOLINT(google-build-using-namespace)
  DfaLimits limits;
  limits.states = 1 << 12;
  limits.work = 500'000;
  try {
    const auto alternatives = ParsePattern({reinterpret_cast<const char*>(data), size});
    const Dfa dfa(Nfa(*WholeMatch(alternatives)), limits);
    const Dfa within(Nfa(*MatchWithin(alternatives)), limits);
    // Any way on, for a while: there is always a next byte or an end, and no way back from kDead.
    Dfa::State state = dfa.start();
    for (int step = 0; step < 64; ++step) {
      BANYAN_CHECK(state != Dfa::kDead);
      BANYAN_CHECK(dfa.accepting(state) || dfa.can_continue(state));
      if (!dfa.can_continue(state)) break;
      uint8_t byte = size == 0 ? 0 : data[static_cast<size_t>(step) % size];
      while (dfa.Next(state, byte) == Dfa::kDead) ++byte;
      state = dfa.Next(state, byte);
    }
    BANYAN_CHECK(dfa.Next(Dfa::kDead, std::string_view("a")) == Dfa::kDead);
  } catch (const Error&) {
  }
  return 0;
}
