// What a job would do and about how long it would take, before it runs: `--dry-run`. The texts of
// estimates and receipts (banyan/job.h) are in job_receipt.cc.
#pragma once

#include <memory>

#include "banyan/engine.h"
#include "banyan/job.h"
#include "tasks/job/task.h"

namespace banyan {

// Makes the prompts of the whole input and answers the first few for some seconds.
JobEstimate EstimateJob(std::shared_ptr<Model> model, const EngineOptions& engine_options,
                        Task& task, const JobOptions& job);

}  // namespace banyan
