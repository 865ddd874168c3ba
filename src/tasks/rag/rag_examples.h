// Few-shot examples as experts: blocks of questions with their answers, each read by itself.
#pragma once

#include <vector>

#include "tasks/rag/rag_record.h"

namespace banyan {

// The blocks as documents, called 1, 2, …. `value`: a list whose elements are an example
// {"question","answer","score"?} or a block, a list of them; null: the options' own examples.
// Examples that stand alone are put together, options.examples_per_expert of them each; a block's
// score is given where all its examples have the same. Throws kInput.
std::vector<RagDocument> ExampleBlocks(const Json& value, const RagOptions& options);

}  // namespace banyan
