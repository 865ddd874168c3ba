#include "model/arithmetic_version.h"

#include <features.h>
#ifdef __GLIBC__
#include <gnu/libc-version.h>
#endif

namespace banyan {

std::string ArithmeticPlatform() {
#if defined(__x86_64__)
  std::string platform = "x86_64";
#elif defined(__aarch64__)
  std::string platform = "aarch64";
#else
  std::string platform = "another processor";
#endif
#ifdef __GLIBC__
  platform += std::string(", glibc ") + gnu_get_libc_version();
#endif
  return platform;
}

}  // namespace banyan
