#include "engine/stack_numbers.h"

namespace banyan {

void StackNumbers::Number(RequestTree& request) {
  for (size_t i = 0; i < request.streams.size(); ++i) {
    RequestStream& stream = request.streams[i];
    if (stream.panel >= 0) {
      stream.stack = ++stack_;
      contexts_ = most_contexts_;
      last_context_ = {};
      continue;
    }
    if (i > 0 && stream.skeleton >= 0 && stream.skeleton == request.streams[i - 1].skeleton) {
      stream.stack = stack_;
      continue;
    }
    const std::int32_t context = request.segments[static_cast<size_t>(stream.leaf)].parent;
    const std::pair here(request.id, context);
    if (context < 0 || here != last_context_) {
      ++contexts_;
      questions_ = 0;
    }
    ++questions_;
    if (contexts_ > most_contexts_ || (most_questions_ > 0 && questions_ > most_questions_)) {
      ++stack_;
      contexts_ = 1;
      questions_ = 1;
    }
    last_context_ = here;
    stream.stack = stack_;
  }
}

}  // namespace banyan
