// The journal beside a job's output, which a power cut or a person may have changed: what cannot be
// trusted does not count, and nothing else happens.
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "banyan/error.h"
#include "base/error.h"
#include "tasks/output/journal.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace banyan;  // NOLINT(google-build-using-namespace)
  static const std::string path = (std::filesystem::temp_directory_path() /
                                   ("banyan-fuzz-journal-" + std::to_string(::getpid())))
                                      .string();
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  try {
    const JournalContents contents = ReadJournal(path);
    BANYAN_CHECK(contents.exists);
    if (contents.usable() && !contents.commits.empty()) {
      BANYAN_CHECK(contents.commits.back().records == contents.records.size());
    }
  } catch (const Error&) {
  }
  return 0;
}
