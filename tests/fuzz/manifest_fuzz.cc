// An Ollama manifest. A digest that is accepted is a plain name of a blob.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "banyan/error.h"
#include "hub/local_stores.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    const std::string digest = banyan::DigestOfManifest(text, "fuzz");
    if (digest.size() != 64 || digest.find_first_not_of("0123456789abcdef") != digest.npos) {
      std::abort();
    }
  } catch (const banyan::Error&) {
  }
  return 0;
}
