// make_tiny_model FILE [CONTEXT_LENGTH [LAYERS [PADDING]]]: a random model with a small byte-level
// vocabulary, end token and ChatML template, for tests that run the program. PADDING is how many
// more tokens the model knows than the tokenizer. The file is the same everywhere.
#include <charconv>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "support/tiny_model.h"

namespace {

constexpr const char* kChatMl =
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n{% endif %}"
    "{% endif %}";

// How the byte-level vocabulary spells a byte.
std::string Spelling(int byte) {
  int next = 256;
  for (int b = 0; b <= byte; ++b) {
    const bool itself = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
    const int code = itself ? b : next++;
    if (b < byte) continue;
    if (code < 128) return std::string(1, static_cast<char>(code));
    return {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 63))};
  }
  return {};
}

// A number in [least, most]; nothing: it is none.
std::optional<int> ReadCount(const char* text, int least, int most) {
  int count = 0;
  const char* end = text + std::strlen(text);
  const auto [rest, error] = std::from_chars(text, end, count);
  const bool fits = error == std::errc() && rest == end && count >= least && count <= most;
  return fits ? std::optional(count) : std::nullopt;
}

int Usage(std::FILE* stream, const char* program) {
  std::fprintf(stream, "usage: %s FILE [CONTEXT_LENGTH [LAYERS [PADDING]]]\n", program);
  return stream == stdout ? 0 : 2;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace banyan::testing_support;  // NOLINT(google-build-using-namespace)
  if (argc == 2 && (std::strcmp(argv[1], "--help") == 0 || std::strcmp(argv[1], "-h") == 0)) {
    return Usage(stdout, argv[0]);
  }
  if (argc < 2 || argc > 5 || argv[1][0] == '-') return Usage(stderr, argv[0]);
  const std::optional<int> context = argc > 2 ? ReadCount(argv[2], 1, 1 << 30) : 1024;
  const std::optional<int> layers = argc > 3 ? ReadCount(argv[3], 1, 1000) : 2;
  const std::optional<int> padding = argc > 4 ? ReadCount(argv[4], 0, 1 << 20) : 0;
  if (!context || !layers || !padding) return Usage(stderr, argv[0]);
  TinyShape shape;
  shape.family = "qwen3";
  shape.hidden = 32;
  shape.head_dim = 8;
  shape.ffn = 48;
  shape.layers = *layers;
  shape.context = *context;

  // Bytes, then merges of common pairs (so that tokens cross word ends), then control tokens.
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.push_back(Spelling(byte));
  const std::string space = Spelling(' '), newline = Spelling('\n');
  const std::vector<std::pair<std::string, std::string>> pairs = {
      {"t", "h"},         {"th", "e"},    {space, "the"},   {"i", "n"},
      {"e", "r"},         {space, "a"},   {"o", "n"},       {"r", "e"},
      {newline, newline}, {space, space}, {"a", "t"},       {"e", "s"},
      {space, "w"},       {"in", "g"},    {"Q", "u"},       {"es", "t"},
      {"Qu", "est"},      {"i", "on"},    {"Quest", "ion"}, {space + space, space + space}};
  std::vector<std::string> merges;
  for (const auto& [left, right] : pairs) {
    merges.push_back(left + " " + right);
    tokens.push_back(left + right);
  }
  std::vector<std::int32_t> types(tokens.size(), 1);
  for (const char* control : {"<|endoftext|>", "<|im_start|>", "<|im_end|>"}) {
    tokens.emplace_back(control);
    types.push_back(3);
  }
  for (const char* markup : {"<think>", "</think>"}) {
    tokens.emplace_back(markup);
    types.push_back(4);
  }
  shape.vocab = static_cast<int>(tokens.size()) + *padding;

  GgufWriter writer = TinyGgufHeader(shape);
  writer.String("tokenizer.ggml.model", "gpt2");
  writer.String("tokenizer.ggml.pre", "qwen2");
  writer.Strings("tokenizer.ggml.tokens", tokens);
  writer.Array<std::int32_t>("tokenizer.ggml.token_type", 5, types);
  writer.Strings("tokenizer.ggml.merges", merges);
  const auto id_of = [&](const std::string& text) {
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (tokens[i] == text) return static_cast<std::uint32_t>(i);
    }
    return 0u;
  };
  writer.U32("tokenizer.ggml.eos_token_id", id_of("<|im_end|>"));
  writer.String("tokenizer.chat_template", kChatMl);
  AddTinyTensors(shape, writer);
  writer.Write(argv[1]);
  return 0;
}
