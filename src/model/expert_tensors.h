// One expert's matrices out of the layouts in which files store those of all experts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "formats/tensor_store.h"
#include "model/config.h"
#include "tensor/host_tensor.h"

namespace banyan {

// A tensor with its own bytes, or a view of a file's (`bytes` empty). Moving keeps it valid.
struct ExpertTensor {
  HostTensor tensor;
  std::vector<std::byte> bytes;
};

// Entry `expert` of [experts, …].
ExpertTensor ExpertOf(const HostTensor& stacked, std::int64_t expert);

// Entry `expert` of [experts, columns, rows] as [rows, columns]. REQUIRES: a plain type.
ExpertTensor TransposedExpertOf(const HostTensor& stacked, std::int64_t expert);

// Entry `expert` of MXFP4 as gpt-oss's safetensors have it: bytes `blocks` [experts, rows, columns
// / 32, 16], value 2 i in the low half of byte i, and `scales` [experts, rows, columns / 32], which
// are exponents + 127; as DType::kMXFP4 [rows, columns]. Throws kFormat for a scale that is NaN.
ExpertTensor Mxfp4ExpertOf(const HostTensor& blocks, const HostTensor& scales, std::int64_t expert,
                           const std::string& where);

// Parts that are stacked by rows, and the order of their rows (empty: unchanged; see
// Kernels::LoadMatrix).
struct StackedTensors {
  std::vector<ExpertTensor> parts;
  std::vector<std::int32_t> order;

  std::vector<const HostTensor*> pointers() const;
};

// The experts of one layer, in any layout that files have: a tensor for each expert, one for all,
// or blocks and scales.
class LayerExperts {
 public:
  // `prefix` is that of the layer's tensors in the file. Throws kNotFound when no form is whole.
  LayerExperts(const ModelConfig& config, const TensorStore& store, std::string prefix,
               bool gguf_names);

  // [experts, hidden], and [experts].
  const HostTensor& router() const;
  const HostTensor& router_bias() const;
  // Throw when a tensor is missing or has another shape than the configuration says.
  StackedTensors GateUp(std::int64_t expert) const;      // [2 inner, hidden]
  StackedTensors Down(std::int64_t expert) const;        // [hidden, inner]
  StackedTensors GateUpBias(std::int64_t expert) const;  // [2 inner]
  StackedTensors DownBias(std::int64_t expert) const;    // [hidden]
  std::vector<float> ShareScales() const;                // [experts], of experts beside a block
  std::vector<float> ChoiceBiases() const;               // [experts]

 private:
  using Shape = std::vector<std::int64_t>;
  bool Has(const std::string& name) const { return store_.Has(prefix_ + name); }
  const HostTensor& Get(const std::string& name, const Shape& shape) const {
    return store_.Get(prefix_ + name, shape);
  }
  ExpertTensor FromBlocks(const std::string& name, std::int64_t expert, std::int64_t rows,
                          std::int64_t columns) const;
  std::vector<std::int32_t> PairOrder() const;

  const ModelConfig& config_;
  const TensorStore& store_;
  std::string prefix_;
  bool gguf_;
  // Names in safetensors, after the layer's prefix.
  struct Names {
    std::string router = "mlp.gate";
    std::string experts = "mlp.experts.";  // what names of all experts' tensors begin with …
    std::string gate_up = "gate_up_proj", down = "down_proj";  // … of all of them together
    std::string own_gate = "gate_proj", own_up = "up_proj", own_down = "down_proj";  // … of one
  };
  static Names FindNames(const ModelConfig& config, const TensorStore& store,
                         const std::string& prefix);
  std::vector<float> ValuesOf(const std::string& name) const;  // [experts]

  Names names_;
  std::int64_t count_, hidden_, inner_;
};

}  // namespace banyan
