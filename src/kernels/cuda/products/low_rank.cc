#include "kernels/cuda/products/low_rank.h"

#include <vector>

#include "tensor/dequantize.h"

namespace banyan::cuda {
namespace {

std::vector<float> FloatsOf(const HostTensor& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.rows() * tensor.columns()));
  Dequantize(tensor.dtype, tensor.bytes, values);
  return values;
}

template <typename T>
DeviceMemory Sent(const std::shared_ptr<const Device>& device, const std::vector<T>& values) {
  const auto bytes = static_cast<std::int64_t>(values.size() * sizeof(T));
  DeviceMemory memory(device, bytes, "an adapter's products");
  memory.CopyFromHost(values.data(), bytes);
  return memory;
}

// Where a part's factors begin among all floats.
struct FactorPlace {
  size_t a = 0, b = 0;
};

}  // namespace

std::shared_ptr<const DeviceLowRank> LoadLowRank(const std::shared_ptr<const Device>& device,
                                                 const LowRankSource& source) {
  auto table = std::make_shared<DeviceLowRank>();
  DescribeLowRank(source, *table);
  std::vector<float> factors;
  std::vector<FactorPlace> places;
  std::vector<DeviceLowRankPart> parts;
  std::vector<std::int32_t> begin = {0, 0};
  for (const std::vector<LowRankPart>& variant : source.variants) {
    std::int32_t first_rank = 0;
    for (const LowRankPart& part : variant) {
      const auto rank = static_cast<size_t>(part.a->rows());
      const auto rows = static_cast<size_t>(part.b->rows());
      FactorPlace& place = places.emplace_back();
      place.a = factors.size();
      const std::vector<float> a = FloatsOf(*part.a), b = FloatsOf(*part.b);
      factors.insert(factors.end(), a.begin(), a.end());
      place.b = factors.size();
      for (size_t k = 0; k < rank; ++k) {
        for (size_t n = 0; n < rows; ++n) factors.push_back(b[n * rank + k]);
      }
      DeviceLowRankPart& sent = parts.emplace_back();
      sent.scale = part.scale;
      sent.rank = static_cast<std::int32_t>(rank);
      sent.first_rank = first_rank;
      sent.first_row = static_cast<std::int32_t>(part.first_row);
      sent.rows = static_cast<std::int32_t>(rows);
      first_rank += sent.rank;
    }
    begin.push_back(static_cast<std::int32_t>(parts.size()));
  }
  table->factors = Sent(device, factors);
  for (size_t i = 0; i < parts.size(); ++i) {
    parts[i].a = table->factors.As<float>() + places[i].a;
    parts[i].b = table->factors.As<float>() + places[i].b;
  }
  table->parts = Sent(device, parts);
  table->begin = Sent(device, begin);
  table->bytes = table->factors.bytes() + table->parts.bytes() + table->begin.bytes();
  return table;
}

}  // namespace banyan::cuda
