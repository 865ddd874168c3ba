// Shards whose operations wait in queues, as those of GPUs do, around backends that compute at
// once. What shards do between their meetings runs in a random order that their posts and follows
// allow, when something asks for a result; a recorded step is one graph of all shards, replayed in
// such an order. So one machine without a GPU shows an order that is missing, a wait that nothing
// ends, and an operation that is launched while another device is the thread's current one.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.h"
#include "support/forwarding_kernels.h"

namespace banyan::testing_support {

class QueuedKernels;

// What all queues hold: operations, each after some others.
class Timeline {
 public:
  using Points = std::set<size_t>;  // operations
  using Operation = std::function<void(const StepInputs&)>;
  struct Node {
    Operation operation;
    const QueuedKernels* queue = nullptr;
    std::shared_ptr<const StepInputs> step;  // of the queue when the operation was added
    Points after;
  };
  struct Counts {
    int operations = 0, copies = 0, posts = 0, follows = 0, recorded = 0, replayed = 0, nodes = 0;
  };

  explicit Timeline(unsigned seed) : random_(seed) {}

  size_t Add(Node node) {
    if (recording != nullptr) {
      recording->push_back(std::move(node));
      return recording->size() - 1;
    }
    ++counts.operations;
    const size_t at = nodes_.size();
    Waiting waiting{std::move(node), {}, 0};
    for (const size_t earlier : waiting.node.after) {
      if (nodes_[earlier].node.operation == nullptr) continue;
      nodes_[earlier].later.push_back(at);
      ++waiting.left;
    }
    if (waiting.left == 0) ready_.push_back(at);
    nodes_.push_back(std::move(waiting));
    return at;
  }

  // Runs operations until these have run, others in between.
  void Finish(const Points& points) {
    BANYAN_CHECK(recording == nullptr);  // nothing may wait for what is recorded
    for (const size_t point : points) {
      while (nodes_[point].node.operation != nullptr) RunOne();
    }
  }

  void FinishAll() {
    while (!ready_.empty()) RunOne();
  }

  Counts counts;
  const QueuedKernels* current = nullptr;  // device of the thread
  std::vector<Node>* recording = nullptr;  // that operations go to; null: they are to run
  bool forgets_follows = false;            // so that a test sees that it can fail

 private:
  struct Waiting {
    Node node;  // without an operation: it has run
    std::vector<size_t> later;
    int left = 0;  // operations that must run first
  };

  void RunOne() {
    BANYAN_CHECK(!ready_.empty());  // otherwise operations wait for each other
    std::swap(ready_[random_() % ready_.size()], ready_.back());
    const size_t at = ready_.back();
    ready_.pop_back();
    nodes_[at].node.operation(*nodes_[at].node.step);
    nodes_[at].node = {};
    for (const size_t later : nodes_[at].later) {
      if (--nodes_[later].left == 0) ready_.push_back(later);
    }
  }

  std::mt19937 random_;
  std::vector<Waiting> nodes_;
  std::vector<size_t> ready_;
};

class QueuedKernels final : public ForwardingKernels {
 public:
  QueuedKernels(std::shared_ptr<Timeline> timeline, std::unique_ptr<Kernels> inner)
      : ForwardingKernels(std::move(inner)), timeline_(std::move(timeline)) {}
  ~QueuedKernels() override { timeline_->FinishAll(); }

  bool asynchronous() const override { return true; }
  void EnterThread() override { timeline_->current = this; }

  void Upload(const Batch& batch, const AttentionPlan& plan, const PendingChoices* earlier,
              std::unique_ptr<StepInputs>& step) override {
    auto own = std::make_unique<QueuedStep>();
    std::unique_ptr<StepInputs> fresh;
    inner().Upload(batch, plan, earlier, fresh);
    static_cast<StepInputs&>(*own) = *fresh;  // the counts
    own->inner = step_ = std::move(fresh);
    step = std::move(own);
  }
  std::unique_ptr<Recorder> NewRecorder(std::span<Kernels* const> together) override {
    std::vector<QueuedKernels*> all;
    for (Kernels* const one : together) all.push_back(static_cast<QueuedKernels*>(one));
    return std::make_unique<Graphs>(std::move(all));
  }

