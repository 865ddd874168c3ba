// Rows of a job's input are hostile: each becomes a record or a problem, and no file stops the
// reading for good.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "banyan/error.h"
#include "base/byte_source.h"
#include "base/error.h"
#include "base/json.h"
#include "tasks/ask/ask_record.h"
#include "tasks/input/input_files.h"
#include "tasks/input/input_rows.h"
#include "text/unicode.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace banyan;  // NOLINT(google-build-using-namespace)
  try {
    LineReader reader(ByteSourceOf({reinterpret_cast<const char*>(data), size}, "fuzz"), 1 << 16);
    std::string line;
    while (reader.Next(line)) {
      try {
        if (!IsValidUtf8(line)) continue;
        const Json row = ParseJson(line, "fuzz");
        if (row.is_object()) (void)ReadAskRecord(row, {});
      } catch (const Error&) {
      }
      try {
        (void)ReadQuestions(line, "fuzz");
      } catch (const Error&) {
      }
    }
  } catch (const Error&) {  // packed bytes that are damaged
  }
  // The same bytes as one JSON file, in our encoding and in another.
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  for (const char* encoding : {"UTF-8", "UTF-16"}) {
    try {
      const auto rows = MakeJsonRows(DecodedSource(ByteSourceOf(bytes, "fuzz"), encoding));
      InputRow row;
      while (rows->Next(row)) {
        BANYAN_CHECK(row.problem || row.value.is_object());
        row = InputRow();
      }
      (void)InputKindOfBytes(bytes, {{"context"}, {"question", "questions"}});
    } catch (const Error&) {
    }
  }
  return 0;
}
