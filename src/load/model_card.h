// Where model cards are stored: `banyan.json` in the folder of an adapter or of a Hugging Face
// model, the string `banyan.card` in a GGUF file's metadata.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "banyan/model.h"
#include "formats/gguf.h"

namespace banyan {

inline constexpr const char* kModelCardFile = "banyan.json";
inline constexpr const char* kModelCardKey = "banyan.card";
inline constexpr size_t kMostCardBytes = 1u << 20;

// Reads a JSON object. Ignores unknown fields; throws kFormat, with `where` and the field, for
// known ones with wrong values.
ModelCard ReadModelCard(std::string_view json, const std::string& where);

// nullopt when there is none.
std::optional<ModelCard> ModelCardOfFolder(const std::filesystem::path& folder);
std::optional<ModelCard> ModelCardOfGguf(const GgufFile& gguf);

// The card of a model with an adapter: the adapter's own. Without one, the model's settings without
// anything measured, since the adapter makes it another model.
ModelCard CardWithAdapter(const ModelCard& model, const std::optional<ModelCard>& adapter);

}  // namespace banyan
