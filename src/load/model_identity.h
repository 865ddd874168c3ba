// What a model is, for whoever keeps something that was made with it: every part of it that can
// change an answer, by a name that a user knows.
#pragma once

#include <string>
#include <vector>

#include "banyan/model.h"
#include "base/json.h"
#include "formats/gguf.h"
#include "formats/locate.h"
#include "formats/tensor_store.h"
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

}  // namespace banyan
