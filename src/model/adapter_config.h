// adapter_config.json of a PEFT LoRA adapter, as far as the weights depend on it.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace banyan {

struct AdapterConfig {
  std::string base_model;  // its name or path; empty: not said
  int rank = 0;
  double alpha = 0.0;
  bool root_scale = false;  // rsLoRA: alpha / sqrt(rank) in place of alpha / rank
  // For the modules that a key names, see NamesModule.
  std::map<std::string, int> ranks;
  std::map<std::string, double> alphas;
  std::vector<std::string> target_modules;  // empty where the file has an expression

  int RankOf(const std::string& module) const;
  float ScaleOf(const std::string& module) const;  // of the module's product
};

// Throws kFormat, and kUnsupported for what is more than a low-rank product; `where` is the file.
AdapterConfig ReadAdapterConfig(std::string_view text, const std::string& where);

// Whether a key names a module: its whole name or the end of it after a dot, as "q_proj" and
// "layers.3.self_attn.q_proj" do; only the whole name when it begins with "^". PEFT reads keys as
// regular expressions; of those, "\." for a dot is understood.
bool NamesModule(std::string_view key, std::string_view module);

}  // namespace banyan
