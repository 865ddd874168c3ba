// What cuda_times --experts measures: the experts of one layer of the qwen3-30b-a3b shape, from the
// router's scores to the sum, kernel by kernel and as a whole, beside what bytes and operations
// allow. Scores are random and change from launch to launch.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "cuda_times_layer.h"
#include "kernels/cuda/experts/expert_mixer.h"
#include "kernels/cuda/products/int8_products.h"
#include "kernels/cuda/rows/tensor_memory.h"
#include "kernels/cuda/weights/device_matrix.h"

namespace banyan::cuda {

class ExpertTimes : TimedDevice {
 public:
  // What weights are stored as: bf16, codes with scales, or as a file has them.
  struct Stored {
    bool int8 = false;
    std::optional<QuantisedForm> form = {};

    double bits() const { return int8 ? 8.0 : form ? BitsOf(*form) : 16.0; }
  };

  explicit ExpertTimes(std::int64_t most_rows) : mixer_(device_, Precision::kMixed) {
    const std::int64_t slots = most_rows * kChosen;
    x_ = NewTensor(device_, most_rows, kWidth);
    out_ = NewTensor(device_, most_rows, kWidth);
    scratch_ = {NewTensor(device_, slots, kWidth), NewTensor(device_, slots, 2 * kInner),
                NewTensor(device_, slots, kInner), NewTensor(device_, slots, kWidth)};
    FillRandom(device_->stream, most_rows * kWidth, 3, Bf16ForWriting(x_));
    FillRandom(device_->stream, slots * kWidth, 4, Bf16ForWriting(scratch_.input));
    std::mt19937 numbers(7);
    std::uniform_real_distribution<float> uniform;
    for (int i = 0; i < kScoreSets; ++i) {
      scores_.push_back(NewTensor(device_, most_rows, kExperts));
      host_scores_.emplace_back();
      for (std::int64_t n = 0; n < most_rows * kExperts; ++n) {
        host_scores_.back().push_back(uniform(numbers));
      }
      Check(cudaMemcpy(Float32ForWriting(scores_.back()), host_scores_.back().data(),
                       host_scores_.back().size() * 4, cudaMemcpyHostToDevice),
            "scores");
    }
    routes_ = DeviceMemory(device_, RoutesBytes(most_rows, kChosen), "a measurement");
  }

  void Report(const char* name, Stored form, const std::vector<std::int64_t>& rows) {
    const auto table = MakeTable(form);
    fmt::print(
        "experts, {}\n   rows    route   gather  gate_up    codes     down      sum      all    "
        "limit  of it | gate_up, down by the many-row kernels\n",
        name);
    for (const std::int64_t count : rows)
      ReportRows(static_cast<const DeviceExperts&>(*table), form, count);
    std::fflush(stdout);
  }

 private:
  static constexpr int kExperts = 128, kChosen = 8, kScoreSets = 6;
  static constexpr std::int64_t kWidth = 2048, kInner = 768;

  std::shared_ptr<const DeviceMatrix> MakeMatrix(const Stored& stored, std::int64_t rows,
                                                 std::int64_t columns, std::uint64_t seed) {
    if (stored.form) {
      return RandomQuantised(*stored.form, rows, columns, static_cast<std::uint32_t>(seed));
    }
    auto matrix = MakeRandomMatrix(device_, {rows, columns, seed, 0.02f}, WeightForm::kBF16);
    if (!stored.int8) return matrix;
    return QuantizeMatrix(device_, *matrix);
  }

  std::shared_ptr<const ExpertTable> MakeTable(const Stored& form) {
    std::vector<ExpertWeights> experts;
    for (std::uint64_t e = 0; e < kExperts; ++e) {
      experts.push_back({MakeMatrix(form, 2 * kInner, kWidth, 2 * e + 1), nullptr,
                         MakeMatrix(form, kWidth, kInner, 2 * e + 2), nullptr});
    }
    device_->Synchronize();
    return mixer_.Gather(std::move(experts), {});
  }

  // Experts that some row chose, on average over the sets of scores.
  double Distinct(std::int64_t rows) const {
    double sum = 0.0;
    for (const std::vector<float>& scores : host_scores_) {
      std::set<int> seen;
      std::vector<ExpertChoice> choices(kChosen);
      for (std::int64_t r = 0; r < rows; ++r) {
        ChooseExperts(std::span(scores).subspan(static_cast<size_t>(r * kExperts), kExperts),
                      ExpertShares::kOfChosen, choices);
        for (const ExpertChoice& choice : choices) seen.insert(choice.expert);
      }
      sum += static_cast<double>(seen.size());
    }
    return sum / kScoreSets;
  }

