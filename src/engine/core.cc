// EngineCore: construction, the loop of steps, cancellation, and what is reported about the work.
#include "engine/core.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/timing.h"
#include "engine/request/strategy.h"
#include "engine/sharing_forest.h"
#include "plan/explain.h"

namespace banyan {
namespace {

// Rows of a step with both decode rows and prefill rows, by default. On a device (an H200
// with an 8B model) steps of 2048 rows take half the time of full ones and lose 2 % of throughput;
// 1024 rows would take a quarter and lose 3 %. `bench arrival` measures it.
constexpr int kHostMixedRows = 256, kDeviceMixedRows = 2048;

// A step ahead costs a row for every stream that stops, which only pays where the host would
// otherwise keep a device waiting.
// A state that a dropped row has changed could not be taken back.
size_t StepsAhead(const EngineOptions& options, const Model::Parts& model) {
  if (model.config.states.any()) return 0;
  const Kernels& kernels = *model.kernels;
  if (options.steps_ahead < 0) return kernels.asynchronous() ? 1 : 0;
  return static_cast<size_t>(std::min(options.steps_ahead, 1));
}

int MixedRows(const EngineOptions& options, const Kernels& kernels, int batch_rows) {
  if (options.mixed_rows < 0) return batch_rows;
  if (options.mixed_rows > 0) return std::min(options.mixed_rows, batch_rows);
  return std::min(kernels.asynchronous() ? kDeviceMixedRows : kHostMixedRows, batch_rows);
}

Scheduler::Limits LimitsFor(const EngineOptions& options, const Kernels& kernels,
                            const EngineMemory& memory) {
  return {memory.logit_rows, MixedRows(options, kernels, memory.batch_rows),
          options.mixed_rows >= 0};
}

// Costs are measured before KV takes the memory.
EngineMemory MemoryAfterCosts(const EngineOptions& options, Model::Parts& model) {
  RefuseForStates(model.config, options);
  model.Costs(options.measure_costs);
  return AllocateMemory(options, model);
}

// How long a step waits for the KV store when there is nothing to compute before something is
// loaded. Callers that want the engine's lock wait as long.
constexpr double kLoadWaitSeconds = 0.01;

const char* WhyStrategy(Strategy strategy) {
  switch (strategy) {
    case Strategy::kFlat:
      return "every stream alone, its prompt stored and computed for itself (asked for)";
    case Strategy::kPaged:
      return "prompts stored once, read once per stream (asked for)";
    case Strategy::kStacked:
      return "rows of a stack meet all keys of the stack under a mask (asked for)";
    case Strategy::kTree:
      return "every shared segment read once for all streams under it (asked for)";
    case Strategy::kAuto:
      return "per node, read once for all streams under it, or once per stream where that is "
             "predicted to be clearly faster";
    case Strategy::kSequential:
      return "all questions in one prompt, answers in turn: a comparison, not the same answers";
    case Strategy::kNoAttention:
      return "attention left out: a ceiling for throughput, wrong answers";
  }
  return "";
}

// [segments] how many answers read each, ended and waiting ones included.
std::vector<std::int32_t> SegmentReaders(const RequestTree& request) {
  std::vector<std::int32_t> readers(request.segments.size());
  for (const RequestStream& stream : request.streams) {
    for (std::int32_t segment : request.LeavesOf(stream)) {
      while (segment >= 0) {
        ++readers[static_cast<size_t>(segment)];
        segment = request.segments[static_cast<size_t>(segment)].parent;
      }
    }
  }
  return readers;
}

}  // namespace

EngineCore::Parts::Parts(const Model::Parts& model, const EngineOptions& options,
                         EngineMemory& engine_memory, AnswerEvents& events)
    : stream_memory(model, *engine_memory.kv, options),
      admission(options, engine_memory.max_streams, {stream_memory, in_flight, events}),
      skeletons(admission.running(), stream_memory),
      scheduler(LimitsFor(options, *model.kernels, engine_memory), admission, stream_memory,
                skeletons),
      plan(options, model, {admission.running(), stream_memory, skeletons}),
      launcher(options, model, {engine_memory, admission.running(), stream_memory, in_flight}),
      output(model, {stream_memory, in_flight, admission, events}) {}

EngineCore::EngineCore(std::shared_ptr<Model> model, size_t device, const EngineOptions& options)
    : model_(std::move(model)),
      copy_(model_->parts(device)),
      options_(options),
      memory_(MemoryAfterCosts(options, copy_)),
      steps_ahead_(StepsAhead(options, copy_)),
      row_limit_(memory_.batch_rows),
      parts_(std::make_unique<Parts>(copy_, options_, memory_, events_)) {}

// The loop: launch a step, then read the tokens of the one before it. While the backend computes
// one step, the host reads tokens, tests for stops, admits streams and plans the next step; the
// tokens that the next step feeds go from sampling to embedding without the host. A stream that
// ends with a token of step t may have a row in step t + 1: the row writes to the stream's own page
// and its result is dropped.
//
// With steps_ahead 0 every step's tokens are read before the next is planned. This plain loop is
// the reference for the other; the answers are the same.
bool EngineCore::Step() {
  const size_t deliveries_before = events_.size();
  const bool launched = LaunchNext();
  if (parts_->in_flight.empty() &&
      parts_->stream_memory.loads()) {  // the running streams wait for the disk
    parts_->stream_memory.TakeLoaded(kLoadWaitSeconds);
    return true;
  }
  // Streams that could not be admitted have failed: the caller must still read their events.
  if (parts_->in_flight.empty()) return events_.size() > deliveries_before;
  const size_t may_stay = launched && !parts_->in_flight.latest().take_at_once ? steps_ahead_ : 0;
  while (parts_->in_flight.size() > may_stay) TakeOldest();
  return true;
}

bool EngineCore::HasRoom() {
  Timer timer(times_.plan_seconds);
  parts_->stream_memory.TakeLoaded(0.0);
  parts_->admission.Admit();
  parts_->stream_memory.CopyPrefixes();
  return parts_->admission.waiting().empty();
}

// Hands the next step to the backend; false when there is nothing to compute before tokens are
// read. Where the backend refuses memory for a step, smaller ones are tried.
bool EngineCore::LaunchNext() {
  if (parts_->in_flight.empty()) step_began_ = Timer::Clock::now();
  for (;;) {
    int rows = 0;
    try {
      {
        Timer timer(times_.plan_seconds);
        parts_->stream_memory.TakeLoaded(0.0);
        parts_->admission.Admit();
        parts_->stream_memory.CopyPrefixes();
        rows = parts_->scheduler.Decide(row_limit_.rows()).rows();
        if (rows == 0 && parts_->admission.running().empty() &&
            !parts_->admission.waiting().empty()) {
          continue;  // all were preempted or failed
        }
        if (rows == 0) return false;
        parts_->plan.Build(parts_->scheduler.decision());
      }
      Timer timer(times_.forward_seconds);
      parts_->launcher.Launch(parts_->scheduler, parts_->plan);
      row_limit_.Launched();
      return true;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kLimit || rows <= 1) throw;
    }
    // A step in flight may hold memory, and its tokens change the next decision.
    while (!parts_->in_flight.empty()) TakeOldest();
    row_limit_.Refused(rows);
  }
}

