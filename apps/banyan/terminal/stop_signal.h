// Ctrl-C and SIGTERM, which ask a command to stop.
#pragma once

namespace banyan::app {

// From now on the first signal is noted and said on stderr; the second one ends the program at
// once.
void StopOnSignals();
// From now on signals are noted, and nothing else: for whoever waits at a prompt.
void NoteSignals();

// The signal that came; 0: none.
int StopSignal();
// The same, and forgets it.
int TakeStopSignal();

}  // namespace banyan::app
