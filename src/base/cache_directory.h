// Where Banyan keeps files that it can do without.
#pragma once

#include <filesystem>

namespace banyan {

// BANYAN_CACHE, else XDG_CACHE_HOME/banyan, else ~/.cache/banyan. Not made by this; empty when none
// of these is set.
std::filesystem::path CacheDirectory();

}  // namespace banyan
