// The bits of keys and values of fixed models, for every instruction set that BANYAN_CPU names
// (tests/CMakeLists.txt runs each): they may change only together with kArithmeticVersion.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <numeric>

#include "banyan/error.h"
#include "base/hash.h"
#include "kernels/page_form.h"
#include "kernels/stored_matrix_fixture.h"
#include "model/forward.h"
#include "plan/build.h"
#include "support/temp_directory.h"
#include "support/tiny_adapter.h"
#include "support/tiny_model.h"

namespace banyan {
namespace {

using testing_support::TinyShape;
using testing_support::TinyTensor;
using testing_support::TinyWeights;

// The first 16 hexadecimal digits of a SHA-256 for each group of models below.
using GroupHashes = std::map<std::string, std::string>;

struct GoldenBits {
  std::vector<std::string> machines;  // Kernels::arithmetic and ArithmeticPlatform
  GroupHashes hashes;
};

// Of version kGoldenVersion of the arithmetic. A machine without an entry skips the test and prints
// its own: add it here once the commit that set the version prints the same on that machine. (The
// bits depend on the C library's cosines and exponentials; all instruction sets of a processor
// agree, and both architectures do with these libraries.) When the version is raised, replace all
// entries by what this machine prints and leave out those that cannot be made anew.
constexpr int kGoldenVersion = 2;
const std::vector<GoldenBits>& Golden() {
  static const std::vector<GoldenBits> golden = {
      {{"cpu, aarch64, glibc 2.36", "cpu, x86_64, glibc 2.36", "cpu, x86_64, glibc 2.39"},
       {{"adapter, f32", "b0f7680dbf5bf506"},
        {"adapter, mixed, 8 bits", "ed4bf6d5cb3fe9b1"},
        {"adapter, mixed, bf16", "a0a69d6d1f1b9fd8"},
        {"adapter, mixed, f16", "849cd5f498435a45"},
        {"families, f32", "c0d491dbd4b1ff46"},
        {"families, mixed, 8 bits", "1690a885fe81ec34"},
        {"families, mixed, bf16", "ea378458cd387406"},
        {"families, mixed, f16", "570bb47c0c1f2aae"},
        {"types of weights, f32", "1b723b4b2c9a90c0"},
        {"types of weights, mixed, f16", "c44ce8fefba21dab"}}},
      {{"NVIDIA H200, sm_90, cuda 13000, driver 13000, x86_64, glibc 2.39"},
       {{"adapter, f32", "9b5a0af30bf683f1"},
        {"adapter, mixed, bf16", "aacc17ab3f9f598e"},
        {"adapter, mixed, f16", "197119325c1a2bd7"},
        {"families, f32", "43e1d133c2454447"},
        {"families, mixed, bf16", "358225c59cbd8b88"},
        {"families, mixed, f16", "a98c1a23466cf3cd"},
        {"types of weights, f32", "861c628c7693a5dd"},
        {"types of weights, mixed, f16", "64171def0d3923a6"}}},
  };
  return golden;
}

// A model in memory, in the names and with the configuration of a Hugging Face directory.
struct FixedModel {
  explicit FixedModel(const TinyShape& shape)
      : config(ConfigFromHuggingFace(TinyConfigJson(shape), "", "fixed model")), weights(shape) {
    for (const TinyTensor& tensor : weights.tensors()) {
      if (tensor.hf_name.empty()) continue;
      store.Add(
          {tensor.hf_name, DType::kF32, tensor.shape, std::as_bytes(std::span(tensor.values))},
          "fixed model");
    }
  }
  // The matrices of the layers are rows of one random matrix of this type.
  FixedModel(const TinyShape& shape, const optest::BlockLayout& layout)
      : config(ConfigFromHuggingFace(TinyConfigJson(shape), "", "fixed model")), weights(shape) {
    blocks = optest::RandomStored(layout, 2 * shape.hidden, shape.hidden, 7);
    size_t first = 0;
    for (const TinyTensor& tensor : weights.tensors()) {
      HostTensor stored{tensor.hf_name, DType::kF32, tensor.shape,
                        std::as_bytes(std::span(tensor.values))};
      if (tensor.hf_name.ends_with("_proj.weight")) {
        const size_t row = RowBytes(layout.type, tensor.shape[1]);
        const auto rows = static_cast<size_t>(tensor.shape[0]);
        stored.dtype = layout.type;
        stored.bytes = std::span(blocks->bytes).subspan(first * row, rows * row);
        first = (first + 17) % static_cast<size_t>(shape.hidden);
      }
      store.Add(stored, "fixed model");
    }
  }

