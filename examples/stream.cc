// The engine as a service: it computes on a thread of its own, answers come token by token, and one
// of them is cancelled half-way. Needs no model file: the weights are random.
#include <cstdio>

#include "banyan/engine.h"

using banyan::AnswerEvent;
using banyan::AnswerRequest;
using banyan::Engine;
using banyan::Model;
using banyan::PromptSegment;

int main() {
  Engine engine(Model::Random("tiny", "bf16", {}), {});
  engine.Start();

  PromptSegment document;
  for (int i = 0; i < 300; ++i) document.tokens.push_back(i % 97);
  for (int question = 0; question < 3; ++question) {
    PromptSegment branch;
    branch.tokens = {100 + question, 7, 9};
    AnswerRequest answer;
    answer.tag = static_cast<std::uint64_t>(question);
    answer.max_new = question == 1 ? 3000 : 8;
    answer.stream = true;
    branch.answers.push_back(answer);
    document.below.push_back(branch);
  }
  const banyan::RequestId request = engine.Submit(std::move(document));

  int ended = 0;
  while (ended < 3) {
    for (const AnswerEvent& event : engine.TakeEvents(/*seconds=*/1.0)) {
      for (const banyan::TokenId token : event.tokens) {
        std::printf("answer %llu: token %d\n", static_cast<unsigned long long>(event.tag), token);
      }
      if (event.ended) {
        std::printf("answer %llu: %s after %zu tokens\n",
                    static_cast<unsigned long long>(event.tag),
                    banyan::FinishReasonName(event.answer.finish), event.answer.tokens.size());
        ++ended;
      } else if (event.tag == 1) {
        engine.Cancel(request, 1);  // one token is enough
      }
    }
  }
  const bool free = engine.receipt().kv_bytes_held == 0;
  std::printf("memory: %s\n", free ? "all given back" : "STILL HELD");
  return free ? 0 : 1;
}