void EngineCore::TakeOldest() {
  LaunchedStep step = parts_->in_flight.TakeOldest();
  const std::int64_t tokens_before = events_.tokens();
  {
    Timer timer(times_.choose_seconds);
    parts_->output.TakeStep(step);
  }
  const auto now = Timer::Clock::now();
  const double seconds = std::chrono::duration<double>(now - step_began_).count();
  step_began_ = now;
  (step.decode_only ? times_.decode_step_seconds : times_.prefill_step_seconds) += seconds;
  if (step.decode_only) {
    ++times_.decode_steps;
    times_.decode_step_tokens += events_.tokens() - tokens_before;
  }
  parts_->in_flight.Recycle(std::move(step));
}

void EngineCore::Cancel(RequestId id, std::optional<std::uint64_t> tag) {
  const std::shared_ptr<RequestTree> request = events_.Find(id);
  if (!request) return;
  if (tag) {
    CancelTagged(request, *tag);
  } else {
    for (size_t i = 0; i < request->streams.size(); ++i) {
      parts_->admission.End(request, static_cast<std::int32_t>(i), FinishReason::kCancelled, "");
    }
  }
  parts_->admission.ForgetRemoved();
}

void EngineCore::CancelTagged(const std::shared_ptr<RequestTree>& request, std::uint64_t tag) {
  auto& by_tag = request->streams_by_tag;
  if (by_tag.empty()) {
    for (size_t i = 0; i < request->streams.size(); ++i) {
      const RequestStream& stream = request->streams[i];
      for (std::int32_t a = stream.first_answer; a < stream.end_answer; ++a) {
        by_tag.emplace(request->answers[static_cast<size_t>(a)].tag, static_cast<std::int32_t>(i));
      }
    }
  }
  const auto [begin, end] = by_tag.equal_range(tag);
  for (auto it = begin; it != end; ++it) {
    RequestStream& declared = request->streams[static_cast<size_t>(it->second)];
    if (declared.over) continue;
    if (declared.end_answer - declared.first_answer == 1) {
      parts_->admission.End(request, it->second, FinishReason::kCancelled, "");
      continue;
    }
    // One stream writes several answers: the current one ends now, the others when they are next.
    request->cancelled.resize(request->answers.size(), false);
    for (std::int32_t a = declared.first_answer; a < declared.end_answer; ++a) {
      if (request->answers[static_cast<size_t>(a)].tag == tag) {
        request->cancelled[static_cast<size_t>(a)] = true;
      }
    }
    if (!declared.running.valid()) continue;
    Stream& stream = parts_->admission.running().at(declared.running);
    if (stream.wanted().tag != tag) continue;
    parts_->in_flight.Forget(stream);
    parts_->output.FinishAnswer(stream, FinishReason::kCancelled, "");
  }
}