  ModelConfig config;
  TinyWeights weights;
  std::unique_ptr<optest::StoredMatrix> blocks;
  TensorStore store;
};

// Pages of a node of 40 tokens and of 13 tokens below it, computed in steps of at most 23 rows:
// spans begin and end within pages, rows have keys of earlier steps and of their own.
std::vector<std::byte> KvOf(const FixedModel& model, Kernels& kernels, Adapter* adapter = nullptr) {
  constexpr int kFirst = 40, kAll = 53, kStepRows = 23, kPagesOfFirst = 3;
  const ModelConfig& config = model.config;
  AdaptersToLoad adapters;
  if (adapter != nullptr) adapters.apart.push_back(adapter);
  const ModelWeights weights =
      LoadWeights(config, model.store, TensorNaming::kHuggingFace, kernels, {}, adapters);
  const KvShape shape = KvShapeOf(config);
  std::vector<std::int32_t> pages(kPagesOfFirst + 1);
  std::iota(pages.begin(), pages.end(), 0);
  const auto kv = kernels.NewKvMemory(shape, static_cast<int>(pages.size()));
  ForwardPass forward(config, weights, kernels, kStepRows, 1);
  for (int begin = 0, end = 0; begin < kAll; begin = end) {
    end = std::min(begin < kFirst ? kFirst : kAll, begin + kStepRows);
    Batch batch;
    for (int at = begin; at < end; ++at) {
      batch.tokens.push_back((at * 37 + at * at) % config.vocab_size);
      batch.positions.push_back(at);
      batch.slots.push_back(at < kFirst ? at : kPagesOfFirst * kPageTokens + at - kFirst);
    }
    if (adapter != nullptr) batch.variants.assign(batch.tokens.size(), 1);
    std::vector<PlanNode> nodes(begin < kFirst ? 1 : 2);
    nodes.front().length = std::min(end, kFirst);
    nodes.front().pages = std::span(pages).first(
        static_cast<size_t>((nodes[0].length + kPageTokens - 1) / kPageTokens));
    if (nodes.size() == 2) {
      nodes[1].parent = 0;
      nodes[1].first_position = kFirst;
      nodes[1].length = end - kFirst;
      nodes[1].pages = std::span(pages).subspan(kPagesOfFirst, 1);
    }
    nodes.back().row_end = end - begin;
    (void)forward.Run(batch, BuildPlan(nodes, batch.positions, {}), *kv);
  }
  const PageForm form = FormOf(shape, kernels.page_type());
  std::vector<std::byte> bytes(static_cast<size_t>(form.page_bytes())), all;
  for (const auto& [page, tokens] : {std::pair(0, 16), {1, 16}, {2, 8}, {3, 13}}) {
    kernels.ReadPages(*kv, std::span(pages).subspan(static_cast<size_t>(page), 1), bytes);
    if (tokens < kPageTokens) ClearTokensFrom(form, 1, tokens, bytes);
    all.insert(all.end(), bytes.begin(), bytes.end());
  }
  return all;
}

const KernelOptions kAllOptions[] = {{Precision::kF32, KvType::kF32, 1},
                                     {Precision::kMixed, KvType::kF16, 1},
                                     {Precision::kMixed, KvType::kBF16, 1},
                                     {Precision::kMixed, KvType::kQ8, 1}};
const char* const kOptionNames[] = {"f32", "mixed, f16", "mixed, bf16", "mixed, 8 bits"};

// Every part of the network: biases, norms of heads and outputs, windows, gates, scales, YaRN,
// experts and sinks.
void HashFamilies(Kernels& kernels, Sha256& hash) {
  for (const char* family : {"llama", "qwen2", "qwen3", "phi3", "olmo2", "gemma3_text", "granite",
                             "ministral3", "qwen3_moe", "gpt_oss"}) {
    TinyShape shape;
    shape.family = family;
    shape.layers = 3;
    if (shape.family == "gemma3_text" || shape.family == "gpt_oss") shape.window = 20;
    hash.Add(KvOf(FixedModel(shape), kernels));
  }
}

TinyShape BlockShape() {
  TinyShape shape;  // all matrices have rows of one block of 256 or eight of 32
  shape.hidden = 256;
  shape.ffn = 256;
  shape.heads = 8;
  shape.head_dim = 32;
  return shape;
}

void HashWeightTypes(Kernels& kernels, Sha256& hash) {
  static const std::vector<std::unique_ptr<FixedModel>> models = [] {
    std::vector<std::unique_ptr<FixedModel>> made;
    for (const optest::BlockLayout& layout : optest::Layouts()) {
      made.push_back(std::make_unique<FixedModel>(BlockShape(), layout));
    }
    return made;
  }();
  for (const auto& model : models) hash.Add(KvOf(*model, kernels));
}

void HashAdapter(Kernels& kernels, Sha256& hash) {
  const testing_support::TempDirectory folder;
  const TinyShape shape;
  const std::int64_t hidden = shape.hidden, query = shape.heads * shape.head_dim;
  const std::int64_t key = shape.kv_heads * shape.head_dim;
  const auto directory = testing_support::WriteTinyAdapter(
      testing_support::LoraConfig("\"r\":2,\"lora_alpha\":4"),
      {testing_support::RandomModule("model.layers.0.self_attn.q_proj", query, hidden),
       testing_support::RandomModule("model.layers.0.mlp.down_proj", hidden, shape.ffn),
       testing_support::RandomModule("model.layers.1.self_attn.v_proj", key, hidden)},
      folder.path());
  Adapter adapter = Adapter::Open(directory);
  hash.Add(KvOf(FixedModel(shape), kernels, &adapter));
}

GroupHashes HashesOn(const std::string& device, std::string& machine) {
  GroupHashes hashes;
  for (size_t i = 0; i < std::size(kAllOptions); ++i) {
    const auto kernels = MakeKernels(device, kAllOptions[i]);
    machine = kernels->arithmetic() + ", " + ArithmeticPlatform();
    const auto put = [&](const char* group, auto&& fill) {
      Sha256 hash;
      fill(*kernels, hash);
      hashes[std::string(group) + ", " + kOptionNames[i]] = ToHex(hash.Finish()).substr(0, 16);
    };
    put("families", HashFamilies);
    put("adapter", HashAdapter);
    // The type of KV is rounded to at the end: two cases of arithmetic are enough.
    if (i < 2) put("types of weights", HashWeightTypes);
  }
  return hashes;
}

std::string EntryOf(const std::string& machine, const GroupHashes& hashes) {
  std::string text = "      {{\"" + machine + "\"},\n       {";
  for (const auto& [group, hash] : hashes) {
    if (text.back() != '{') text += ",\n        ";
    text += "{\"" + group + "\", \"" + hash + "\"}";
  }
  return text + "}},\n";
}

void ExpectGolden(const std::string& device) {
  std::string machine;
  GroupHashes found;
  try {
    found = HashesOn(device, machine);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUnsupported) throw;
    GTEST_SKIP() << error.what();
  }
  ASSERT_EQ(kGoldenVersion, kArithmeticVersion)
      << "kArithmeticVersion was raised: the entries of Golden() are of the version before. Set "
         "kGoldenVersion and put in their place:\n"
      << EntryOf(machine, found);
  for (const GoldenBits& golden : Golden()) {
    if (std::ranges::find(golden.machines, machine) == golden.machines.end()) continue;
    for (const auto& [group, hash] : golden.hashes) {
      EXPECT_EQ(found[group], hash) << "keys and values of '" << group << "' on " << machine
                                    << " have other bits: raise kArithmeticVersion "
                                       "(model/forward.h) or restore the bits";
    }
    for (const auto& [group, hash] : found) {
      if (!golden.hashes.contains(group)) {
        std::cout << "not recorded: {\"" << group << "\", \"" << hash << "\"}\n";
      }
    }
    return;
  }
  GTEST_SKIP() << "no golden bits of this machine; Golden() would have\n"
               << EntryOf(machine, found);
}

TEST(GoldenBits, Cpu) { ExpectGolden("cpu"); }
TEST(GoldenBits, Cuda) { ExpectGolden("cuda"); }

}  // namespace
}  // namespace banyan
