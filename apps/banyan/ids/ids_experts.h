// Lines of `ids` of the kind experts: several documents that write one answer together.
#pragma once

#include <string>

#include "banyan/engine.h"
#include "ids/ids_fields.h"

namespace banyan::app {

// system → documents → question for the experts, system → question for the prior, which has the
// answer.
PromptSegment ExpertsRequest(const Json& line, AnswerRequest answer);

// The fields of the output line.
std::string ExpertsText(const Answer& answer, bool logprobs);

}  // namespace banyan::app
