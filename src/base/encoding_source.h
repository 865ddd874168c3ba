// Text in another encoding, read as UTF-8.
#pragma once

#include <memory>
#include <string>

#include "base/byte_source.h"

namespace banyan {

// Throws kUsage unless the machine's iconv knows the name ("latin-1" and "windows-1252" are always
// known).
void CheckEncoding(const std::string& encoding);

// The source's bytes as UTF-8. Reading throws kInput, with the byte's number, for what is no text
// in that encoding.
std::unique_ptr<ByteSource> DecodedSource(std::unique_ptr<ByteSource> source,
                                          const std::string& encoding);

}  // namespace banyan
