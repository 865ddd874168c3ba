#include "tasks/score/score_rows.h"

#include "base/byte_source.h"
#include "base/characters.h"
#include "base/error.h"
#include "base/json.h"

namespace banyan {
namespace {

constexpr size_t kMostRowBytes = 256u << 20;

template <typename Key>
std::map<std::string, Json> RowsByKey(const std::string& file, const Key& key_of) {
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
    const std::string key = key_of(row);
    rows[key] = std::move(row);
  }
  return rows;
}

}  // namespace

std::map<std::string, Json> RowsById(const std::string& file) {
  return RowsByKey(file, [](const Json& row) { return DumpJson(row.at("id")); });
}

std::map<std::string, Json> RowsByAnswer(const std::string& file) {
  return RowsByKey(file, [](const Json& row) {
    return KeyOfAnswer(row.at("id"), row.value("question_id", Json()));
  });
}

std::string KeyOfAnswer(const Json& id, const Json& question_id) {
  return DumpJson(Json::array({id, question_id}));
}

}  // namespace banyan
