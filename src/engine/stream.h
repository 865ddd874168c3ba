// One answer (or, in sequential comparison runs, several one after another) being written.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "banyan/engine.h"
#include "base/strong_int.h"
#include "decode/stop_strings.h"

namespace banyan {

using TokensRef = std::shared_ptr<const std::vector<TokenId>>;

struct Stream {
  enum class State { kWaiting, kPrefill, kDecode };

  StreamId id;
  State state = State::kWaiting;
  std::vector<TokensRef> segments;   // the declared path, no empty ones
  std::deque<AnswerRequest> wanted;  // the first is being written
  int prompt_tokens = 0;
  int stack = 0;  // stacked: which stack it belongs to

  NodeId leaf;  // the prompt's last node; pinned from admission to the end
  // The growing node: tokens of all answers of the stream, after those that it took over from the
  // leaf (Forest::AddTail).
  NodeId tail;

  int tokens_under_way = 0;  // launched steps that choose a token for it: 0 to 2
  std::int32_t choice = 0;   // among the choices of the latest of them

  Answer answer;                              // the one being written
  std::unique_ptr<StopStrings> stop_strings;  // null: none asked for
};

}  // namespace banyan