  void Post() override {
    ++timeline_->counts.posts;
    posted_ = points_;
  }
  void Follow(const Kernels& other) override {
    ++timeline_->counts.follows;
    const Timeline::Points& points = static_cast<const QueuedKernels&>(other).posted_;
    if (!timeline_->forgets_follows) points_.insert(points.begin(), points.end());
  }

  void Embed(const StepInputs&, const Matrix& table, Tensor& out) override {
    Launch([=, this, &table](const StepInputs& s) mutable { inner().Embed(s, table, out); });
  }
  void EmbedRange(const StepInputs&, const Matrix& table, std::int64_t first,
                  Tensor& out) override {
    Launch([=, this, &table](const StepInputs& s) mutable {
      inner().EmbedRange(s, table, first, out);
    });
  }
  void ExpertInner(const Tensor& x, const ExpertCall& call, ExpertRows rows, Tensor& out) override {
    Launch([=, this, own = OwnedCall(call)](const StepInputs&) mutable {
      inner().ExpertInner(x, own.Call(), rows, out);
    });
  }
  void ExpertOutputs(const ExpertCall& call, ExpertRows rows, const Tensor& all,
                     Tensor& out) override {
    Launch([=, this, own = OwnedCall(call)](const StepInputs&) mutable {
      inner().ExpertOutputs(own.Call(), rows, all, out);
    });
  }
  void Gather(std::span<const ColumnPiece> pieces, Tensor& out) override {
    timeline_->counts.copies += static_cast<int>(pieces.size());
    const std::vector<ColumnPiece> own(pieces.begin(), pieces.end());
    Launch([=, this](const StepInputs&) mutable { inner().Gather(own, out); });
  }
  void NormColumns(std::int64_t from, const Vector& weight, float eps, Tensor& scratch,
                   Tensor& x) override {
    Launch([=, this, &weight](const StepInputs&) mutable {
      inner().NormColumns(from, weight, eps, scratch, x);
    });
  }
  void RmsNorm(const Tensor& x, const Vector& weight, float eps, Tensor& out) override {
    Launch([=, this, &weight](const StepInputs&) mutable { inner().RmsNorm(x, weight, eps, out); });
  }
  void Clear(Tensor& x) override {
    Launch([=, this](const StepInputs&) mutable { inner().Clear(x); });
  }
  void Add(const Tensor& delta, Tensor& x) override {
    Launch([=, this](const StepInputs&) mutable { inner().Add(delta, x); });
  }
  void Scale(float factor, Tensor& x) override {
    Launch([=, this](const StepInputs&) mutable { inner().Scale(factor, x); });
  }
  void MatMul(const Tensor& x, const Matrix& w, const Vector* bias, Tensor& out) override {
    Launch([=, this, &w](const StepInputs&) mutable { inner().MatMul(x, w, bias, out); });
  }
  void MatMulAdd(const Tensor& a, const Matrix& w, const Vector* bias, Tensor& scratch,
                 Tensor& x) override {
    Launch([=, this, &w](const StepInputs&) mutable { inner().MatMulAdd(a, w, bias, scratch, x); });
  }
  void MatMulGlu(const Tensor& x, const GatedProduct& product, Tensor& scratch,
                 Tensor& out) override {
    Launch([=, this](const StepInputs&) mutable { inner().MatMulGlu(x, product, scratch, out); });
  }
  void Glu(Gate gate, const Tensor& x, Tensor& out) override {
    Launch([=, this](const StepInputs&) mutable { inner().Glu(gate, x, out); });
  }
  void RotateAndStore(const StepInputs&, int layer, const AttentionShape& shape,
                      const QkNormWeights& norm, Tensor& qkv, KvMemory& kv) override {
    Launch([=, this, &kv](const StepInputs& s) mutable {
      inner().RotateAndStore(s, layer, shape, norm, qkv, kv);
    });
  }
  void Attend(const StepInputs&, int layer, const AttentionShape& shape, const Tensor& qkv,
              const KvMemory& kv, Tensor& out) override {
    Launch([=, this, &kv](const StepInputs& s) mutable {
      inner().Attend(s, layer, shape, qkv, kv, out);
    });
  }
  void GatherLogitRows(const StepInputs&, const Tensor& x, Tensor& out) override {
    Launch([=, this](const StepInputs& s) mutable { inner().GatherLogitRows(s, x, out); });
  }
  void Download(const Tensor& x, std::int64_t row, std::span<float> out) override {
    timeline_->Finish(points_);
    inner().Download(x, row, out);
    timeline_->FinishAll();  // what operations use may be gone after the last one
  }

