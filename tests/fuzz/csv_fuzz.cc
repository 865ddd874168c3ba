// CSV from outside: rows come out within the limits, and what is written of them reads back.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "banyan/error.h"
#include "base/byte_source.h"
#include "base/csv.h"
#include "base/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace banyan;  // NOLINT(google-build-using-namespace)
  try {
    const std::string_view bytes(reinterpret_cast<const char*>(data), size);
    const char delimiter = CsvDelimiterOf(bytes);
    CsvReader reader(ByteSourceOf(bytes, "fuzz"), 1 << 16, delimiter);
    std::vector<std::string> fields;
    while (reader.Next(fields)) {
      if (!reader.problem().empty() || fields.empty()) continue;
      const std::string written = CsvRow(fields, delimiter);
      if (written.starts_with("\xEF\xBB\xBF") || written.starts_with("\x1f\x8b") ||
          written.starts_with("\x28\xb5\x2f\xfd")) {
        continue;  // means something else at a file's start
      }
      CsvReader again(ByteSourceOf(written, "again"), 1 << 18, delimiter);
      std::vector<std::string> read;
      BANYAN_CHECK(again.Next(read) && read == fields);
    }
  } catch (const Error&) {
  }
  return 0;
}
