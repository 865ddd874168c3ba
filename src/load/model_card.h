// Where cards stand: `banyan.json` in the folder of an adapter or of a Hugging Face model, the
// string `banyan.card` in a GGUF file's metadata.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "banyan/model_card.h"
#include "formats/gguf.h"

namespace banyan {

inline constexpr const char* kModelCardFile = "banyan.json";
inline constexpr const char* kModelCardKey = "banyan.card";

// A JSON object. Fields that are not known are passed over; throws kFormat, with `where` and the
// field, for known ones that are not what they should be.
ModelCard ReadModelCard(std::string_view json, const std::string& where);

// Nothing when there is none.
std::optional<ModelCard> ModelCardOfFolder(const std::filesystem::path& folder);
std::optional<ModelCard> ModelCardOfGguf(const GgufFile& gguf);

// The card of a model with an adapter: the adapter's own, whatever the model's says. An adapter
// without one leaves the model's habits, and nothing that was measured: that was another model.
ModelCard CardWithAdapter(const ModelCard& model, const std::optional<ModelCard>& adapter);

}  // namespace banyan
