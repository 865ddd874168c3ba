#include "load/kv_identity.h"

#include "base/json.h"
#include "model/arithmetic_version.h"

namespace banyan {

std::string KvIdentityOf(const std::string& identity, const Kernels& kernels,
                         const std::string& adapter) {
  Json json = ParseJson(identity, "the model's identity");
  for (const char* text_side : {"tokenizer", "chat template", "end tokens"}) json.erase(text_side);
  json.erase("adapters");
  if (!adapter.empty()) json["adapter kept apart"] = adapter;
  json["arithmetic version"] = kArithmeticVersion;
  json["arithmetic"] = kernels.arithmetic();
  json["platform"] = ArithmeticPlatform();
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace banyan
