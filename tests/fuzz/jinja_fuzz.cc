// Template sources are hostile: parsing and rendering either work or throw banyan::Error, within
// limits that keep one run short.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "banyan/error.h"
#include "base/json.h"
#include "text/jinja/parser.h"
#include "text/jinja/render.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace banyan;  // NOLINT(google-build-using-namespace)
  static const auto messages = nlohmann::ordered_json::parse(R"([
      {"role": "system", "content": " be brief \n"},
      {"role": "user", "content": "h\u00e9 <|im_end|> {{ x }}", "n": [1, 2.5, null, true]},
      {"role": "assistant", "content": "<think>a</think>b", "tool_calls":
          [{"function": {"name": "f", "arguments": {"a": 1, "b": ["x"]}}}]}])");
  jinja::Limits limits;
  limits.source_bytes = 1 << 16;
  limits.steps = 50'000;
  limits.output_bytes = 1 << 18;
  try {
    const jinja::Block block =
        jinja::ParseTemplate({reinterpret_cast<const char*>(data), size}, limits);
    jinja::Runtime runtime(limits);
    runtime.date.tm_year = 125;
    jinja::Variables variables;
    variables.emplace("messages", jinja::FromJson(runtime, messages, true));
    variables.emplace("add_generation_prompt", jinja::Value(true));
    const jinja::Text text = jinja::Render(runtime, block, std::move(variables));
    BANYAN_CHECK(text.empty() || text.runs().back().end == text.size());
  } catch (const Error&) {
  }
  return 0;
}
