// Requests → waiting streams: every answer of the tree becomes a stream with its declared path.
#include <cmath>

#include "base/error.h"
#include "engine/engine_state.h"

namespace banyan {
namespace {

void CheckTokens(std::span<const TokenId> tokens, int vocab_size) {
  for (const TokenId token : tokens) {
    if (token < 0 || token >= vocab_size) {
      Throw(ErrorKind::kInput, "token id {} is out of range: expected 0 to {}", token,
            vocab_size - 1);
    }
  }
}

// Written so that NaN is refused too.
void CheckSampling(const SamplingOptions& sampling) {
  const auto check = [](bool good, const char* name, double found, const char* expected) {
    if (!good) Throw(ErrorKind::kInput, "{} is {}: expected {}", name, found, expected);
  };
  check(sampling.temperature >= 0.0f && std::isfinite(sampling.temperature), "temperature",
        sampling.temperature, "0 or more");
  check(sampling.top_k >= 0, "top_k", sampling.top_k, "0 or more");
  check(sampling.top_p >= 0.0f && sampling.top_p <= 1.0f, "top_p", sampling.top_p, "0 to 1");
  check(sampling.min_p >= 0.0f && sampling.min_p <= 1.0f, "min_p", sampling.min_p, "0 to 1");
  check(sampling.repetition_penalty > 0.0f && std::isfinite(sampling.repetition_penalty),
        "repetition_penalty", sampling.repetition_penalty, "more than 0");
}

void CheckAnswer(const AnswerRequest& answer, const Model::Parts& model) {
  CheckTokens(answer.forced, model.config.vocab_size);
  CheckSampling(answer.sampling);
  if (answer.max_new < 0)
    Throw(ErrorKind::kInput, "max_new is {}: expected 0 or more", answer.max_new);
  if (answer.top_logprobs < 0) {
    Throw(ErrorKind::kInput, "top_logprobs is {}: expected 0 or more", answer.top_logprobs);
  }
  for (const std::string& stop : answer.stop_strings) {
    if (stop.empty()) Throw(ErrorKind::kInput, "a stop string is empty");
  }
  if (!answer.stop_strings.empty() && model.text == nullptr) {
    Throw(ErrorKind::kInput, "stop strings need a tokenizer, and the model's files have none");
  }
}

// Walks the tree with the path to the current segment and hands out one stream per answer.
class Flattener {
 public:
  Flattener(const Model::Parts& model, bool sequential) : model_(model), sequential_(sequential) {}

  std::vector<std::unique_ptr<Stream>> Flatten(PromptSegment& root) {
    Visit(root);
    return std::move(streams_);
  }

 private:
  void Visit(PromptSegment& segment) {
    CheckTokens(segment.tokens, model_.config.vocab_size);
    const bool named = !segment.tokens.empty();
    if (named) {
      path_.push_back(std::make_shared<const std::vector<TokenId>>(std::move(segment.tokens)));
    }
    for (AnswerRequest& answer : segment.answers) {
      CheckAnswer(answer, model_);
      AddStream().wanted.push_back(std::move(answer));
    }
    if (sequential_ && AllLeaves(segment)) {
      OneAfterAnother(segment);
    } else {
      for (PromptSegment& child : segment.below) Visit(child);
    }
    if (named) path_.pop_back();
  }

  static bool AllLeaves(const PromptSegment& segment) {
    bool leaves = !segment.below.empty();
    for (const PromptSegment& child : segment.below) leaves = leaves && child.below.empty();
    return leaves;
  }

  // All questions in one prompt, their answers written in turn.
  void OneAfterAnother(PromptSegment& segment) {
    const size_t depth = path_.size();
    std::deque<AnswerRequest> wanted;
    for (PromptSegment& child : segment.below) {
      CheckTokens(child.tokens, model_.config.vocab_size);
      if (!child.tokens.empty()) {
        path_.push_back(std::make_shared<const std::vector<TokenId>>(std::move(child.tokens)));
      }
      for (AnswerRequest& answer : child.answers) {
        CheckAnswer(answer, model_);
        wanted.push_back(std::move(answer));
      }
    }
    if (!wanted.empty()) AddStream().wanted = std::move(wanted);
    path_.resize(depth);
  }

  Stream& AddStream() {
    auto stream = std::make_unique<Stream>();
    for (const TokensRef& segment : path_) {
      stream->segments.push_back(segment);
      stream->prompt_tokens += static_cast<int>(segment->size());
    }
    if (stream->prompt_tokens == 0) {
      Throw(ErrorKind::kInput, "the prompt is empty: expected at least one token");
    }
    const int room = model_.config.context_length;
    if (stream->prompt_tokens > room) {
      Throw(ErrorKind::kLimit, "the prompt has {} tokens: the model's context holds {}",
            stream->prompt_tokens, room);
    }
    streams_.push_back(std::move(stream));
    return *streams_.back();
  }

  const Model::Parts& model_;
  const bool sequential_;
  std::vector<TokensRef> path_;
  std::vector<std::unique_ptr<Stream>> streams_;
};

}  // namespace

void Engine::State::Submit(PromptSegment request) {
  const bool sequential = options_.strategy == Strategy::kSequential;
  std::vector<std::unique_ptr<Stream>> streams =
      Flattener(model_->parts(), sequential).Flatten(request);
  for (std::unique_ptr<Stream>& stream : streams) {
    // A stack takes so many contexts, and of a context so many questions; the rest opens a new one.
    const void* context =
        stream->segments.size() < 2 ? nullptr : stream->segments[stream->segments.size() - 2].get();
    const bool new_context = context == nullptr || context != last_context_;
    const int most_questions = options_.questions_per_stack;
    if (new_context) {
      ++stack_contexts_;
      context_questions_ = 0;
    }
    ++context_questions_;
    const bool questions_full = most_questions > 0 && context_questions_ > most_questions;
    if (stack_contexts_ > options_.contexts_per_stack || questions_full) {
      ++stack_;
      stack_contexts_ = 1;
      context_questions_ = 1;
    }
    last_context_ = context;
    stream->stack = stack_;
    ++receipt_.streams;
    waiting_.push_back(std::move(stream));
  }
}

}  // namespace banyan