  void ReportRows(const DeviceExperts& table, const Stored& form, std::int64_t rows) {
    const cudaStream_t s = device_->stream;
    const auto route = [&](int i, ExpertTiling tiling) {
      const ExpertRoutes routes =
          RoutesIn(routes_.As<void>(), static_cast<int>(rows), kExperts, kChosen, tiling);
      RouteRows(s, Float32(scores_[static_cast<size_t>(i % kScoreSets)]), kExperts, {}, routes);
      return routes;
    };
    const std::int64_t slots = rows * kChosen;
    const Tensor inner = scratch_.inner.Prefix(slots);
    const __nv_bfloat16* inner_rows = Bf16ForWriting(inner);
    const Int8Rows x_codes = Codes(x_), input_codes = CodesForWriting(scratch_.input),
                   inner_codes = CodesForWriting(inner);
    const auto gather = [&](const ExpertRoutes& routes) {
      if (form.int8) return GatherExpertRows(s, routes, x_codes.codes, kWidth, input_codes.codes);
      GatherExpertRows(s, routes, Bf16(x_), kWidth * 2, Bf16ForWriting(scratch_.input));
    };
    const auto codes = [&](const ExpertRoutes& /*routes*/) {
      QuantizeRows(s, inner_rows, {slots, kInner, kInner}, CodeReader::kWaits, inner_codes);
    };
    const auto gate_up = [&](const ExpertRoutes& routes) {
      ExpertProduct product;
      product.part = table.gate.front();
      product.up = &table.up.front();
      product.x = form.int8 ? static_cast<const void*>(x_codes.codes) : Bf16(x_);
      product.x_scales = x_codes.scales;
      product.by_row = true;
      product.x_of_slots =
          form.int8 ? static_cast<const void*>(input_codes.codes) : Bf16ForWriting(scratch_.input);
      product.out = {nullptr, Bf16ForWriting(scratch_.inner)};
      product.out_stride = kInner;
      MultiplyExperts(s, routes, product);
    };
    const auto down = [&](const ExpertRoutes& routes) {
      ExpertProduct product;
      product.part = table.down.front();
      product.x = form.int8 ? static_cast<const void*>(inner_codes.codes) : inner_rows;
      product.x_scales = inner_codes.scales;
      product.out = {Float32ForWriting(scratch_.output), nullptr};
      product.out_stride = kWidth;
      MultiplyExperts(s, routes, product);
    };
    const auto sum = [&](const ExpertRoutes& routes) {
      SumExperts(s, routes, Float32ForWriting(scratch_.output), {rows, kWidth, kWidth},
                 Float32ForWriting(out_));
    };
    const ExpertTiling tiling = table.tiling, wide{0, table.tiling.many};
    using Part = std::function<void(const ExpertRoutes&)>;
    // Kernels are timed with the routing, whose time is then taken off.
    const auto of = [&](ExpertTiling how, const std::vector<Part>& parts) {
      return Microseconds([&](int i) {
        const ExpertRoutes routes = route(i, how);
        for (const Part& part : parts) part(routes);
      });
    };
    const double routing = of(tiling, {});
    const double gathering = of(tiling, {gather}) - routing;
    const double first = of(tiling, {gate_up}) - routing, second = of(tiling, {down}) - routing;
    const double coding = form.int8 ? of(tiling, {codes}) - routing : 0.0;
    const double summing = of(tiling, {sum}) - routing;
    const double all = Microseconds([&](int i) {
      const Tensor x = x_.Prefix(rows),
                   scores = scores_[static_cast<size_t>(i % kScoreSets)].Prefix(rows);
      Tensor out = out_.Prefix(rows);
      mixer_.Mix(x, {table, scores, {kChosen, ExpertShares::kOfChosen, {}}, scratch_}, out);
    });
    const double weights = 3.0 * kWidth * kInner;
    const double rate = form.int8 ? 2 * kFlops : kFlops;
    const double limit = std::max(Distinct(rows) * weights * form.bits() / 8 / kBytesPerSecond,
                                  2.0 * weights * static_cast<double>(slots) / rate) *
                         1e6;
    std::string others;
    if (tiling.many > kPlainExpertRows) {
      others += fmt::format(" {:8.1f} {:8.1f}", of(wide, {gather, gate_up}) - routing,
                            of(wide, {down}) - routing);
    }
    fmt::print(
        "{:7} {:8.1f} {:8.1f} {:8.1f} {:8.1f} {:8.1f} {:8.1f} {:8.1f} {:8.1f} {:5.0f}% |{}\n", rows,
        routing, gathering, first, coding, second, summing, all, limit, 100 * limit / all, others);
    std::fflush(stdout);
  }

  double Microseconds(const std::function<void(int)>& body) const {
    return TimedDevice::Microseconds(2 * kScoreSets, body);
  }

  ExpertMixer mixer_;
  Tensor x_, out_;
  ExpertScratch scratch_;
  std::vector<Tensor> scores_;
  std::vector<std::vector<float>> host_scores_;
  DeviceMemory routes_;
};

}  // namespace banyan::cuda