void EngineCore::EndAll(FinishReason reason, const std::string& why) {
  for (const std::shared_ptr<RequestTree>& request : events_.OpenRequests()) {
    for (size_t i = 0; i < request->streams.size(); ++i) {
      parts_->admission.End(request, static_cast<std::int32_t>(i), reason, why);
    }
  }
  parts_->admission.ForgetRemoved();
}

void EngineCore::StartAnew(const std::string& why) {
  for (const std::shared_ptr<RequestTree>& request : events_.OpenRequests()) {
    for (size_t i = 0; i < request->streams.size(); ++i) {
      if (request->streams[i].over) continue;
      const auto index = static_cast<std::int32_t>(i);
      std::unique_ptr<Stream> anew;
      Stream* stream = parts_->admission.Find(request, index);
      if (stream == nullptr) {  // the exception met it on its way from one place to another
        anew = MakeStream(request, index);
        stream = anew.get();
      }
      events_.AddEnds(*stream, FinishReason::kError, why);
    }
  }
  parts_ = std::make_unique<Parts>(copy_, options_, memory_, events_);
}

Receipt EngineCore::MakeReceipt() {
  Receipt receipt = times_;
  events_.Report(receipt);
  parts_->stream_memory.Report(receipt);
  parts_->launcher.Report(receipt);
  parts_->output.Report(receipt);
  receipt.preempted = parts_->admission.preempted();
  receipt.refused_steps = row_limit_.refusals();
  const MachineRates& rates = copy_.Rates();
  receipt.limit_seconds = parts_->launcher.roofline().Seconds(rates);
  receipt.predicted_seconds = parts_->launcher.roofline().PredictedSeconds(rates);
  receipt.decode_limit_seconds = parts_->launcher.roofline().DecodeSeconds(rates);
  return receipt;
}

