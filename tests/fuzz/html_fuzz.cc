// HTML from outside: any bytes give text that is valid UTF-8.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "banyan/error.h"
#include "base/error.h"
#include "documents/document_text.h"
#include "text/unicode.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace banyan;  // NOLINT(google-build-using-namespace)
  try {
    BANYAN_CHECK(IsValidUtf8(HtmlText({reinterpret_cast<const char*>(data), size})));
  } catch (const Error&) {
  }
  return 0;
}
