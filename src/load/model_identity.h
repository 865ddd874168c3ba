// The identity of a model, to be stored with results made by it: every part that can change an
// answer, by a name that a user knows.
#pragma once

#include <string>
#include <vector>

#include "banyan/model.h"
#include "base/json.h"
#include "formats/gguf.h"
#include "formats/tensor_store.h"
#include "hub/locate.h"
#include "kernels/kernels.h"
#include "model/adapter.h"

namespace banyan {

// An opened model, as far as its identity goes.
struct IdentitySource {
  const ModelFiles& files;
  const GgufFile* gguf;  // null: a Hugging Face directory
  const TensorStore& tensors;
  const Adapter* adapter;  // null: none
  const Text* text;        // null: the files have no tokenizer
  const std::vector<TokenId>& end_tokens;
};

// "weights", "adapter" (where there is one), "tokenizer" and "chat template" are hashes of all
// their bytes; "config …" and the rest are values. The weights of large models are read only when
// their files are other ones than at the last time (path, size, times and inode; the cache
// directory remembers).
Json IdentityOf(const IdentitySource& source, const LoadOptions& options,
                const KernelOptions& kernel_options);

// Of everything that an adapter adds.
std::string HashOfAdapter(const Adapter& adapter, int threads);

// What keys and values depend on beside tokens and positions, as a JSON object: Model::identity
// without the text side and without adapters that are kept apart (except the one with hash
// `adapter`, if not empty), and the arithmetic that computes them.
std::string KvIdentityOf(const std::string& identity, const Kernels& kernels,
                         const std::string& adapter = "");

}  // namespace banyan
