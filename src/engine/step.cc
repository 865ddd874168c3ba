// One step of the engine: what is next, one forward pass, one token for every stream that has
// logits.
#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "decode/random.h"
#include "engine/engine_state.h"
#include "engine/plan_options.h"

namespace banyan {
namespace {

class Timer {
 public:
  explicit Timer(double& total) : total_(total), start_(std::chrono::steady_clock::now()) {}
  ~Timer() {
    total_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  double& total_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace

bool Engine::State::Step() {
  const auto start = std::chrono::steady_clock::now();
  const size_t finished_before = finished_.size();
  Admit();
  const StepDecision decision = DecideStep(View(), batch_rows_);
  // Streams that could not be admitted have failed: whoever loops must still look at them.
  if (decision.empty()) return finished_.size() > finished_before;
  const BuiltStep* built = nullptr;
  {
    Timer timer(receipt_.plan_seconds);
    built = &BuildStep(decision);
    BuildPlan(built->nodes, built->batch.positions, OptionsForPlan(), plan_);
    limit_.Add(CountPlan(plan_, built->batch.positions),
               static_cast<int>(built->batch.logit_rows.size()), decision.prefill.empty());
  }
  Tensor logits;
  {
    Timer timer(receipt_.forward_seconds);
    logits = forward_.Run(built->batch, plan_, *kv_,
                          {.skip_attention = options_.strategy == Strategy::kNoAttention});
  }
  const std::int64_t tokens_before = receipt_.generated_tokens;
  {
    Timer timer(receipt_.choose_seconds);
    Commit(decision, *built, logits);
  }
  const bool decode_only = decision.prefill.empty();
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  (decode_only ? receipt_.decode_step_seconds : receipt_.prefill_step_seconds) += seconds;
  if (decode_only) {
    ++receipt_.decode_steps;
    receipt_.decode_step_tokens += receipt_.generated_tokens - tokens_before;
  }
  return true;
}

SchedulerView Engine::State::View() const {
  SchedulerView view;
  for (const StreamId id : running_) {
    const Stream& stream = at(id);
    if (stream.state == Stream::State::kDecode) {
      view.decoding.push_back(id);
      continue;
    }
    PrefillView prefill;
    prefill.stream = id;
    for (const NodeId node : forest_.Path(stream.leaf)) {
      const int tokens = static_cast<int>(forest_.at(node).tokens.size());
      prefill.path.push_back({node, tokens, cache_.filled(node)});
    }
    view.prefilling.push_back(std::move(prefill));
  }
  return view;
}

const BuiltStep& Engine::State::BuildStep(const StepDecision& decision) {
  node_rows_.clear();
  for (const PrefillPart& part : decision.prefill) {
    node_rows_.push_back({part.node, part.first_key, part.count, part.logits});
  }
  for (const StreamId id : decision.extend) {
    const NodeId tail = at(id).tail;
    const int last = static_cast<int>(forest_.at(tail).tokens.size()) - 1;
    node_rows_.push_back({tail, last, 1, true});
  }
  if (options_.strategy != Strategy::kStacked) return builder_.Build(node_rows_, {});
  MarkStacks();
  return builder_.Build(node_rows_, [this](NodeId node) {
    const auto it = stack_of_node_.find(node);
    return it == stack_of_node_.end() ? -1 : it->second;
  });
}

// A node that streams of several stacks have on their paths belongs to none.
void Engine::State::MarkStacks() {
  stack_of_node_.clear();
  for (const StreamId id : running_) {
    const Stream& stream = at(id);
    for (const NodeId node : forest_.Path(stream.tail)) {
      const auto [it, added] = stack_of_node_.try_emplace(node, stream.stack);
      if (!added && it->second != stream.stack) it->second = -1;
    }
  }
}

PlanOptions Engine::State::OptionsForPlan() const {
  const AttentionShape shape{config_.heads, config_.kv_heads, config_.head_dim};
  PlanOptions options = PlanOptionsFor(options_.strategy, shape, kernels_);
  if (options_.strategy == Strategy::kTree) options.share_levels = options_.share_levels;
  return options;
}

void Engine::State::Commit(const StepDecision& decision, const BuiltStep& built,
                           const Tensor& logits) {
  ++receipt_.steps;
  receipt_.decode_rows += static_cast<std::int64_t>(decision.extend.size());
  for (const StepBuilder::NodeRows& rows : node_rows_) {
    cache_.MarkFilled(rows.node, rows.first_key + rows.count);
  }
  for (const PrefillPart& part : decision.prefill) receipt_.prefilled_tokens += part.count;

  // A stream's next token comes from its tail's row, or from the row that ends its prompt, which
  // several streams may share.
  std::unordered_map<NodeId, std::int32_t> row_of;
  for (size_t row = 0; row < built.logit_nodes.size(); ++row) {
    row_of[built.logit_nodes[row]] = static_cast<std::int32_t>(row);
  }
  std::vector<StreamId> readers;
  std::vector<SamplingRow> requests;
  for (const StreamId id : running_) {
    Stream& stream = at(id);
    const bool decodes = stream.state == Stream::State::kDecode;
    const auto it = row_of.find(decodes ? stream.tail : stream.leaf);
    if (it == row_of.end()) continue;
    if (!decodes && stream.wanted.front().want_logits) {
      stream.answer.prompt_logits.resize(static_cast<size_t>(config_.vocab_size));
      kernels_.Download(logits, it->second, stream.answer.prompt_logits);
    }
    readers.push_back(id);
    requests.push_back(RequestFor(stream, it->second));
  }
  std::vector<TokenChoice> choices(requests.size());
  {
    Timer timer(receipt_.wait_seconds);
    kernels_.SelectTokens(logits, requests, choices);
  }
  for (size_t i = 0; i < readers.size(); ++i) {
    Stream& stream = at(readers[i]);
    const std::vector<TokenId>& forced = stream.wanted.front().forced;
    const size_t written = stream.answer.tokens.size();
    if (written < forced.size()) {
      TokenChoice& choice = choices[i];
      choice.token = forced[written];
      kernels_.ScoreTokens(logits, std::span(&requests[i].row, 1), std::span(&choice.token, 1),
                           std::span(&choice.logprob, 1));
    }
    TakeToken(stream, choices[i]);
  }
  std::erase_if(running_, [this](StreamId id) { return streams_[id.index()] == nullptr; });
  if (options_.one_by_one && running_.empty()) {
    cache_.EvictAll();
  }
#ifndef NDEBUG
  forest_.CheckInvariants();
  cache_.CheckInvariants();
#endif
}

SamplingRow Engine::State::RequestFor(const Stream& stream, std::int32_t row) const {
  const AnswerRequest& wanted = stream.wanted.front();
  SamplingRow request;
  request.row = row;
  request.temperature = wanted.sampling.temperature;
  request.top_k = wanted.sampling.top_k;
  request.top_p = wanted.sampling.top_p;
  request.min_p = wanted.sampling.min_p;
  request.repetition_penalty = wanted.sampling.repetition_penalty;
  request.top_logprobs = wanted.top_logprobs;
  request.history = stream.answer.tokens;
  request.uniform = UniformOf({wanted.sampling.seed, wanted.request_key, wanted.question_key,
                               wanted.sample_key, stream.answer.tokens.size()});
  return request;
}

void Engine::State::TakeToken(Stream& stream, const TokenChoice& choice) {
  const AnswerRequest& wanted = stream.wanted.front();
  const bool first = stream.answer.tokens.empty();
  if (first) {
    stream.answer.tag = wanted.tag;
    if (!wanted.stop_strings.empty()) {
      stream.stop_strings = std::make_unique<StopStrings>(model_->parts().text->parts().tokenizer,
                                                          wanted.stop_strings);
    }
  }
  const size_t most =
      wanted.forced.empty() ? static_cast<size_t>(wanted.max_new) : wanted.forced.size();
  if (most == 0) return FinishAnswer(stream, FinishReason::kLength);
  stream.answer.tokens.push_back(choice.token);
  stream.answer.logprobs.push_back(choice.logprob);
  if (wanted.top_logprobs > 0) {
    std::vector<ScoredToken>& top = stream.answer.top.emplace_back();
    for (const TokenLogprob& entry : choice.top) top.push_back({entry.token, entry.logprob});
  }
  ++receipt_.generated_tokens;
  // The token is fed by the next step, if there is one: it stands in the tail without KV. Until
  // there is one, logits come from the prompt.
  stream.state = Stream::State::kDecode;
  forest_.Append(stream.tail, choice.token);
  if (wanted.forced.empty()) {
    const std::vector<TokenId>& stops = wanted.stop_tokens;
    if (std::find(stops.begin(), stops.end(), choice.token) != stops.end()) {
      return FinishAnswer(stream, FinishReason::kStopToken);
    }
    if (stream.stop_strings && stream.stop_strings->Push(choice.token)) {
      return FinishAnswer(stream, FinishReason::kStopString);
    }
  }
  const int end_position = forest_.at(stream.tail).end_position();
  if (stream.answer.tokens.size() >= most || end_position >= config_.context_length) {
    FinishAnswer(stream, FinishReason::kLength);
  }
}

void Engine::State::FinishAnswer(Stream& stream, FinishReason reason) {
  stream.answer.tag = stream.wanted.front().tag;
  stream.answer.finish = reason;
  if (stream.stop_strings) stream.answer.text = stream.stop_strings->Finish();
  finished_.push_back(std::move(stream.answer));
  stream.answer = Answer();
  stream.stop_strings.reset();
  stream.wanted.pop_front();
  const bool room = forest_.at(stream.tail).end_position() < config_.context_length;
  if (stream.wanted.empty()) return Retire(stream);
  if (room) return;
  Fail(stream, "the model's context was full before this answer began");
  Retire(stream);
}

// The tail is of no use to anyone; the prompt stays cached until its pages are needed.
void Engine::State::Retire(Stream& stream) {
  forest_.Unpin(stream.tail);
  cache_.Drop(stream.tail);
  cache_.Touch(stream.leaf);
  forest_.Unpin(stream.leaf);
  if (options_.strategy == Strategy::kFlat) {  // private: nobody will ask for it again
    NodeId node = stream.leaf;
    while (node.valid() && forest_.Removable(node)) {
      const NodeId parent = forest_.at(node).parent;
      cache_.Drop(node);
      node = parent;
    }
  }
  const StreamId id = stream.id;
  streams_[id.index()].reset();
  free_ids_.push_back(id);
  no_room_ = false;
}

}  // namespace banyan
