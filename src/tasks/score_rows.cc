#include "tasks/score_rows.h"

#include "base/byte_source.h"
#include "base/error.h"
#include "base/json_row.h"
#include "base/line_reader.h"
#include "base/spaces.h"

namespace banyan {
namespace {

constexpr size_t kMostRowBytes = 256u << 20;

}  // namespace

std::map<std::string, Json> RowsById(const std::string& file) {
  LineReader reader(OpenByteSource(file, nullptr), kMostRowBytes);
  std::map<std::string, Json> rows;
  std::string line;
  while (reader.Next(line)) {
    if (IsBlank(line) && !reader.too_long()) continue;
    const auto refuse = [&](const char* why) {
      Throw(ErrorKind::kInput, "{}, line {}: {}", file, reader.number(), why);
    };
    if (reader.too_long()) refuse("too long");
    Json row;
    try {
      row = ParseJsonRow(line);
    } catch (const Error&) {
      refuse("not valid JSON");
    }
    if (!row.is_object() || !row.contains("id")) refuse("expected an object with an 'id'");
    const std::string id = DumpJson(row.at("id"));
    rows[id] = std::move(row);
  }
  return rows;
}

}  // namespace banyan
