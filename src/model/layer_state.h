// The weights of a layer that keeps a state, in the words of each family's safetensors and of GGUF.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "formats/tensor_store.h"
#include "model/config.h"
#include "model/matrix_loader.h"
#include "model/weights.h"

namespace banyan {

class LayerState {
 public:
  // `prefix` and `modules`: what names of the layer's tensors begin with in the file, and in
  // adapters. All references must outlive this object.
  LayerState(const ModelConfig& config, const TensorStore& store, const std::string& prefix,
             const std::string& modules, MatrixLoader& load, TensorNaming naming);

  // Throw as LoadWeights.
  std::shared_ptr<const StateWeights> Load(Kernels& kernels) const;
  void LoadOutput(LayerWeights& layer) const;

 private:
  // Tensors that stand one below the other in the file, and which of their rows are wanted.
  struct Rows {
    std::vector<const HostTensor*> parts;
    std::vector<std::int32_t> order;  // empty: all, as they are
    std::vector<AdaptedPlace> places;
  };
  // Of a tensor that safetensors call `name` after the layer's part.
  std::string NameOf(const std::string& name) const;
  const HostTensor& Get(const std::string& name, const std::vector<std::int64_t>& shape) const;
  std::vector<float> Values(const std::string& name, const std::vector<std::int64_t>& shape) const;
  // [first * second], in GGUF perhaps in two dimensions.
  std::vector<float> ValuesOfHeads(const std::string& name, std::int64_t first,
                                   std::int64_t second) const;
  std::vector<float> Taps() const;
  Rows Parts(const std::vector<std::pair<std::string, std::int64_t>>& names) const;
  // The HF order of value heads, where the file has them tiled: which row of `count` for each head
  // stands where; empty: all, as they are.
  std::vector<std::int32_t> Untiled(std::int64_t count) const;
  // The places of adapters' modules in what Qwen3-Next's layers read.
  void PlaceByKeyHead(Rows& input, Rows& gate) const;
  void LoadInputs(StateWeights& state) const;
  void LoadHeads(Kernels& kernels, StateWeights& state) const;

  const ModelConfig& config_;
  const StateShape& shape_;
  const TensorStore& store_;
  const std::string prefix_, modules_;  // the latter with the name of the layer's part
  MatrixLoader& load_;
  const bool gguf_;
};

}  // namespace banyan
