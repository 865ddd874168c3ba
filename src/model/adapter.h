// LoRA adapters as PEFT saves them: `adapter_config.json` and `adapter_model.safetensors`. Each
// adapted matrix W [out, in] becomes W + scale * B A, with A [rank, in] and B [out, rank].
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "formats/tensor_store.h"
#include "tensor/host_tensor.h"

namespace banyan {

// The part of adapter_config.json that the weights depend on.
struct AdapterConfig {
  std::string base_model;  // its name or path; empty: not said
  int rank = 0;
  double alpha = 0.0;
  bool root_scale = false;  // rsLoRA: alpha / sqrt(rank) in place of alpha / rank
  // Overrides by module. A key is a module's name or the end of it after a dot.
  std::map<std::string, int> ranks;
  std::map<std::string, double> alphas;
  std::vector<std::string> target_modules;  // empty where the file has an expression

  int RankOf(const std::string& module) const;
  float ScaleOf(const std::string& module) const;  // of the module's product
};

// `where` is the file. Throws kFormat, and kUnsupported for more than a low-rank product.
AdapterConfig ReadAdapterConfig(std::string_view text, const std::string& where);

// The product that one module gets. Views into the adapter.
struct LowRankProduct {
  const HostTensor* a = nullptr;  // [rank, in]; of an embedding [rank, vocabulary]
  const HostTensor* b = nullptr;  // [out, rank]; of an embedding [hidden, rank]
  std::int64_t rank = 0;
  float scale = 0.0f;
  bool embedding = false;  // (B A) is added transposed
};

class Adapter {
 public:
  // Throws kNotFound, kIo, kFormat, and kUnsupported for an adapter that is more than low-rank
  // products of matrices (DoRA, biases, whole modules, …); messages name file, key or tensor,
  // expected and found.
  static Adapter Open(const std::filesystem::path& directory);
  // From files in memory; messages name `where` as the directory. The bytes that `tensors` views
  // must outlive the adapter.
  Adapter(std::string_view config, TensorStore tensors, const std::string& where);

  // The product for a module by its name in the network ("model.layers.0.self_attn.q_proj"), which
  // has weights [out, in]; null when it gets none. Throws kFormat when the shapes do not fit.
  const LowRankProduct* Find(const std::string& module, std::int64_t out, std::int64_t in);
  // Throws kFormat if Find was never called for one of the modules: the adapter is another model's.
  void CheckAllFound() const;

  const TensorStore& tensors() const { return tensors_; }
  // Changes with every value of the configuration that changes the weights.
  std::string Settings() const;
  const std::string& where() const { return where_; }

 private:
  void AddTensor(const std::string& name);
  void CheckPairs() const;
  void CheckTargets(const std::vector<std::string>& targets) const;
  std::string ForWhom() const;

  std::string where_;
  std::string base_model_;  // as the configuration names it; empty: it does not
  TensorStore tensors_;
  std::map<std::string, LowRankProduct> modules_;
  std::set<std::string> found_;  // names of modules that were asked for
};

}  // namespace banyan
