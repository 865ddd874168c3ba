// Sizes as people write them.
#pragma once

#include <cstdint>
#include <string>

namespace banyan {

// Bytes of a text such as 512M, 2G or 1.5GiB. Throws kUsage; `option` is what the message calls it.
std::int64_t ParseBytes(const std::string& text, const std::string& option);

}  // namespace banyan
