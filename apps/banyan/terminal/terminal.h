// Messages for a person, and Ctrl-C. On a terminal control characters from files and names are made
// visible.
#pragma once

#include <string>

namespace banyan::app {

void Say(const std::string& text);      // to stderr, as it is given
void SayLine(const std::string& text);  // "banyan: TEXT" and a line end
void Print(const std::string& text);    // to stdout

// Opens stdin, stdout and stderr where they are closed, so that no file of the job gets their
// descriptors and messages are not written into it. Reading the stand-in for stdin or writing to
// that for stdout fails; what is written to that for stderr is dropped.
void ReserveStandardStreams();

// Ctrl-C and SIGTERM: from now on the first is noted, with a message on stderr; the second ends the
// program at once.
void StopOnSignals();
// From now on signals are only noted: for a prompt.
void NoteSignals();

// The signal that came; 0: none.
int StopSignal();
// The same, and forgets it.
int TakeStopSignal();

}  // namespace banyan::app
