// safetensors files: a JSON header and the tensors' bytes. One file, or several with an index
// (`model.safetensors.index.json`).
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

#include "formats/tensor_store.h"

namespace banyan {

// `path` is a .safetensors file of any name, an index, or a directory that holds
// model.safetensors.index.json or model.safetensors. Throws kNotFound, kIo, or kFormat when a
// header, an index or a tensor's place does not follow the format. Element types other than F32,
// F16 and BF16 are an error only when the tensor is fetched; F8_E4M3 and I8 unless their scales
// were found (TensorStore::MarkScaled).
TensorStore OpenSafetensors(const std::filesystem::path& path);

// One file's bytes in memory, which must outlive the store; `name` stands for the path in messages.
TensorStore ReadSafetensors(std::span<const std::byte> bytes, const std::string& name);

}  // namespace banyan
