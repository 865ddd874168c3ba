// For the tests of encoders. Tests only; not part of the library.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "banyan/encoder.h"
#include "banyan/error.h"
#include "kernels/kernels.h"

namespace banyan::encodertest {

using Texts = std::vector<std::vector<TokenId>>;

// Those that this build and machine have.
inline std::vector<std::string> Devices() {
  std::vector<std::string> devices = {"cpu", "reference"};
  try {
    MakeKernels("cuda", {});
    devices.emplace_back("cuda");
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUnsupported) throw;
  }
  return devices;
}

inline std::shared_ptr<Encoder> LoadOn(const std::string& device, const std::filesystem::path& path,
                                       int threads = 2, const std::string& precision = "f32") {
  LoadOptions options;
  options.model = path.string();
  options.device = device;
  options.precision = precision;
  options.threads = threads;
  return Encoder::Load(options);
}

template <typename Expected>
double LargestDifference(const std::vector<float>& found, const Expected& expected) {
  EXPECT_EQ(found.size(), expected.size());
  double largest = 0.0;
  for (size_t i = 0; i < std::min(found.size(), expected.size()); ++i) {
    const double difference = std::fabs(found[i] - static_cast<double>(expected[i]));
    if (!(difference <= largest)) largest = difference;  // NaN stays
  }
  return largest;
}

}  // namespace banyan::encodertest
