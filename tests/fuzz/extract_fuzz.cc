// Extraction schemas are hostile: one is read or refused with banyan::Error, soon; what is read has
// attributes with names, and their schemas are JSON.
#include <cstddef>
#include <cstdint>
#include <set>
#include <string_view>

#include "banyan/error.h"
#include "banyan/extract.h"
#include "base/error.h"
#include "base/json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace banyan;  // NOLINT(google-build-using-namespace)
  try {
    const ExtractSchema schema =
        ParseExtractSchema({reinterpret_cast<const char*>(data), size}, "schema");
    BANYAN_CHECK(!schema.categories.empty());
    for (const ExtractCategory& category : schema.categories) {
      BANYAN_CHECK(!category.attributes.empty());
      std::set<std::string> names;
      for (const ExtractAttribute& attribute : category.attributes) {
        BANYAN_CHECK(!attribute.name.empty() && names.insert(attribute.name).second);
        BANYAN_CHECK(!Json::parse(attribute.json_schema).is_discarded());
      }
      BANYAN_CHECK(Json::parse(ExtractSchema::ToJsonSchema(category)).is_object());
    }
  } catch (const Error&) {
  }
  return 0;
}
