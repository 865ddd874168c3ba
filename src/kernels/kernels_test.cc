#include <gtest/gtest.h>

#include "banyan/error.h"
#include "kernels/kernels.h"

namespace banyan {

namespace {

TEST(MakeKernels, GivesTheNamedBackendWithItsOptions) {
  for (const char* device : {"reference", "cpu"}) {
    const auto kernels = MakeKernels(device, {Precision::kMixed, KvType::kQ8, 1});
    EXPECT_EQ(kernels->name().rfind(device, 0), 0u) << kernels->name();
    EXPECT_EQ(kernels->options().precision, Precision::kMixed);
    EXPECT_EQ(kernels->options().kv_type, KvType::kQ8);
    EXPECT_GE(kernels->attention_tasks(), 1);
  }
}

TEST(MakeKernels, UnknownNameIsAUsageErrorThatListsTheNames) {
  try {
    MakeKernels("tpu", {});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    const std::string message = error.what();
    for (const char* part : {"tpu", "cpu", "cuda", "reference"}) {
      EXPECT_NE(message.find(part), std::string::npos) << message;
    }
  }
}

#ifndef BANYAN_WITH_CUDA
TEST(MakeKernels, MissingCudaIsUnsupported) {
  try {
    MakeKernels("cuda", {});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnsupported);
  }
}
#endif

TEST(MakeKernels, TooMuchMemoryIsALimitError) {
  for (const char* device : {"reference", "cpu"}) {
    const auto kernels = MakeKernels(device, {});
    try {
      kernels->NewTensor(std::int64_t{1} << 40, std::int64_t{1} << 20);
      FAIL() << device << ": no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kLimit) << device;
    }
  }
}

}  // namespace

}  // namespace banyan
