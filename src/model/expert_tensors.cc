#include "model/expert_tensors.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "tensor/quantization.h"

namespace banyan {
namespace {

// Bytes of one entry along the first dimension.
std::span<const std::byte> EntryOf(const HostTensor& stacked, std::int64_t entry) {
  BANYAN_CHECK(!stacked.shape.empty() && entry >= 0 && entry < stacked.shape.front());
  const size_t size = stacked.bytes.size() / static_cast<size_t>(stacked.shape.front());
  return stacked.bytes.subspan(static_cast<size_t>(entry) * size, size);
}

}  // namespace

ExpertTensor ExpertOf(const HostTensor& stacked, std::int64_t expert) {
  ExpertTensor one;
  one.tensor = {stacked.name,
                stacked.dtype,
                {stacked.shape.begin() + 1, stacked.shape.end()},
                EntryOf(stacked, expert)};
  return one;
}

ExpertTensor TransposedExpertOf(const HostTensor& stacked, std::int64_t expert) {
  BANYAN_CHECK(stacked.shape.size() == 3 && TraitsOf(stacked.dtype).block == 1);
  const auto size = static_cast<size_t>(TraitsOf(stacked.dtype).bytes);
  const auto columns = static_cast<size_t>(stacked.shape[1]);
  const auto rows = static_cast<size_t>(stacked.shape[2]);
  const std::span<const std::byte> source = EntryOf(stacked, expert);
  ExpertTensor one;
  one.bytes.resize(source.size());
  // In squares, so that neither side leaves the cache.
  constexpr size_t kSide = 32;
  for (size_t row0 = 0; row0 < rows; row0 += kSide) {
    for (size_t column0 = 0; column0 < columns; column0 += kSide) {
      for (size_t row = row0; row < std::min(row0 + kSide, rows); ++row) {
        for (size_t column = column0; column < std::min(column0 + kSide, columns); ++column) {
          std::memcpy(one.bytes.data() + (row * columns + column) * size,
                      source.data() + (column * rows + row) * size, size);
        }
      }
    }
  }
  one.tensor = {stacked.name, stacked.dtype, {stacked.shape[2], stacked.shape[1]}, one.bytes};
  return one;
}

ExpertTensor Mxfp4ExpertOf(const HostTensor& blocks, const HostTensor& scales, std::int64_t expert,
                           const std::string& where) {
  constexpr size_t kHalf = 16, kBlockBytes = 1 + kHalf;
  constexpr std::byte kNaNScale{0xff};
  const std::span<const std::byte> codes = EntryOf(blocks, expert);
  const std::span<const std::byte> exponents = EntryOf(scales, expert);
  BANYAN_CHECK(codes.size() == exponents.size() * kHalf && blocks.shape.size() == 4);
  ExpertTensor one;
  one.bytes.resize(exponents.size() * kBlockBytes);
  for (size_t block = 0; block < exponents.size(); ++block) {
    if (exponents[block] == kNaNScale) {
      Throw(ErrorKind::kFormat, "{}: tensor '{}', expert {}: block {} has a scale that is NaN",
            where, scales.name, expert, block);
    }
    std::byte* out = one.bytes.data() + block * kBlockBytes;
    out[0] = exponents[block];
    // Values 2 i and 2 i + 1 of a byte go to places i and i + 16 of the halves: low ones first.
    const std::byte* in = codes.data() + block * kHalf;
    for (size_t i = 0; i < kHalf; ++i) {
      const auto code_at = [&](size_t value) {
        const std::byte pair = in[value / 2];
        return value % 2 == 0 ? pair & std::byte{15} : pair >> 4;
      };
      out[1 + i] = code_at(i) | code_at(kHalf + i) << 4;
    }
  }
  one.tensor = {blocks.name, DType::kMXFP4, {blocks.shape[1], blocks.shape[2] * 32}, one.bytes};
  return one;
}

std::vector<const HostTensor*> StackedTensors::pointers() const {
  std::vector<const HostTensor*> all;
  for (const ExpertTensor& part : parts) all.push_back(&part.tensor);
  return all;
}

LayerExperts::LayerExperts(const ModelConfig& config, const TensorStore& store, std::string prefix,
                           bool gguf_names)
    : config_(config),
      store_(store),
      prefix_(std::move(prefix)),
      gguf_(gguf_names),
      count_(config.experts.count),
      hidden_(config.hidden_size),
      inner_(config.experts.inner_size) {
  if (gguf_) {
    names_.router = "ffn_gate_inp";
  } else {
    names_ = FindNames(config, store, prefix_);
  }
}

LayerExperts::Names LayerExperts::FindNames(const ModelConfig& config, const TensorStore& store,
                                            const std::string& prefix) {
  Names names;
  if (config.experts.beside == BlockBeside::kNormed) {
    names.router = "router.proj";
    names.experts = "experts.";
  } else if (store.Has(prefix + "block_sparse_moe.router.layer.weight")) {  // Granite 4
    names.router = "block_sparse_moe.router.layer";
    names.experts = "block_sparse_moe.";
    names.gate_up = "input_linear.weight";
    names.down = "output_linear.weight";
  } else if (store.Has(prefix + "feed_forward.gate.weight")) {  // LFM2
    names.router = "feed_forward.gate";
    names.experts = "feed_forward.experts.";
    names.own_gate = "w1";
    names.own_up = "w3";
    names.own_down = "w2";
  } else if (store.Has(prefix + "mlp.router.weight")) {
    names.router = "mlp.router";
  }
  return names;
}

const HostTensor& LayerExperts::router() const {
  return Get(names_.router + ".weight", {count_, hidden_});
}

const HostTensor& LayerExperts::router_bias() const {
  return Get(names_.router + ".bias", {count_});
}

ExpertTensor LayerExperts::FromBlocks(const std::string& name, std::int64_t expert,
                                      std::int64_t rows, std::int64_t columns) const {
  constexpr std::int64_t kBlock = 32;
  if (columns % kBlock != 0) {
    Throw(ErrorKind::kFormat, "tensor '{}{}_blocks': rows of {} values, expected a multiple of {}",
          prefix_, name, columns, kBlock);
  }
  const Shape blocks = {count_, rows, columns / kBlock, kBlock / 2};
  const Shape scales = {count_, rows, columns / kBlock};
  // In this order, so that every compiler reports the same tensor first.
  const HostTensor& block_tensor = store_.GetBytes(prefix_ + name + "_blocks", blocks);
  const HostTensor& scale_tensor = store_.GetBytes(prefix_ + name + "_scales", scales);
  return Mxfp4ExpertOf(block_tensor, scale_tensor, expert, "experts");
}

// Alternating rows of gate and up → all of gate, then all of up.
std::vector<std::int32_t> LayerExperts::PairOrder() const {
  std::vector<std::int32_t> order;
  for (std::int32_t half = 0; half < 2; ++half) {
    for (std::int64_t i = 0; i < inner_; ++i) {
      order.push_back(static_cast<std::int32_t>(2 * i) + half);
    }
  }
  return order;
}

StackedTensors LayerExperts::GateUp(std::int64_t expert) const {
  StackedTensors stacked;
  const auto add = [&](ExpertTensor part) { stacked.parts.push_back(std::move(part)); };
  if (gguf_) {
    if (Has("ffn_gate_up_exps.weight")) {
      add(ExpertOf(Get("ffn_gate_up_exps.weight", {count_, 2 * inner_, hidden_}), expert));
      return stacked;
    }
    for (const char* name : {"ffn_gate_exps.weight", "ffn_up_exps.weight"}) {
      add(ExpertOf(Get(name, {count_, inner_, hidden_}), expert));
    }
    return stacked;
  }
  const std::string all = names_.experts + names_.gate_up;
  if (config_.experts.in_pairs) {
    add(Has(all + "_blocks") ? FromBlocks(all, expert, 2 * inner_, hidden_)
                             : TransposedExpertOf(Get(all, {count_, hidden_, 2 * inner_}), expert));
    stacked.order = PairOrder();
    return stacked;
  }
  if (Has(all)) {
    add(ExpertOf(Get(all, {count_, 2 * inner_, hidden_}), expert));
    return stacked;
  }
  for (const std::string& name : {names_.own_gate, names_.own_up}) {
    add({Get(fmt::format("{}{}.{}.weight", names_.experts, expert, name), {inner_, hidden_}), {}});
  }
  return stacked;
}

StackedTensors LayerExperts::Down(std::int64_t expert) const {
  StackedTensors stacked;
  const auto add = [&](ExpertTensor part) { stacked.parts.push_back(std::move(part)); };
  const std::string all = names_.experts + names_.down;
  if (gguf_) {
    add(ExpertOf(Get("ffn_down_exps.weight", {count_, hidden_, inner_}), expert));
  } else if (config_.experts.in_pairs) {
    add(Has(all + "_blocks") ? FromBlocks(all, expert, hidden_, inner_)
                             : TransposedExpertOf(Get(all, {count_, inner_, hidden_}), expert));
  } else if (Has(all)) {
    add(ExpertOf(Get(all, {count_, hidden_, inner_}), expert));
  } else {
    add({Get(fmt::format("{}{}.{}.weight", names_.experts, expert, names_.own_down),
             {hidden_, inner_}),
         {}});
  }
  return stacked;
}

StackedTensors LayerExperts::GateUpBias(std::int64_t expert) const {
  StackedTensors stacked;
  if (!gguf_) {
    stacked.parts.push_back(
        ExpertOf(Get("mlp.experts.gate_up_proj_bias", {count_, 2 * inner_}), expert));
    if (config_.experts.in_pairs) stacked.order = PairOrder();
    return stacked;
  }
  for (const char* name : {"ffn_gate_exps.bias", "ffn_up_exps.bias"}) {
    stacked.parts.push_back(ExpertOf(Get(name, {count_, inner_}), expert));
  }
  return stacked;
}

StackedTensors LayerExperts::DownBias(std::int64_t expert) const {
  StackedTensors stacked;
  stacked.parts.push_back(ExpertOf(
      Get(gguf_ ? "ffn_down_exps.bias" : "mlp.experts.down_proj_bias", {count_, hidden_}), expert));
  return stacked;
}

std::vector<float> LayerExperts::ValuesOf(const std::string& name) const {
  const HostTensor& tensor = Get(name, {count_});
  std::vector<float> values(static_cast<size_t>(count_));
  Dequantize(tensor.dtype, tensor.bytes, values);
  return values;
}

std::vector<float> LayerExperts::ShareScales() const {
  return ValuesOf(gguf_ ? "ffn_down_exps.scale" : "router.per_expert_scale");
}

std::vector<float> LayerExperts::ChoiceBiases() const {
  return ValuesOf(gguf_ ? "exp_probs_b.bias" : "feed_forward.expert_bias");
}

}  // namespace banyan
