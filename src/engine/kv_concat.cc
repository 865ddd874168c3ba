// KV concatenation: memory and steps of one answer.
#include "engine/kv_concat.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "decode/answer_text.h"
#include "engine/request/strategy.h"
#include "load/model_parts.h"
#include "model/forward.h"

namespace banyan {
namespace {

constexpr int kStepRows = 512;

std::int32_t PagesFor(std::int32_t tokens) { return (tokens + kPageTokens - 1) / kPageTokens; }

}  // namespace

// The memory and the steps of one answer.
struct KvConcat::Run {
  // A segment in KV memory.
  struct Segment {
    std::int32_t first_position = 0, filled = 0;
    std::vector<std::int32_t> pages;
  };

  explicit Run(Model::Parts& model)
      : model(model), forward(model.config, model.weights, *model.kernels, kStepRows, 1) {
    const ModelConfig& config = model.config;
    const AttentionShape shape{config.heads, config.kv_heads, config.head_dim};
    plan_options = PlanOptionsFor(Strategy::kTree, shape, *model.kernels);
  }

  Segment NewSegment(std::int32_t first_position, std::int32_t most_tokens) {
    Segment segment;
    segment.first_position = first_position;
    segment.pages.resize(static_cast<size_t>(PagesFor(most_tokens)));
    std::iota(segment.pages.begin(), segment.pages.end(), pages);
    pages += static_cast<std::int32_t>(segment.pages.size());
    return segment;
  }

  // Computes the tokens as what follows in the last of the segments, which see those before them.
  // `context`: its spans are the first of those. Returns the logits after the last token.
  Tensor Feed(std::span<const TokenId> tokens, std::span<Segment* const> path,
              const ParallelContext& context = {}) {
    Segment& own = *path.back();
    Tensor logits;
    for (size_t begin = 0; begin < tokens.size(); begin += kStepRows) {
      const size_t rows = std::min(tokens.size() - begin, static_cast<size_t>(kStepRows));
      Batch batch;
      for (size_t i = 0; i < rows; ++i) {
        const std::int32_t key = own.filled + static_cast<std::int32_t>(i);
        batch.tokens.push_back(tokens[begin + i]);
        batch.positions.push_back(own.first_position + key);
        batch.slots.push_back(own.pages[static_cast<size_t>(key / kPageTokens)] * kPageTokens +
                              key % kPageTokens);
      }
      batch.logit_rows = {static_cast<std::int32_t>(rows) - 1};
      own.filled += static_cast<std::int32_t>(rows);
      logits = forward.Run(batch, PlanFor(path, batch, context), *kv);
    }
    return logits;
  }

  AttentionPlan PlanFor(std::span<Segment* const> path, const Batch& batch,
                        const ParallelContext& context) const {
    std::vector<PlanNode> nodes;
    for (const Segment* segment : path) {
      if (segment->filled == 0) continue;
      PlanNode& node = nodes.emplace_back();
      node.parent = static_cast<std::int32_t>(nodes.size()) - 2;
      node.length = segment->filled;
      node.first_position = segment->first_position;
      node.pages = std::span(segment->pages).first(static_cast<size_t>(PagesFor(segment->filled)));
    }
    nodes.back().row_end = batch.rows();
    PlanOptions options = plan_options;
    options.context = context;
    return BuildPlan(nodes, batch.positions, options);
  }

