// Which model answers when nobody names one: the shipped one, or a better reader that the person at
// the terminal was offered once.
#pragma once

#include "run_options.h"

namespace banyan::app {

// Sets model and adapter of the better reader where it was chosen and nothing else is named. With
// `may_ask`, on a terminal, it is offered first, once.
void ChooseDefaultReader(RunOptions& run, bool may_ask);

// Fetches it and makes it the default. False, with a line that says why, when it cannot be had.
bool GetBetterReader();

// `banyan model better`: gets it; with `offer` asks first, once and only on a terminal; with
// `shipped` goes back to the shipped model.
int ModelBetter(bool offer, bool shipped);

}  // namespace banyan::app
