// Words for a person. On a terminal control characters from files and names are shown, not obeyed.
#pragma once

#include <string>

namespace banyan::app {

void Say(const std::string& text);      // to stderr, as it is given
void SayLine(const std::string& text);  // "banyan: TEXT" and a line end
void Print(const std::string& text);    // to stdout

// Opens what is closed of stdin, stdout and stderr, so that no file of the job gets their numbers:
// words for a person would be written into it. Nothing can be read from or written to a stand-in
// for stdin or stdout; what goes to that of stderr is dropped.
void ReserveStandardStreams();

// Ctrl-C and SIGTERM, which ask a command to stop.

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
