// Defaults that most backends share (products followed by another operation, random weights made on
// the host, the host's clock), and the choice of a backend by its name.
#include "kernels/kernels.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/host_states.h"
#include "kernels/reference/reference_kernels.h"
#include "kernels/shards/sharded_kernels.h"
#include "program/models.h"
#include "tensor/narrow_floats.h"
#ifdef BANYAN_WITH_CUDA
#include "kernels/cuda/cuda_kernels.h"
#endif

namespace banyan {
namespace {

constexpr size_t kMoreThanCaches = size_t{256} << 20;  // bytes

#ifndef BANYAN_WITH_CUDA
[[noreturn]] void ThrowWithoutCuda() {
  Throw(ErrorKind::kUnsupported,
        "device cuda: this build has no CUDA backend (configure with -DBANYAN_CUDA=ON where nvcc "
        "and cuBLASLt are installed)");
}
#endif

std::unique_ptr<Kernels> MakeShards(const std::string& device, KernelOptions options) {
  const int shards = std::exchange(options.shards, 1);
  const std::vector<int> ordinals = std::exchange(options.shard_ordinals, {});
  BANYAN_CHECK(ordinals.empty() || ordinals.size() == static_cast<size_t>(shards));
  options.of_shards = true;
  std::vector<std::unique_ptr<Kernels>> made;
  for (int shard = 0; shard < shards; ++shard) {
    if (!ordinals.empty()) options.ordinal = ordinals[static_cast<size_t>(shard)];
    made.push_back(MakeKernels(device, options));
  }
  return std::make_unique<ShardedKernels>(std::move(made));
}

}  // namespace

void Kernels::CopyColumns(const Tensor&, const ColumnCopy&, Tensor&) {
  BANYAN_CHECK(!asynchronous());  // a backend whose operations wait has it
}

void Kernels::Gather(std::span<const ColumnPiece> pieces, Tensor& out) {
  for (const ColumnPiece& piece : pieces) CopyColumns(piece.x, piece.columns, out);
}

void Kernels::EmbedRange(const StepInputs&, const Matrix&, std::int64_t, Tensor&) {
  BANYAN_CHECK(false);  // of a shard, like the two below
}
void Kernels::ExpertInner(const Tensor&, const ExpertCall&, ExpertRows, Tensor&) {
  BANYAN_CHECK(false);
}
void Kernels::ExpertOutputs(const ExpertCall&, ExpertRows, const Tensor&, Tensor&) {
  BANYAN_CHECK(false);
}

void Kernels::NormColumns(std::int64_t from, const Vector& weight, float eps, Tensor& scratch,
                          Tensor& x) {
  CopyColumns(x, {from, 0, weight.size}, scratch);
  RmsNorm(scratch, weight, eps, scratch);
  CopyColumns(scratch, {0, from, weight.size}, x);
}

void Kernels::GateAndNorm(const GatedNorm& call, Tensor& x) {
  if (call.norm_first) RmsNormGroups(x, call.group, call.weight, call.eps, x);
  GateColumns(call.gate, call.gates, x, 0, x);
  if (!call.norm_first) RmsNormGroups(x, call.group, call.weight, call.eps, x);
}

std::shared_ptr<StateMemory> Kernels::NewStateMemory(const StateShape& shape, int layers,
                                                     int slots) {
  return std::make_shared<HostStates>(shape, layers, slots);
}

void Kernels::CopyStates(std::span<const StateCopy> copies, StateMemory& states) {
  for (const StateCopy& copy : copies) AsHostStates(states).Copy(copy);
}

void Kernels::ReadState(StateMemory& states, std::int32_t slot, std::span<std::byte> bytes) {
  BANYAN_CHECK(moves_states());
  std::memcpy(bytes.data(), AsHostStates(states).Slot(slot).data(), bytes.size());
}

void Kernels::WriteState(std::span<const std::byte> bytes, std::int32_t slot, StateMemory& states) {
  BANYAN_CHECK(moves_states());
  const std::span<float> to = AsHostStates(states).Slot(slot);
  BANYAN_CHECK(bytes.size() == to.size_bytes());
  std::memcpy(to.data(), bytes.data(), bytes.size());
}

void Kernels::MatMulAdd(const Tensor& a, const Matrix& w, const Vector* bias, Tensor& scratch,
                        Tensor& x) {
  MatMul(a, w, bias, scratch);
  Add(scratch, x);
}

void Kernels::MatMulGlu(const Tensor& x, const GatedProduct& product, Tensor& scratch,
                        Tensor& out) {
  MatMul(x, product.w, product.bias, scratch);
  Glu(product.gate, scratch, out);
}

void Kernels::AdaptedGlu(const Tensor& x, const GatedProduct& product, const LowRankCall& more,
                         Tensor& scratch, Tensor& out) {
  MatMul(x, product.w, product.bias, scratch);
  AddLowRank(more, x, scratch);
  Glu(product.gate, scratch, out);
}

void Kernels::AdaptedRowsGlu(Gate, const LowRankCall&, const Tensor&, Tensor&) {
  BANYAN_CHECK(false);  // where ComputesAdaptedApart
}

void Kernels::MatMulChoose(const Tensor& x, const Matrix& w, Tensor& logits,
                           std::span<const SamplingRow> requests,
                           std::unique_ptr<PendingChoices>& choices) {
  MatMul(x, w, nullptr, logits);
  Choose(logits, requests, {}, choices);
}

std::shared_ptr<const LowRankTable> Kernels::LoadLowRank(const LowRankSource& source) {
  auto table = std::make_shared<FactorTable>();
  DescribeLowRank(source, *table);
  for (const std::vector<LowRankPart>& parts : source.variants) {
    std::vector<LowRankFactors>& factors = table->variants.emplace_back();
    for (const LowRankPart& part : parts) {
      factors.push_back({LoadMatrix(std::span(&part.a, 1), {}),
                         LoadMatrix(std::span(&part.b, 1), {}), part.scale, part.first_row});
      table->bytes += factors.back().a->bytes + factors.back().b->bytes;
    }
  }
  return table;
}

std::shared_ptr<const ExpertTable> Kernels::GatherExperts(std::vector<ExpertWeights> experts,
                                                          ExpertNumbers numbers) {
  BANYAN_CHECK(!experts.empty());
  auto table = std::make_shared<ExpertTable>();
  table->experts = std::move(experts);
  table->numbers = std::move(numbers);
  return table;
}

std::vector<std::vector<Tensor>> Kernels::NewTensorGroups(std::span<const TensorGroup> groups) {
  std::vector<std::vector<Tensor>> made;
  for (const TensorGroup& group : groups) {
    std::vector<Tensor>& tensors = made.emplace_back();
    for (const TensorShape& shape : group) tensors.push_back(NewTensor(shape.rows, shape.columns));
  }
  return made;
}

std::shared_ptr<const Matrix> Kernels::RandomMatrix(const RandomWeights& weights) {
  BANYAN_CHECK(weights.rows > 0 && weights.columns > 0);
  std::vector<std::uint16_t> values(static_cast<size_t>(weights.rows * weights.columns));
  const float unit = RandomUnit(weights);
  size_t next = 0;
  for (std::int64_t row = 0; row < weights.rows; ++row) {
    for (std::int64_t column = 0; column < weights.columns; column += kRandomColumns) {
      const std::uint64_t four = RandomFour(weights, row, column);
      const std::int64_t count = std::min<std::int64_t>(kRandomColumns, weights.columns - column);
      for (int i = 0; i < count; ++i) values[next++] = FloatToBF16(RandomValue(four, i, unit));
    }
  }
  const HostTensor tensor{"random weights",
                          DType::kBF16,
                          {weights.rows, weights.columns},
                          std::as_bytes(std::span(values))};
  const HostTensor* part = &tensor;
  return LoadMatrix(std::span(&part, 1), {});
}

std::vector<double> Kernels::TimeRuns(const TimedRuns& runs, const std::function<void()>& work) {
  std::vector<unsigned char> flushed(runs.empty_caches ? kMoreThanCaches : 0);
  std::vector<double> seconds;
  for (int run = 0; run < runs.count; ++run) {
    std::fill(flushed.begin(), flushed.end(), static_cast<unsigned char>(run));
    const auto start = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    seconds.push_back(took.count());
  }
  return seconds;
}

std::unique_ptr<Kernels> MakeKernels(const std::string& device, const KernelOptions& options) {
  if (options.shards > 1) return MakeShards(device, options);
  if (device == "reference") return MakeReferenceKernels(options);
  if (device == "cpu") return MakeCpuKernels(options);
  if (device == "cuda") {
#ifdef BANYAN_WITH_CUDA
    return MakeCudaKernels(options);
#else
    ThrowWithoutCuda();
#endif
  }
  Throw(ErrorKind::kUsage, "unknown device '{}': expected cpu, cuda or reference", device);
}

std::optional<std::int64_t> FreeMemoryOf([[maybe_unused]] const std::string& device,
                                         [[maybe_unused]] int ordinal) {
#ifdef BANYAN_WITH_CUDA
  if (device == "cuda") return FreeCudaMemory(ordinal);
#endif
  return std::nullopt;
}

int CountGpus() {
#ifdef BANYAN_WITH_CUDA
  return CountCudaDevices();
#else
  ThrowWithoutCuda();
#endif
}

std::string DescribeDevices() {
  std::string path;
  try {
    path = CpuPathOfThisMachine().name;
  } catch (const Error&) {  // BANYAN_CPU is wrong: commands that compute will say so
    path = "no path";
  }
  std::string devices = "cpu (" + path + ")";
#ifdef BANYAN_WITH_CUDA
  devices += ", cuda";
#endif
  return devices + ", reference";
}

}  // namespace banyan
