#include "plan/division_cost.h"

#include <algorithm>
#include <cmath>

namespace banyan {
namespace {

ModelSizes SizesOfShard(const DivisionSizes& sizes, int shards) {
  ModelSizes own = sizes.model;
  own.row_parameters /= shards;
  own.logit_parameters /= shards;
  own.weight_bytes /= shards;
  if (shards <= sizes.kv_heads) {  // the shard with the most heads
    const double share = std::ceil(static_cast<double>(sizes.kv_heads) / shards) / sizes.kv_heads;
    own.heads = static_cast<int>(std::ceil(own.heads * share));
    own.kv_bytes_per_key *= share;
  }
  return own;
}

double SecondsOfPhase(const ModelSizes& model, const StepWork& work, double steps,
                      const MachineRates& machine) {
  if (work.rows <= 0.0) return 0.0;
  StepCost cost = CostOf(model, work);
  cost.weight_bytes *= std::max(1.0, steps);  // CostOf reads them once
  return LimitSeconds(cost, machine);
}

}  // namespace

double SecondsOfDivision(const DivisionSizes& sizes, const JobWork& work, int devices, int shards,
                         const MachineRates& machine, const LinkRates& link) {
  const double answers = work.answers / devices;
  const double prefill_rows = work.prefill_rows / devices;
  const double decode_rows = work.decode_rows / devices;
  const double keys_seen = work.prompt_tokens / std::max(1.0, work.answers);  // by a row
  const double streams = std::clamp(work.streams, 1.0, std::max(1.0, answers));
  const double prefill_steps = std::ceil(prefill_rows / std::max(1.0, work.step_rows));
  const double decode_steps = std::ceil(decode_rows / streams);
  const ModelSizes model = SizesOfShard(sizes, shards);
  const StepWork prefill{prefill_rows, answers, prefill_rows * keys_seen / 2.0, prefill_rows};
  // Streams that decode at once read what is stored for their share of the answers.
  const double stored = work.prefill_rows / std::max(1.0, work.answers) * streams;
  const StepWork decode{decode_rows, decode_rows, decode_rows * keys_seen, decode_steps * stored};
  double seconds = SecondsOfPhase(model, prefill, prefill_steps, machine) +
                   SecondsOfPhase(model, decode, decode_steps, machine);
  if (shards > 1) {
    const double rows = prefill_rows + decode_rows;
    const double bytes =
        rows * sizes.gathered_bytes + (answers + decode_rows) * sizes.gathered_logit_bytes;
    seconds += bytes * (shards - 1) / shards / link.bytes_per_second;
    seconds += (prefill_steps + decode_steps) * sizes.gathers * link.gather_seconds;
  }
  return seconds;
}

}  // namespace banyan
