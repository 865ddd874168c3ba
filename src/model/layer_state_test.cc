// Adapters of modules whose rows or columns stand elsewhere: what is added to every weight.
#include "model/layer_state.h"

#include <gtest/gtest.h>

#include <functional>

#include "base/files.h"
#include "formats/safetensors.h"
#include "kernels/operation_fixture.h"
#include "support/temp_directory.h"
#include "support/tiny_adapter.h"
#include "support/tiny_states.h"

namespace banyan {
namespace {

using testing_support::TempDirectory;

constexpr int kHidden = 48;

// A matrix of a layer, and which row and column of the module each of its own is.
struct Stands {
  const char* where;
  std::function<const Matrix&(const LayerWeights&)> matrix;
  std::function<int(int)> row = [](int r) { return r; };  // -1: it is another module's
  std::function<int(int)> column = [](int c) { return c; };
};

struct ModuleCase {
  const char* family;
  bool tiled;  // as in GGUF
  int layer;
  const char* module;
  int rows, columns;
  std::vector<Stands> places;
};

const Matrix& Queries(const LayerWeights& w) { return *w.qkv; }
const Matrix& Gates(const LayerWeights& w) { return *w.output_gate; }
const Matrix& Inputs(const LayerWeights& w) { return *w.state->input; }
const Matrix& StateGates(const LayerWeights& w) { return *w.state->gate; }
const Matrix& Outputs(const LayerWeights& w) { return *w.output; }

// Heads of attention: 4 of 12. Of the delta rule: 4 of 10 values, 2 of keys of 6. Of Mamba-2: 8.
std::vector<ModuleCase> Cases() {
  const auto untiled = [](int value) {  // heads 0, 1, 2, 3 stand as 0, 2, 1, 3
    const int head = value / 10;
    return (head % 2 * 2 + head / 2) * 10 + value % 10;
  };
  const auto number = [](int r) {  // steps, then strengths, of each head
    const int head = r % 4;
    return head / 2 * 4 + (r < 4 ? 2 : 0) + head % 2;
  };
  const auto keyed = [](int value, int first) { return value / 20 * 52 + first + value % 20; };
  return {
      {"qwen3_5_text",
       false,
       1,
       "self_attn.q_proj",
       96,
       kHidden,
       {{"queries", Queries, [](int r) { return r < 48 ? r / 12 * 24 + r % 12 : -1; }},
        {"gates", Gates, [](int r) { return r / 12 * 24 + 12 + r % 12; }}}},
      {"qwen3_next",
       false,
       0,
       "linear_attn.in_proj_ba",
       8,
       kHidden,
       {{"numbers", Inputs, [=](int r) { return r < 64 ? -1 : number(r - 64); }}}},
      {"qwen3_next",
       false,
       2,
       "linear_attn.in_proj_qkvz",
       104,
       kHidden,
       {{"inputs", Inputs,
         [=](int r) {
           if (r >= 64) return -1;
           return r < 24 ? r % 12 / 6 * 52 + r / 12 * 6 + r % 6 : keyed(r - 24, 12);
         }},
        {"gates", StateGates, [=](int r) { return keyed(r, 32); }}}},
      {"granitemoehybrid",
       false,
       2,
       "mamba.in_proj",
       224,
       kHidden,
       {{"inputs", Inputs, [](int r) { return 96 + r; }}, {"gates", StateGates}}},
      {"qwen3_5_text",
       true,
       0,
       "linear_attn.in_proj_qkv",
       64,
       kHidden,
       {{"inputs", Inputs,
         [=](int r) { return r < 24   ? r
                             : r < 64 ? 24 + untiled(r - 24)
                                      : -1; }}}},
      {"qwen3_5_text",
       true,
       0,
       "linear_attn.in_proj_b",
       4,
       kHidden,
       {{"strengths", Inputs, [=](int r) { return r < 68 ? -1 : untiled(10 * (r - 68)) / 10; }}}},
      {"qwen3_5_text",
       true,
       2,
       "linear_attn.in_proj_z",
       40,
       kHidden,
       {{"gates", StateGates, untiled}}},
      {"qwen3_5_text",
       true,
       2,
       "linear_attn.out_proj",
       kHidden,
       40,
       {{"output", Outputs, [](int r) { return r; }, untiled}}},
  };
}

// [columns, rows]: the product with ones.
optest::HostMatrix Transposed(Kernels& kernels, const Matrix& matrix) {
  optest::HostMatrix ones = optest::ConstantMatrix(matrix.columns, matrix.columns, 0.0f);
  for (std::int64_t i = 0; i < matrix.columns; ++i) {
    ones.values[static_cast<size_t>(i * (matrix.columns + 1))] = 1.0f;
  }
  Tensor out = optest::Poisoned(kernels, matrix.columns, matrix.rows);
  kernels.MatMul(optest::Fill(kernels, ones), matrix, nullptr, out);
  return optest::Read(kernels, out);
}

TEST(LayerState, EveryRowOfAModuleIsAdaptedWhereItStands) {
  const TempDirectory directory;
  for (const ModuleCase& one : Cases()) {
    const std::filesystem::path folder =
        directory.path() / (std::string(one.family) + one.module + (one.tiled ? " tiled" : ""));
    const std::filesystem::path model =
        testing_support::TinyStates(one.family, 1).Write(folder / "model");
    const testing_support::TinyModule module = testing_support::RandomModule(
        "model.layers." + std::to_string(one.layer) + "." + one.module, one.rows, one.columns);
    Adapter adapter = Adapter::Open(testing_support::WriteTinyAdapter(
        testing_support::LoraConfig(R"("r": 2, "lora_alpha": 2)"), {module}, folder / "adapter"));
    ModelConfig config =
        ConfigFromHuggingFace(ReadTextFile(model / "config.json", 1u << 20), "", "m");
    config.states.shape.tiled = one.tiled;
    const TensorStore store = OpenSafetensors({model / "model.safetensors"});
    const auto kernels = MakeKernels("reference", {.precision = Precision::kF32});
    const auto load = [&](Adapter* merged) {
      return LoadWeights(config, store, TensorNaming::kHuggingFace, *kernels, {}, {merged, {}});
    };
    const ModelWeights plain = load(nullptr), adapted = load(&adapter);
    for (const Stands& place : one.places) {
      SCOPED_TRACE(std::string(one.family) + " " + one.module + " " + place.where);
      const auto layer = static_cast<size_t>(one.layer);
      const optest::HostMatrix before = Transposed(*kernels, place.matrix(plain.layers[layer]));
      const optest::HostMatrix after = Transposed(*kernels, place.matrix(adapted.layers[layer]));
      ASSERT_EQ(before.rows, one.columns);
      for (int column = 0; column < one.columns; ++column) {
        for (int row = 0; row < before.columns; ++row) {
          const size_t at = static_cast<size_t>(column * before.columns + row);
          const int of_module = place.row(row);
          const double added =
              of_module < 0 ? 0.0 : module.Product(of_module, place.column(column));
          ASSERT_NEAR(after.values[at] - before.values[at], added, 1e-5) << row << ", " << column;
        }
      }
    }
  }
}

}  // namespace
}  // namespace banyan
