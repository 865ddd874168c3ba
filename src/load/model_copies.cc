#include "load/model_copies.h"

#include <exception>
#include <mutex>
#include <numeric>
#include <set>
#include <string>
#include <thread>

#include "base/error.h"
#include "load/kernel_options.h"
#include "program/models.h"

namespace banyan {
namespace {

using Copies = std::vector<std::unique_ptr<Model::Parts>>;

void RefuseUnlike(const Copies& copies) {
  const Model::Parts& first = *copies.front();
  for (const auto& copy : copies) {
    const std::string expected = first.kernels->arithmetic(), found = copy->kernels->arithmetic();
    if (found == expected) continue;
    Throw(
        ErrorKind::kUnsupported,
        "--device: {} is {} and {} is {}: their answers may differ in the last bits; give devices "
        "that are alike, or run a job on each with --shard",
        first.device.name, expected, copy->device.name, found);
  }
}

// What went wrong on one of several devices says on which.
[[noreturn]] void RethrowNaming(const DeviceName& device, const Error& error) {
  Throw(error.kind(), "device {}: {}", device.name, error.what());
}

// The progress of all copies as that of one model.
class CommonProgress {
 public:
  CommonProgress(LoadProgress progress, size_t copies)
      : progress_(std::move(progress)), done_(copies) {}

  LoadProgress Of(size_t copy) {
    if (!progress_) return nullptr;
    return [this, copy](std::int64_t done, std::int64_t total) {
      const std::lock_guard lock(mutex_);
      done_[copy] = done;
      const auto count = static_cast<std::int64_t>(done_.size());
      progress_(std::accumulate(done_.begin(), done_.end(), std::int64_t{0}) / count, total);
    };
  }

 private:
  const LoadProgress progress_;
  std::mutex mutex_;                // guards what follows, and calls of progress_
  std::vector<std::int64_t> done_;  // [copies]
};

void LoadOne(Model::Parts& copy, const WeightsSource& source, const LoadOptions& options,
             const LoadProgress& progress) {
  copy.kernels->EnterThread();
  LoadedAdapters adapters(options);
  AdaptersToLoad to_load{adapters.merged ? &*adapters.merged : nullptr, {}};
  for (Adapter& kept : adapters.apart) to_load.apart.push_back(&kept);
  copy.weights =
      LoadWeights(copy.config, source.tensors, source.naming, *copy.kernels, progress, to_load);
}

}  // namespace

Copies MakeCopies(const LoadOptions& options) {
  Copies copies;
  for (DeviceName& device : InShards(ParseDevices(options.device), options.tensor_parallel)) {
    KernelOptions kernel_options = KernelOptionsOf(options);
    kernel_options.threads = device.ShareOfThreads(options.threads);
    kernel_options.ordinal = device.ordinal;
    kernel_options.shard_ordinals = device.shard_ordinals;
    auto& copy = copies.emplace_back(std::make_unique<Model::Parts>());
    copy->kernels = MakeKernels(device.backend, kernel_options);
    copy->device = std::move(device);
  }
  RefuseUnlike(copies);
  return copies;
}

LoadedAdapters::LoadedAdapters(const LoadOptions& options) {
  if (!options.adapter.empty()) merged = Adapter::Open(PathOfAdapter(options.adapter));
  std::set<std::string> names;
  for (const LoadOptions::NamedAdapter& adapter : options.adapters) {
    if (adapter.name.empty() || !names.insert(adapter.name).second) {
      Throw(ErrorKind::kUsage, "--adapter {}={}: expected a name of its own for each adapter",
            adapter.name, adapter.directory);
    }
    apart.push_back(Adapter::Open(PathOfAdapter(adapter.directory)));
  }
}

void LoadCopies(Copies& copies, const WeightsSource& source, const LoadOptions& options) {
  for (const auto& copy : copies) {  // before one of them takes memory that others look at
    copy->kernels->EnterThread();
    copy->kernels->ExpectWeights(source.count * copy->device.sharers);
  }
  if (copies.size() == 1) return LoadOne(*copies.front(), source, options, options.progress);
  CommonProgress progress(options.progress, copies.size());
  std::vector<std::exception_ptr> failures(copies.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < copies.size(); ++i) {
    if (i > 0) copies[i]->config = copies.front()->config;
    threads.emplace_back([&, i] {
      try {
        LoadOne(*copies[i], source, options, progress.Of(i));
      } catch (...) {
        failures[i] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < copies.size(); ++i) {
    if (!failures[i]) continue;
    try {
      std::rethrow_exception(failures[i]);
    } catch (const Error& error) {
      // What the files are to blame for, all devices find.
      if (error.kind() != ErrorKind::kLimit && error.kind() != ErrorKind::kIo) throw;
      RethrowNaming(copies[i]->device, error);
    }
  }
}

}  // namespace banyan
