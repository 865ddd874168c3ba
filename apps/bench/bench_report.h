// What a benchmark found, for people and for machines.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "bench_run.h"

namespace banyan::app {

// One job: a line of what it was, a table of strategies, a line of what the columns mean.
void PrintWork(const WorkResult& result, const Model& model);

// Several jobs that differ in streams and shared tokens: decode steps alone, a line for each job
// and strategy. `target` (may be null) gives the tokens/s that a job should reach; 0: none.
void PrintGrid(const std::vector<WorkResult>& results, const Model& model,
               double (*target)(const Work& work));

nlohmann::ordered_json JsonOf(const WorkResult& result, const Model& model);

// To the file, which `bench` has guarded, or to stdout when it is "-". Throws kIo.
void WriteJson(const std::string& file, const nlohmann::ordered_json& json);

}  // namespace banyan::app
