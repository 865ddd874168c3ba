// The tokens of a launched step: appended to their streams, tested for stops, delivered. Streams
// whose last answer has ended leave.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "banyan/engine.h"
#include "engine/memory/stream_memory.h"
#include "engine/request/answer_events.h"
#include "engine/schedule/admission.h"
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

  // Waits for the step. Throws what the backend does; then it is as if nothing had been launched.
  // Nobody may walk along the running streams.
  void TakeStep(LaunchedStep& step);
  // The next token of the answer that the stream writes. The stream may be gone afterwards.
  void Take(Stream& stream, const TokenChoice& choice);
  // Ends the answer being written. A stream of several goes on with the next that is still wanted,
  // any other leaves.
  void FinishAnswer(Stream& stream, FinishReason reason, const std::string& why);

  void Report(Receipt& receipt) const;

 private:
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
