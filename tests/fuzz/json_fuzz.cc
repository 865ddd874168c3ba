// JSON of requests: within its limits, as the library reads it, and one value of it found without
// building the others.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "banyan/error.h"
#include "base/error.h"
#include "base/json_text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace banyan;  // NOLINT(google-build-using-namespace)
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  constexpr const char* kWay[] = {"a", "b"};
  (void)JsonValueText(text, kWay);  // it ends, whatever the text is
  const std::optional<size_t> error = FirstJsonError(text);
  BANYAN_CHECK(error.value_or(0) <= text.size());
  // A byte order mark is the library's own, and a zero byte for the end.
  const bool accepted = text.find('\0') == text.npos && Json::accept(text);
  if (accepted && size < 4096) BANYAN_CHECK(!error || text.starts_with("\xEF\xBB\xBF"));
  try {
    const Json json = ParseJsonRow(text, {size_t{1} << 20, 64});
    BANYAN_CHECK(accepted);
    if (!json.is_object() || !json.contains("a") || !json["a"].is_object()) return 0;
    const std::string_view found = JsonValueText(text, kWay);
    const bool there = json["a"].contains("b");
    BANYAN_CHECK(there != found.empty());
    if (there) BANYAN_CHECK(ParseJsonRow(found) == json["a"]["b"]);
  } catch (const Error& thrown) {
    // Whatever the check lets through, the library reads, or says that a number is too large. Zero
    // bytes are refused before, also behind what nests too deep for the check to look on.
    const std::string_view what = thrown.what();
    if (!error && thrown.kind() == ErrorKind::kFormat) {
      const bool zero = what.find("zero at byte") != what.npos && text.find('\0') != text.npos;
      BANYAN_CHECK(zero || what.find("nests deeper") != what.npos ||
                   what.find("overflow") != what.npos);
    }
  }
  return 0;
}
