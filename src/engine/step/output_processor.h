// Reads the tokens of a launched step: appends them to their streams, tests for stops and makes
// events. Streams whose last answer has ended are retired.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "banyan/engine.h"
#include "engine/memory/stream_memory.h"
#include "engine/request/answer_events.h"
#include "engine/schedule/admission_preemption.h"
#include "engine/schedule/in_flight.h"
#include "load/model_parts.h"

namespace banyan {

class OutputProcessor {
 public:
  struct Parts {
    StreamMemory& memory;
    InFlightSteps& in_flight;
    Admission& admission;
    AnswerEvents& events;
  };
  // All arguments must outlive this object.
  OutputProcessor(const Model::Parts& model, const Parts& parts);

  // Waits for the step. Throws what the backend does; then all steps in flight are dropped, as if
  // they had not been launched. REQUIRES: no caller iterates over the running streams.
  void TakeStep(LaunchedStep& step);
  // Appends the next token to the answer that the stream writes. May retire the stream. `of_owner`:
  // the second choice of a stream whose experts take turns (SamplingBatch::AddOwners), or null.
  void Take(Stream& stream, const TokenChoice& chosen, const TokenChoice* of_owner = nullptr);
  // Ends the answer being written. A stream of several answers continues with the next one that is
  // still wanted; any other is retired.
  void FinishAnswer(Stream& stream, FinishReason reason, const std::string& why);

  void Report(Receipt& receipt) const;

 private:
  static TokenChoice OfTurn(Stream& stream, const TokenChoice& of_all, const TokenChoice* of_owner);
  void KeepPrompt(Stream& stream, const LaunchedStep& step, size_t choice);
  bool AddText(Stream& stream, bool stop_token);

  const int vocabulary_;
  Kernels& kernels_;
  const std::shared_ptr<const Text> text_;  // null: the model has none
  StreamMemory& memory_;
  InFlightSteps& in_flight_;
  Admission& admission_;
  AnswerEvents& events_;
  std::int64_t dropped_rows_ = 0;
  double wait_seconds_ = 0.0;
};

}  // namespace banyan
