#include "load/kv_identity.h"

#include <features.h>
#ifdef __GLIBC__
#include <gnu/libc-version.h>
#endif

#include "base/json.h"
#include "load/arithmetic_hash.h"

namespace banyan {

std::string KvIdentityOf(const std::string& identity, const Kernels& kernels,
                         const std::string& adapter) {
  Json json = ParseJson(identity, "the model's identity");
  for (const char* text_side : {"tokenizer", "chat template", "end tokens"}) json.erase(text_side);
  json.erase("adapters");
  if (!adapter.empty()) json["adapter kept apart"] = adapter;
  // Weights are stored and multiplied as the code does it today; angles and exponentials are the C
  // library's.
  json["code"] = kArithmeticHash;
  json["arithmetic"] = kernels.arithmetic();
#ifdef __GLIBC__
  json["C library"] = gnu_get_libc_version();
#endif
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace banyan
