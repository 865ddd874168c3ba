// Documents of any bytes: labels are valid ranges of characters, values are not empty, keys and
// types can be made of them.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "propose/infer_type.h"
#include "propose/labels.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view document(reinterpret_cast<const char*>(data), size);
  const std::vector<banyan::FoundLabel> labels = banyan::FindLabels(document);
  BANYAN_CHECK(labels.size() <= banyan::kMostLabels);
  std::vector<std::string> values;
  for (const banyan::FoundLabel& label : labels) {
    BANYAN_CHECK(!label.name.empty() && !label.value.empty());
    BANYAN_CHECK(label.place.start >= 0 && label.place.start <= label.place.end &&
                 label.place.end <= static_cast<std::int64_t>(size));
    (void)banyan::LabelKey(label.name);
    values.push_back(label.value);
  }
  (void)banyan::TypeWords(banyan::InferType(values, banyan::Expected::kAnything));
  return 0;
}
