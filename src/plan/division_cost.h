// What a job would take on several devices: a whole model on each, with the documents divided, or
// one model in shards that gather what others computed. A prediction from counts and rates;
// nothing here measures anything.
#pragma once

#include "plan/cost.h"

namespace banyan {

// What shards divide of a model: its weights, and the work with them.
struct DivisionSizes {
  ModelSizes model;                 // of the whole model on one device
  double weight_bytes = 0;          // resident
  int kv_heads = 0;                 // shards beyond them keep all keys
  double gathered_bytes = 0;        // of a row, all layers together
  double gathered_logit_bytes = 0;  // of a row whose logits are wanted
  double gathers = 0;               // of a step
};

// Between two devices, each way, while all others are busy too.
struct LinkRates {
  double bytes_per_second = 0;
  double gather_seconds = 0;  // that a gather takes beside its bytes: launches, and meeting
};

struct JobWork {
  double prefill_rows = 0, decode_rows = 0;  // tokens
  double answers = 0;
  double prompt_tokens = 0;  // as if every answer were asked alone
  double step_rows = 0;      // most rows of a step
  double streams = 0;        // that decode at once, at most
};

// Seconds of `work` on one of `devices` that divide its documents, where `shards` devices together
// are one of these. REQUIRES: both at least 1; rates > 0.
[[nodiscard]] double SecondsOfDivision(const DivisionSizes& sizes, const JobWork& work, int devices,
                                       int shards, const MachineRates& machine,
                                       const LinkRates& link);

}  // namespace banyan
