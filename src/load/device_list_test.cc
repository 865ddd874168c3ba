#include "load/device_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "banyan/error.h"
#include "support/error_message.h"

namespace banyan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing_support::ErrorMessage;

std::vector<std::string> Names(const std::string& devices) {
  std::vector<std::string> names;
  for (const DeviceName& device : ParseDevices(devices)) names.push_back(device.name);
  return names;
}

TEST(DeviceList, NamesOneDeviceOrSeveral) {
  EXPECT_THAT(Names("cpu"), ElementsAre("cpu"));
  EXPECT_THAT(Names("cuda"), ElementsAre("cuda"));
  EXPECT_THAT(Names("cuda:3"), ElementsAre("cuda:3"));
  EXPECT_THAT(Names("cuda:0,1,12"), ElementsAre("cuda:0", "cuda:1", "cuda:12"));
  EXPECT_THAT(Names("cuda:2,cuda:0"), ElementsAre("cuda:2", "cuda:0"));
  EXPECT_EQ(ParseDevices("cuda").front().ordinal, -1);
  EXPECT_EQ(ParseDevices("cuda:0,1").back().ordinal, 1);
  EXPECT_EQ(BackendOf("cuda:0,1"), "cuda");
  EXPECT_EQ(BackendOf("cpu,cpu"), "cpu");
}

TEST(DeviceList, OneThatComesSeveralTimesIsShared) {
  EXPECT_THAT(Names("cpu,cpu"), ElementsAre("cpu#1", "cpu#2"));
  EXPECT_THAT(Names("cuda:0,1,0"), ElementsAre("cuda:0#1", "cuda:1", "cuda:0#2"));
  EXPECT_THAT(Names("cuda,cuda:0"), ElementsAre("cuda:0#1", "cuda:0#2"));
  const std::vector<DeviceName> three = ParseDevices("cpu,cpu,cpu");
  EXPECT_EQ(three[1].sharers, 3);
  EXPECT_EQ(three[0].ShareOfThreads(7), 3);
  EXPECT_EQ(three[1].ShareOfThreads(7), 2);
  EXPECT_EQ(three[2].ShareOfThreads(7), 2);
  EXPECT_EQ(three[2].ShareOfThreads(1), 1);
  EXPECT_EQ(ParseDevices("cpu").front().ShareOfThreads(0), 0);
}

TEST(DeviceList, RefusesWhatIsNone) {
  for (const char* wrong : {"", "gpu", "cpu:0", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", "cpu,",
                            "0,1", "cpu,1", "cuda,1", "cuda:0,,1", "CUDA", "cuda:99999999999"}) {
    EXPECT_THAT(ErrorMessage(ErrorKind::kUsage, [&] { ParseDevices(wrong); }),
                HasSubstr("unknown device"))
        << wrong;
  }
  EXPECT_THAT(ErrorMessage(ErrorKind::kUsage, [] { ParseDevices("cpu,cuda:0"); }),
              HasSubstr("of one kind, because cpu and cuda differ"));
  std::string many = "cpu";
  for (int i = 0; i < kMostDevices; ++i) many += ",cpu";
  EXPECT_THAT(ErrorMessage(ErrorKind::kUsage, [&] { ParseDevices(many); }),
              HasSubstr("at most 64 devices, found 65"));
}

}  // namespace
}  // namespace banyan
