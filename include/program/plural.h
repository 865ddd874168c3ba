// Counts and sizes in messages.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace banyan {

// "1 row", "2 rows"; 12345 → "12 345 rows".
std::string Plural(std::int64_t count, std::string_view noun);

// "12 bytes", "4.2 KiB", "1.5 MiB", "3.00 GiB".
std::string SizeText(std::int64_t bytes);

}  // namespace banyan
