// Schemas are hostile: one is compiled or refused with banyan::Error, soon; a text of what is
// compiled is JSON.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "banyan/error.h"
#include "base/error.h"
#include "base/json.h"
#include "constrain/automaton.h"
#include "constrain/json_schema.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace banyan;  // NOLINT(google-build-using-namespace)
  DfaLimits limits;
  limits.states = 1 << 13;
  limits.work = 1'000'000;
  try {
    const Dfa dfa(Nfa(*ReadJsonSchema({reinterpret_cast<const char*>(data), size})), limits);
    std::string text;
    Dfa::State state = dfa.start();
    for (size_t step = 0; step < 4096 && !dfa.accepting(state); ++step) {
      BANYAN_CHECK(dfa.can_continue(state));
      // Quotes and what closes come first, so that most texts end.
      uint8_t byte = 0;
      for (const char closing : {'"', '}', ']'}) {
        if (dfa.Next(state, static_cast<uint8_t>(closing)) != Dfa::kDead) {
          byte = static_cast<uint8_t>(closing);
        }
      }
      while (dfa.Next(state, byte) == Dfa::kDead) ++byte;
      text += static_cast<char>(byte);
      state = dfa.Next(state, byte);
    }
    // What the parser throws is let out: a text that is no JSON is a bug.
    if (dfa.accepting(state)) BANYAN_CHECK(!Json::parse(text).is_discarded());
  } catch (const Error&) {
  }
  return 0;
}
