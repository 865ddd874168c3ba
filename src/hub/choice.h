// Which files of a repository are the model: one quantisation of several, all parts of it, or
// safetensors with what belongs to them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hub/file_list.h"

namespace banyan {

// A model in one GGUF file or in several parts.
struct GgufChoice {
  std::string quantisation;        // of the name: "Q4_K_M", "BF16"; empty: it does not say
  std::vector<std::string> files;  // parts in their order; the first is opened
  std::int64_t bytes = 0;
  bool whole = true;  // no part is missing
};

// "Qwen3-4B-Q4_K_M.gguf" → "Q4_K_M", "model-ud-q4_k_xl-00001-of-00002.gguf" → "UD-Q4_K_XL".
std::string QuantisationOf(std::string_view path);

// The models among `files`, without projectors of images, importance matrices and files that are no
// GGUF, those of most bytes first.
std::vector<GgufChoice> GgufChoices(std::span<const HubFile> files);

// The memory a model of so many bytes needs to be loaded and to answer, roughly.
std::int64_t MemoryToRun(std::int64_t file_bytes);

// The best that fits: of quantised models the largest that `memory` holds, else one of 16 or 32
// bits. Null when none does. REQUIRES: choices as GgufChoices gives them.
const GgufChoice* BestChoice(std::span<const GgufChoice> choices, std::int64_t memory);

// The one that was named, in any case of letters; null: there is none. "Q4_K_M" finds "UD-Q4_K_M"
// only where there is no plain one.
const GgufChoice* NamedChoice(std::span<const GgufChoice> choices, std::string_view quantisation);

// "Q8_0 (4.3 GB), Q4_K_M (2.5 GB)".
std::string DescribeChoices(std::span<const GgufChoice> choices);
std::string SizeInWords(std::int64_t bytes);  // "2.5 GB", "19.4 MB"

// Of a repository in the Hugging Face layout: configuration, tokenizer, licence and card; and the
// weights, of a model or of an adapter, but for the shards that an index names. Code, pickles and
// other formats are never among them.
bool IsSmallModelFile(const HubFile& file);
bool IsSafetensorsModel(const HubRepository& repository);
bool IsAdapter(const HubRepository& repository);

}  // namespace banyan
