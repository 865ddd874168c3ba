// Adapters of modules whose rows become several matrices are refused by name, merged or not.
#include "model/layer_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "formats/safetensors.h"
#include "support/error_message.h"
#include "support/temp_directory.h"
#include "support/tiny_adapter.h"
#include "support/tiny_states.h"

namespace banyan {
namespace {

using testing_support::TempDirectory;

struct PartedModule {
  const char* family;
  const char* name;
  int rows;
};

TEST(LayerState, ModulesOfSeveralProductsTakeNoAdapter) {
  const TempDirectory directory;
  for (const PartedModule& module :
       {PartedModule{"qwen3_5_text", "model.layers.1.self_attn.q_proj", 96},
        PartedModule{"qwen3_next", "model.layers.0.linear_attn.in_proj_ba", 8},
        PartedModule{"granitemoehybrid", "model.layers.2.mamba.in_proj", 224}}) {
    const std::filesystem::path folder = directory.path() / module.family;
    const std::filesystem::path model =
        testing_support::TinyStates(module.family, 1).Write(folder / "model");
    const std::filesystem::path written = testing_support::WriteTinyAdapter(
        testing_support::LoraConfig(R"("r": 2, "lora_alpha": 2)"),
        {testing_support::RandomModule(module.name, module.rows, 48)}, folder / "adapter");
    const ModelConfig config =
        ConfigFromHuggingFace(ReadTextFile(model / "config.json", 1u << 20), "", "m");
    const TensorStore store = OpenSafetensors({model / "model.safetensors"});
    const auto kernels = MakeKernels("cpu", {});
    for (const bool merged : {true, false}) {
      Adapter adapter = Adapter::Open(written.string());
      AdaptersToLoad adapters;
      if (merged) {
        adapters.merged = &adapter;
      } else {
        adapters.apart.push_back(&adapter);
      }
      const std::string message = testing_support::ErrorMessage(ErrorKind::kUnsupported, [&] {
        LoadWeights(config, store, TensorNaming::kHuggingFace, *kernels, {}, adapters);
      });
      EXPECT_THAT(message, testing::HasSubstr(std::string(module.name) + "', whose rows"));
    }
  }
}

}  // namespace
}  // namespace banyan
