// What the beginning of a file of weights says of the rest: for readers that have no more of it.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <span>
#include <string>

namespace banyan {

// Bytes of a GGUF file's header, metadata and tensor list; nothing when the beginning ends before
// them. Throws kFormat and kUnsupported for what is no GGUF file.
std::optional<size_t> GgufHeaderBytes(std::span<const std::byte> beginning,
                                      const std::string& name);

// Bytes of a safetensors file's header with its length before it; nothing when fewer than those 8
// bytes are there. Throws kFormat.
std::optional<size_t> SafetensorsHeaderBytes(std::span<const std::byte> beginning,
                                             const std::string& name);

// The files that the text of an index of safetensors names, beside it. Throws kFormat, and kLimit
// for too many.
std::set<std::string> ShardsOfIndex(const std::string& text, const std::string& where);

}  // namespace banyan
