// Bodies of requests are hostile: each becomes a request or an error that its sender is told. The
// first byte says which endpoint reads it.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "banyan/error.h"
#include "banyan/model.h"
#include "serve/batches/multipart.h"
#include "serve/openai/completion_request.h"
#include "serve/openai/embeddings.h"
#include "serve/request/api_error.h"
#include "serve/request/context.h"
#include "serve/tasks/task_request.h"

namespace {

banyan::ServeContext& Context() {
  static banyan::ServeContext* context = [] {
    banyan::LoadOptions load;
    load.model = BANYAN_SOURCE_DIR "/models/banyan-reader-34m.gguf";
    load.threads = 1;
    banyan::EngineOptions engine;
    engine.kv_memory = 8 << 20;
    banyan::ServeOptions options;
    options.model_name = "m";
    options.max_answers = 64;
    return new banyan::ServeContext(banyan::Model::Load(load), engine, options);
  }();
  return *context;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace banyan;  // NOLINT(google-build-using-namespace)
  if (size == 0) return 0;
  const std::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    switch (data[0] % 7) {
      case 0:
        (void)ReadChatCompletion(Context(), body, 0);
        break;
      case 1:
        (void)ReadTextCompletion(Context(), body, 0);
        break;
      case 2:
        (void)ReadAskRequest(Context(), body);
        break;
      case 3:
        (void)ReadExtractRequest(Context(), body);
        break;
      case 4:
        (void)ReadRagRequest(Context(), body);
        break;
      case 5:
        (void)Embeddings(Context(), body);
        break;
      default: {
        const size_t line = std::min(body.find('\n'), body.size());
        (void)ReadForm(body.substr(0, line), body.substr(std::min(line + 1, body.size())));
      }
    }
  } catch (const ApiError& error) {
    (void)error.ToJson();
  } catch (const Error& error) {
    (void)AsApiError(error).ToJson();
  }
  return 0;
}
