// /v1/embeddings: texts or token ids in, dense vectors out.
#include "serve/openai/embeddings.h"

#include <fmt/format.h>
#include <bit>
#include <cstring>
#include <vector>

#include "base/hash.h"
#include "base/json.h"
#include "base/work_budget.h"
#include "serve/request/api_error.h"
#include "serve/request/parameters.h"

namespace banyan {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr size_t kMostInputs = 2048;  // OpenAI's

std::vector<TokenId> TokensOf(const Encoder& encoder, const Json& input) {
  if (input.is_string()) {
    return encoder.text()->Encode(input.get_ref<const std::string&>(), /*add_special=*/true,
                                  /*parse_special=*/false);
  }
  std::vector<TokenId> tokens;
  for (const Json& token : input) {
    const bool good = token.is_number_integer() && token.get<std::int64_t>() >= 0 &&
                      token.get<std::int64_t>() < encoder.vocab_size();
    if (!good) throw ApiError(400, "'input': expected texts or token ids", "input");
    tokens.push_back(token.get<TokenId>());
  }
  return tokens;
}

std::string BytesOf(const std::vector<float>& values) {
  static_assert(std::endian::native == std::endian::little);
  std::string bytes(values.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

}  // namespace

std::string Embeddings(ServeContext& context, std::string_view body) {
  const Json json = ReadBody(body);
  Parameters parameters(json);
  const std::shared_ptr<Encoder>& encoder = context.options.encoder;
  const std::string model = parameters.Text("model", "");
  parameters.Needed("model");
  if (!encoder || model != context.options.encoder_name) {
    throw ApiError(404,
                   encoder
                       ? fmt::format("the encoder '{}' is not served here; this server has '{}'",
                                     model, context.options.encoder_name)
                       : "this server has no encoder (--encoder)",
                   "model", "model_not_found");
  }
  const std::string format = parameters.Text("encoding_format", "float");
  if (format != "float" && format != "base64") {
    parameters.Refuse("encoding_format", "float or base64");
  }
  parameters.OnlyAs("dimensions", encoder->dimensions());
  const Json& input = parameters.Needed("input");
  parameters.RefuseOthers();
  const bool several = input.is_array() && !input.empty() && !input.front().is_number();
  if (!(input.is_string() || (input.is_array() && !input.empty() && input.size() <= kMostInputs))) {
    parameters.Refuse("input", fmt::format("a text, or a list of 1 to {}", kMostInputs));
  }
  std::vector<std::vector<TokenId>> texts;
  std::int64_t tokens = 0;
  for (size_t i = 0; i < (several ? input.size() : 1); ++i) {
    const Json& one = several ? input[i] : input;
    if (!one.is_string() && !one.is_array()) {
      throw ApiError(400, "'input': expected texts or token ids", "input");
    }
    texts.push_back(TokensOf(*encoder, one));
    tokens += static_cast<std::int64_t>(texts.back().size());
  }
  // A number is four bytes, then a value of the reply, then some ten characters of it.
  constexpr size_t kBytesOfNumber = 48;
  ChargeBudget(texts.size() * static_cast<size_t>(encoder->dimensions()) * kBytesOfNumber);
  EmbedOptions options;
  options.sparse = options.colbert = false;
  const std::vector<Embedding> embeddings = encoder->Embed(texts, options);
  OrderedJson data = OrderedJson::array();
  for (size_t i = 0; i < embeddings.size(); ++i) {
    const std::vector<float>& dense = embeddings[i].dense;
    OrderedJson entry = {{"object", "embedding"}, {"index", i}};
    entry["embedding"] =
        format == "base64" ? OrderedJson(Base64(BytesOf(dense))) : OrderedJson(dense);
    data.push_back(std::move(entry));
  }
  return DumpJson(OrderedJson{{"object", "list"},
                              {"data", std::move(data)},
                              {"model", model},
                              {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}}});
}

}  // namespace banyan
