// FetchModel (banyan/model.h) with its progress.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace banyan {

// Hears a few times a second how many bytes of the package are there, and at last that all are.
using FetchProgress = std::function<void(std::int64_t done, std::int64_t total)>;

std::string FetchModel(const std::string& name, const std::function<void(const std::string&)>& say,
                       const FetchProgress& progress);

}  // namespace banyan