 private:
  struct QueuedStep : StepInputs {
    std::shared_ptr<const StepInputs> inner;
  };

  // Tensors are the caller's for as long as it calls.
  struct OwnedCall {
    explicit OwnedCall(const ExpertCall& call)
        : table(call.table), scores(call.scores), rule(call.rule), scratch(call.scratch) {}
    ExpertCall Call() const { return {table, scores, rule, scratch}; }
    const ExpertTable& table;
    Tensor scores;
    ExpertRule rule;
    ExpertScratch scratch;
  };

  // As cuda::StepGraphs: a shape is run, then recorded, then replayed.
  class Graphs : public Recorder {
   public:
    explicit Graphs(std::vector<QueuedKernels*> all) : all_(std::move(all)) {}

    void Run(std::span<const RecordedStep> steps, int variant,
             const std::function<void()>& operations) override {
      const StepInputs& step = *steps.front().step;
      const auto [it, first_time] = seen_.try_emplace({variant, step.rows, step.logit_rows});
      if (first_time) return operations();
      if (it->second.empty()) Record(operations, it->second);
      Replay(it->second);
    }

   private:
    // All queues begin together, after what is posted before, and end together.
    void Record(const std::function<void()>& operations, std::vector<Timeline::Node>& graph) {
      Timeline& timeline = *all_.front()->timeline_;
      std::vector<Timeline::Points> before;
      for (QueuedKernels* queue : all_) before.push_back(std::exchange(queue->points_, {}));
      timeline.recording = &graph;
      operations();
      timeline.recording = nullptr;
      for (size_t i = 0; i < all_.size(); ++i) all_[i]->points_ = std::move(before[i]);
      ++timeline.counts.recorded;
      timeline.counts.nodes += static_cast<int>(graph.size());
    }

    void Replay(const std::vector<Timeline::Node>& graph) {
      QueuedKernels& first = *all_.front();
      std::vector<size_t> places;
      for (Timeline::Node node : graph) {
        Timeline::Points after;
        for (const size_t earlier : node.after) after.insert(places[earlier]);
        node.after = after.empty() ? first.points_ : after;
        node.step = node.queue->step_;
        places.push_back(first.timeline_->Add(std::move(node)));
      }
      first.points_ = {places.begin(), places.end()};
      ++first.timeline_->counts.replayed;
    }

    std::vector<QueuedKernels*> all_;
    std::map<std::tuple<int, int, int>, std::vector<Timeline::Node>> seen_;
  };

  void Launch(Timeline::Operation operation) {
    BANYAN_CHECK(timeline_->current == this);
    points_ = {timeline_->Add({std::move(operation), this, step_, points_})};
  }

  std::shared_ptr<Timeline> timeline_;
  std::shared_ptr<const StepInputs> step_ = std::make_shared<StepInputs>();  // uploaded last
  Timeline::Points points_;  // what the next operation comes after
  Timeline::Points posted_;
};

}  // namespace banyan::testing_support
