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

TEST(DeviceList, GroupsOfShards) {
  const auto names = [](const std::string& devices, int shards) {
    std::vector<std::string> found;
    for (const DeviceName& group : InShards(ParseDevices(devices), shards)) {
      found.push_back(group.name);
    }
    return found;
  };
  EXPECT_THAT(names("cpu", 3), ElementsAre("cpu"));  // all on one
  EXPECT_THAT(names("cuda:0,1,2,3", 1), ElementsAre("cuda:0", "cuda:1", "cuda:2", "cuda:3"));
  EXPECT_THAT(names("cuda:0,1,2,3", 2), ElementsAre("cuda:0+1", "cuda:2+3"));
  EXPECT_THAT(names("cuda:0,0", 2), ElementsAre("cuda:0#1+0#2"));
  EXPECT_THAT(names("cpu,cpu,cpu,cpu", 2), ElementsAre("cpu#1+2", "cpu#3+4"));
  const std::vector<DeviceName> apart = InShards(ParseDevices("cuda:0,1,2,3"), 2);
  EXPECT_THAT(apart[1].shard_ordinals, ElementsAre(2, 3));
  EXPECT_EQ(apart[1].sharers, 1);
  const std::vector<DeviceName> same = InShards(ParseDevices("cuda:0,1,1,0"), 2);
  EXPECT_EQ(same[1].sharers, 2);
  EXPECT_EQ(same[1].place, 1);
  EXPECT_THAT(ErrorMessage(ErrorKind::kUsage, [&] { names("cuda:0,1,2", 2); }),
              HasSubstr("one device or a multiple of 2, found 3"));
  EXPECT_THAT(ErrorMessage(ErrorKind::kUsage, [&] { names("cuda:0,1,1,2", 2); }),
              HasSubstr("share cuda:1"));
}

TEST(DeviceList, FewestShardsThatFit) {
  const auto shards = [](const std::string& devices, std::int64_t weights) {
    return FewestShards(ParseDevices(devices), weights, [](const DeviceName& device) {
      return std::int64_t{device.ordinal == 3 ? 60 : 100};
    });
  };
  EXPECT_EQ(shards("cuda:0,1", 75), 1);
  EXPECT_EQ(shards("cuda:0,1", 76), 2);
  EXPECT_EQ(shards("cuda:0,1", 1000), 2);  // loading will say that there is no room
  EXPECT_EQ(shards("cuda:0,1,2,4", 150), 2);
  EXPECT_EQ(shards("cuda:0,1,2,4", 160), 4);
  EXPECT_EQ(shards("cuda:0,1,2,3", 75), 2);  // the smallest decides
  EXPECT_EQ(shards("cpu,cpu", 37), 1);       // a copy for each in one memory
  EXPECT_EQ(shards("cpu,cpu", 38), 2);
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
