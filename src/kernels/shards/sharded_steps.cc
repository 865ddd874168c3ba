// Steps of shards: where they meet, how a step of all of them is uploaded, timed and recorded.
#include <fmt/format.h>

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "kernels/shards/sharded_kernels.h"

namespace banyan {

std::string ShardedKernels::State() const {
  std::string all;
  for (size_t s = 0; s < count(); ++s) {
    all += fmt::format("shard {}: {}\n", s, shards_[s]->State());
  }
  return all;
}

// By way of the first, which makes waits as many as shards and not as their square.
void ShardedKernels::Meet() {
  if (!asynchronous()) return;
  for (size_t s = 1; s < count(); ++s) {
    shard(s).Post();
    shard(0).Follow(*shards_[s]);
  }
  shard(0).Post();
  for (size_t s = 1; s < count(); ++s) shard(s).Follow(*shards_[0]);
}

std::vector<double> ShardedKernels::TimeRuns(const TimedRuns& runs,
                                             const std::function<void()>& work) {
  if (!asynchronous()) return Kernels::TimeRuns(runs, work);
  return shard(0).TimeRuns(runs, [&] {
    Meet();
    work();
    Meet();
    shards_.front()->EnterThread();
  });
}

// Expands a step into those of the shards. What an inner recorder kept is lost when a room has
// moved.
class ShardedKernels::StepRecorder : public Recorder {
 public:
  explicit StepRecorder(ShardedKernels& all) : all_(all) {}

  void Run(std::span<const RecordedStep> steps, int variant,
           const std::function<void()>& operations) override {
    if (inner_ == nullptr || grown_ != all_.grown_) {
      inner_ = nullptr;
      std::vector<Kernels*> together;
      for (const auto& one : all_.shards_) together.push_back(one.get());
      inner_ = all_.shard(0).NewRecorder(together);
      grown_ = all_.grown_;
    }
    const RecordedStep& step = steps.front();
    std::vector<RecordedStep> own;
    for (size_t s = 0; s < all_.count(); ++s) {
      const auto* states = static_cast<const ShardedStates*>(step.states);
      own.push_back({AsSharded(*step.step).of_shard[s].get(), AsSharded(*step.kv).of_shard[s].get(),
                     states == nullptr ? nullptr : states->of_shard[s].get()});
    }
    all_.Meet();
    all_.other_turn_ = false;  // equal steps use equal rooms
    inner_->Run(own, variant, operations);
    all_.Meet();
  }

 private:
  ShardedKernels& all_;
  std::unique_ptr<Recorder> inner_;
  std::uint64_t grown_ = 0;
};

std::unique_ptr<Recorder> ShardedKernels::NewRecorder(std::span<Kernels* const> /*together*/) {
  return std::make_unique<StepRecorder>(*this);
}

void ShardedKernels::Upload(const Batch& batch, const AttentionPlan& plan,
                            const PendingChoices* earlier, std::unique_ptr<StepInputs>& step) {
  if (step == nullptr) step = std::make_unique<ShardedStep>();
  auto& all = static_cast<ShardedStep&>(*step);
  all.of_shard.resize(count());
  for (size_t s = 0; s < count(); ++s) {
    const PendingChoices* own =
        earlier == nullptr ? nullptr : AsSharded(earlier)->of_shard[s].get();
    shard(s).Upload(batch, plan, own, all.of_shard[s]);
  }
  const StepInputs& one = *all.of_shard.front();
  all.rows = one.rows;
  all.logit_rows = one.logit_rows;
  all.adapted = one.adapted;
  all.all_adapted = one.all_adapted;
}

}  // namespace banyan
