// The devices that this build can compute on.
#pragma once

#include <string>

namespace banyan {

// For --version: "cpu (dotprod), cuda, reference". Asks no GPU.
std::string DescribeDevices();

}  // namespace banyan
