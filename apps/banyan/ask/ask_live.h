// `banyan ask` for a person at a terminal: answers to read, and a prompt for questions.
#pragma once

#include <functional>
#include <memory>

#include "ask/ask_options.h"
#include "banyan/model.h"

namespace banyan::app {

// Prints the answers of the whole input as they come. The exit code.
int RunForReading(const AskCommand& command, std::shared_ptr<Model> model);

// Computes the documents, then answers one question after another. `take_signal` gives the signal
// that came since it was last asked (0: none). The exit code.
int RunPrompt(const AskCommand& command, std::shared_ptr<Model> model,
              const std::function<int()>& take_signal);

}  // namespace banyan::app
