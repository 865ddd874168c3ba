// Text for and from a person: counts and sizes in messages, sizes as typed, and text that is safe
// to print on a terminal.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace banyan {

// "1 row", "2 rows"; 12345 → "12 345 rows".
std::string Plural(std::int64_t count, std::string_view noun);

// "12 bytes", "4.2 KiB", "1.5 MiB", "3.00 GiB".
std::string SizeText(std::int64_t bytes);

// Bytes of a text such as 512M, 2G or 1.5GiB. Throws kUsage; `option` is what the message calls it.
std::int64_t ParseBytes(const std::string& text, const std::string& option);

// Untrusted text for a terminal, which would obey control characters: these (except tab and line
// end) become \u001b, bytes that are not UTF-8 \xff.
std::string Visible(std::string_view text);

}  // namespace banyan