  Model::Parts& model;
  ForwardPass forward;
  PlanOptions plan_options;
  std::shared_ptr<KvMemory> kv;
  std::int32_t pages = 0;
};

KvConcat::KvConcat(std::shared_ptr<Model> model, const KvConcatOptions& options)
    : model_(std::move(model)), options_(options) {
  if (model_->keeps_states()) {
    Throw(ErrorKind::kUnsupported,
          "kv-concat joins documents by their keys, and layers of {} keep states",
          model_->parts().config.family);
  }
}
KvConcat::~KvConcat() = default;

Answer KvConcat::Ask(const KvConcatPrompt& prompt, const AnswerRequest& wanted) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  const std::lock_guard lock(busy_);
  Model::Parts& model = model_->parts();
  model.kernels->EnterThread();
  const ModelConfig& config = model.config;
  const auto size = [](const std::vector<TokenId>& tokens) {
    return static_cast<std::int32_t>(tokens.size());
  };
  std::int32_t longest = 0;
  for (const auto& document : prompt.documents) longest = std::max(longest, size(document));
  const std::int32_t after = size(prompt.system) + longest;
  const std::int32_t end = after + size(prompt.question);
  if (end >= config.context_length || prompt.question.empty()) {
    Throw(ErrorKind::kLimit,
          "the system prompt, the longest document and the question have {} tokens: the model's "
          "context holds {}",
          end, config.context_length);
  }
  const std::int32_t most = std::min(wanted.max_new, config.context_length - end);
  Run run(model);
  Run::Segment system = run.NewSegment(0, size(prompt.system));
  std::vector<Run::Segment> documents;
  for (const auto& document : prompt.documents) {
    documents.push_back(run.NewSegment(size(prompt.system), size(document)));
  }
  // A short question and its answer are one segment, as in the engine (tree/forest.h).
  const bool one_segment = size(prompt.question) <= kCutKeys / 2;
  Run::Segment question = run.NewSegment(after, size(prompt.question) + (one_segment ? most : 0));
  Run::Segment tail = run.NewSegment(end, one_segment ? 0 : most);
  run.kv = model.kernels->NewKvMemory(KvShapeOf(config), run.pages);

  Answer answer;
  answer.tag = wanted.tag;
  answer.prompt_tokens = size(prompt.system) + size(prompt.question);
  std::vector<Run::Segment*> path;  // of question and answer
  run.Feed(prompt.system, std::vector{&system});
  for (size_t i = 0; i < documents.size(); ++i) {
    run.Feed(prompt.documents[i], std::vector{&system, &documents[i]});
    answer.prompt_tokens += size(prompt.documents[i]);
    if (documents[i].filled > 0) path.push_back(&documents[i]);
  }
  // A context that is weighed by itself comes before all else that is read with it.
  ParallelContext context;
  if (options_.temperature != 1.0 || options_.scale != 1.0) {
    context = {static_cast<std::int32_t>(path.size()), static_cast<float>(options_.temperature),
               static_cast<float>(options_.scale)};
  }
  path.insert(path.begin() + context.spans, &system);
  path.push_back(&question);
  Tensor logits = run.Feed(prompt.question, path, context);
  if (!one_segment) path.push_back(&tail);

  std::unique_ptr<AnswerText> text;
  if (!wanted.stop_strings.empty()) {
    text = std::make_unique<AnswerText>(model.text->parts().tokenizer, wanted.stop_strings);
  }
  while (static_cast<std::int32_t>(answer.tokens.size()) < most) {
    const SamplingRow greedy;
    TokenChoice choice;
    model.kernels->SelectTokens(logits, std::span(&greedy, 1), std::span(&choice, 1));
    if (choice.token == kNoToken) Throw(ErrorKind::kInput, "no token has a finite logit");
    answer.tokens.push_back(choice.token);
    answer.logprobs.push_back(choice.logprob);
    if (answer.tokens.size() == 1) answer.first_token_seconds = seconds();
    if (std::ranges::find(wanted.stop_tokens, choice.token) != wanted.stop_tokens.end()) {
      answer.finish = FinishReason::kStopToken;
      break;
    }
    if (text && text->Push(choice.token)) {
      answer.finish = FinishReason::kStopString;
      break;
    }
    if (static_cast<std::int32_t>(answer.tokens.size()) == most) break;
    logits = run.Feed(std::span(&choice.token, 1), path, context);
  }
  if (text) answer.text = text->Finish();
  answer.seconds = seconds();
  return answer;
}

}  // namespace banyan
