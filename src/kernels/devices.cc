#include "program/devices.h"

#include "banyan/error.h"
#include "kernels/cpu/cpu_path.h"

namespace banyan {

std::string DescribeDevices() {
  std::string path;
  try {
    path = CpuPathOfThisMachine().name;
  } catch (const Error&) {  // of BANYAN_CPU, which commands that compute report
    path = "no path";
  }
  std::string devices = "cpu (" + path + ")";
#ifdef BANYAN_WITH_CUDA
  devices += ", cuda";
#endif
  return devices + ", reference";
}

}  // namespace banyan