std::string EngineCore::Explain(WorkAhead& ahead) {
  const Model::Parts& model = copy_;
  const Strategy strategy = options_.strategy;
  std::string text =
      fmt::format("strategy  {}: {}\n", StrategyName(strategy), WhyStrategy(strategy));
  text += fmt::format("backend   {}, {}\n", copy_.kernels->name(), model_->precision());
  text += fmt::format("costs     {}\n", copy_.Costs(false).source);
  text += fmt::format("streams   {} waiting, at most {} at once, {} rows a step\n", waiting(),
                      max_streams(), row_limit_.most());
  const Sharing sharing = FindSharing(parts_->admission.waiting(), model, StorageRules(options_));
  text += DescribeSharing(sharing);
  ahead.answers += waiting();
  ahead.prompt_tokens += static_cast<double>(sharing.all.alone);
  ahead.computed_tokens += static_cast<double>(sharing.all.computed());
  ahead.generated_tokens += static_cast<double>(sharing.tail_tokens);
  const std::int64_t pages = parts_->stream_memory.cache().pool().total();
  const std::int64_t page_bytes = model.kernels->KvPageBytes(KvShapeOf(model.config));
  text += fmt::format(
      "kv        {} tokens of prompts and at most {} of tails; the budget holds {} "
      "({} MiB)\n",
      sharing.all.stored, sharing.tail_tokens, pages * kPageTokens, page_bytes * pages >> 20);
  if (const KvCache& cache = parts_->stream_memory.cache(); cache.slots().any()) {
    const std::int64_t bytes = StateBytesOf(model.config);
    text += fmt::format(
        "states    at most {} of {} bytes: after every text, every {} tokens of a long one, and "
        "one for a short question with its answer; the budget holds {} ({} MiB)\n",
        sharing.states, bytes, PieceTokens(model), cache.slots().total(),
        bytes * cache.slots().total() >> 20);
  }
  parts_->admission.Admit();
  parts_->stream_memory.CopyPrefixes();
  if (parts_->scheduler.Decide(row_limit_.rows()).empty()) return text;
  parts_->plan.Build(parts_->scheduler.decision());
  const Batch& batch = parts_->plan.batch();
  text += "first step\n";
  text += ExplainPlan(parts_->plan.attention(), parts_->plan.nodes(), batch.positions,
                      parts_->plan.options());
  const MachineRates& rates = copy_.Rates();
  if (rates.flops_per_second > 0.0) {
    text += ExplainCost(CountPlan(parts_->plan.attention(), batch.positions),
                        static_cast<double>(batch.logit_rows.size()),
                        parts_->launcher.roofline().sizes(), rates);
  }
  return text;
}

std::vector<ForestNode> EngineCore::Picture(std::span<const RequestId> requests) const {
  const RunningStreams& running = parts_->admission.running();
  const Forest& forest = parts_->stream_memory.forest();
  std::vector<ForestNode> picture;
  std::unordered_map<std::uint64_t, size_t> known;  // serial → place
  const auto show = [&](NodeId id, int level, RequestId request) -> ForestNode& {
    const Node& node = forest.at(id);
    const auto [place, added] = known.try_emplace(node.serial, picture.size());
    if (added) {
      ForestNode& shown = picture.emplace_back();
      shown.id = node.serial;
      shown.parent = node.parent.valid() ? forest.at(node.parent).serial : 0;
      shown.tokens = static_cast<std::int32_t>(node.tokens.size());
      shown.computed = std::min(parts_->stream_memory.cache().filled(id), shown.tokens);
      shown.level = level;
      shown.growing = node.growing;
      shown.request = request;
    }
    return picture[place->second];
  };
  // Every running request counts all readers of a segment, so the number does not change over time.
  std::map<RequestId, std::vector<std::int32_t>> readers;
  std::set<std::pair<std::uint64_t, std::pair<RequestId, std::int32_t>>> counted;
  for (const StreamId id : running.order()) {
    if (!running.Has(id)) continue;
    const Stream& stream = running.at(id);
    const RequestTree& request = *stream.request;
    if (std::ranges::find(requests, request.id) == requests.end()) continue;
    const auto [of_request, first] = readers.try_emplace(request.id);
    if (first) of_request->second = SegmentReaders(request);
    const std::vector<std::int32_t> leaves = request.LeavesOf(stream.declared());
    for (size_t b = 0; b < stream.branches.size(); ++b) {
      const Branch& branch = stream.branches[b];
      const std::vector<std::int32_t> segments = request.PathTo(leaves[b]);
      for (const NodeId node : forest.Path(branch.leaf)) {
        const std::int32_t begin = forest.at(node).first_position;
        int level = 0;
        while (level + 1 < static_cast<int>(segments.size()) &&
               request.segments[static_cast<size_t>(segments[static_cast<size_t>(level)])]
                       .end_position() <= begin) {
          ++level;
        }
        ForestNode& shown = show(node, level, request.id);
        const std::int32_t segment = segments[static_cast<size_t>(level)];
        if (counted.emplace(shown.id, std::pair(request.id, segment)).second) {
          shown.readers += of_request->second[static_cast<size_t>(segment)];
        }
      }
      if (!branch.tail.valid()) continue;
      show(branch.tail, static_cast<int>(segments.size()), request.id).readers = 1;
    }
  }
  return picture;
}

}  // namespace banyan
