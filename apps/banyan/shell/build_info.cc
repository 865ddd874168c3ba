// The text of --version. A source of its own: it alone is compiled again after a commit.
#include <fmt/format.h>
#include <generated/commit.h>

#include "banyan/version.h"
#include "program.h"
#include "program/models.h"

namespace banyan::app {
namespace {

#if defined(__clang__)
constexpr const char* kCompiler = "clang " __clang_version__;
#elif defined(__GNUC__)
constexpr const char* kCompiler = "g++ " __VERSION__;
#else
constexpr const char* kCompiler = "another compiler";
#endif

#if defined(__x86_64__)
constexpr const char* kProcessor = "x86_64";
#elif defined(__aarch64__)
constexpr const char* kProcessor = "aarch64";
#else
constexpr const char* kProcessor = "another processor";
#endif

}  // namespace

std::string VersionText() {
  return fmt::format("banyan {}\ncommit   {}\nbuild    {}, {}, {}\ndevices  {}", BANYAN_VERSION,
                     BANYAN_COMMIT, BANYAN_BUILD_TYPE, kCompiler, kProcessor, DescribeDevices());
}

}  // namespace banyan::app
