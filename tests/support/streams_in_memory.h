// Streams that run without an engine: they are let in, get memory and tokens, and leave, but no
// step computes anything. Keys are marked as computed by hand. For tests of the engine's parts.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "engine/memory/stream_memory.h"
#include "engine/request/answer_events.h"
#include "engine/schedule/admission_preemption.h"
#include "engine/schedule/in_flight.h"
#include "support/byte_model.h"

namespace banyan::testing_support {

inline std::shared_ptr<KvMemory> NewPages(int count) {
  const Model::Parts& model = SharedModel()->parts();
  const ModelConfig& config = model.config;
  return model.kernels->NewKvMemory({config.layers, config.kv_heads, config.head_dim}, count);
}

struct StreamsInMemory {
  explicit StreamsInMemory(int page_count, int max_streams = 100)
      : pages(NewPages(page_count)),
        memory(SharedModel()->parts(), *pages, {}),
        admission({}, max_streams, {memory, in_flight, events}) {}

  std::shared_ptr<RequestTree> Submit(PromptSegment root, RequestId id, int priority = 0) {
    std::shared_ptr<RequestTree> tree = MakeRequestTree(root, /*sequential=*/false);
    tree->id = id;
    tree->priority = priority;
    tree->submitted = RequestTree::Clock::now();
    admission.Add(tree);
    return tree;
  }
  // A request of one answer over a prompt of so many tokens that no other request has.
  std::shared_ptr<RequestTree> Submit(int tokens, RequestId id, int priority = 0) {
    return Submit(Prompt(Tokens(tokens, static_cast<std::uint32_t>(id)), {Ask(id, 150)}), id,
                  priority);
  }

  const RunningStreams& running() const { return admission.running(); }
  Stream& at(size_t place) const { return running().at(running().order()[place]); }
  // By rank. Checks the parts' invariants too.
  std::vector<RequestId> RunningRequests() {
    admission.ForgetRemoved();
    running().CheckInvariants();
    memory.CheckInvariants();
    std::vector<RequestId> requests;
    for (const StreamId id : running().order()) requests.push_back(running().at(id).request->id);
    return requests;
  }

  // As if a step had computed all keys of the stream's prompts.
  void ComputePrompt(const Stream& stream) {
    for (const Branch& branch : stream.branches) {
      for (const NodeId node : memory.forest().Path(branch.leaf)) {
        memory.MarkFilled(node, memory.Tokens(node));
      }
    }
  }
  // As if a token had been chosen for it.
  void Write(Stream& stream, TokenId token = 1) {
    stream.answer.tokens.push_back(token);
    stream.answer.logprobs.push_back(-1.0f);
    stream.state = Stream::State::kDecode;
    memory.Append(stream, token);
  }

  std::shared_ptr<KvMemory> pages;
  AnswerEvents events;
  InFlightSteps in_flight;
  StreamMemory memory;
  Admission admission;
};

}  // namespace banyan::testing_support
