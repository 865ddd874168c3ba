// Sample documents of an input, and the values that a model finds in them: a job in memory.
#pragma once

#include <nlohmann/json.hpp>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "banyan/extract.h"
#include "banyan/job.h"
#include "tasks/input/input.h"

namespace banyan {

// The first documents of the input, `most` at most: with words, and different from one another.
// `job.notice` hears what was left out and why. Throws kUsage when there are fewer than `least`.
std::vector<InputRow> ReadSamples(const JobOptions& job, size_t least, size_t most);

// The rows of `banyan extract`, in the order of the samples. Throws as RunExtract; a document that
// cannot be done has an `error` in its row.
std::vector<nlohmann::ordered_json> ExtractSamples(std::shared_ptr<Model> model,
                                                   const EngineOptions& engine_options,
                                                   const ExtractOptions& extract,
                                                   const std::vector<InputRow>& samples);

}  // namespace banyan
