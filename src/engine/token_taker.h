// The tokens of a launched step: appended to their streams, tested for stops, delivered. Streams
// whose last answer has ended leave.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "banyan/engine.h"
#include "engine/admission.h"
#include "engine/deliveries.h"
#include "engine/steps_under_way.h"
#include "engine/stream_memory.h"
#include "load/model_parts.h"

namespace banyan {

class TokenTaker {
 public:
  struct Parts {
    StreamMemory& memory;
    StepsUnderWay& under_way;
    Admission& admission;
    Deliveries& deliveries;
  };
  // All arguments must outlive this object.
  TokenTaker(const Model::Parts& model, const Parts& parts);

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
  StepsUnderWay& under_way_;
  Admission& admission_;
  Deliveries& deliveries_;
  std::int64_t dropped_rows_ = 0;
  double wait_seconds_ = 0.0;
};

}  // namespace banyan
