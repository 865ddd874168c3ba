// Parsing multipart/form-data.
#include "serve/batches/multipart.h"

#include <algorithm>
#include <cctype>

#include "base/characters.h"
#include "serve/request/api_error.h"

namespace banyan {
namespace {

constexpr size_t kMostParts = 32;
constexpr size_t kMostHeadBytes = 8u << 10;

bool EqualNoCase(std::string_view a, std::string_view b) {
  return std::ranges::equal(
      a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

// `form-data; name="file"; filename="a;b.jsonl"` and "filename" → "a;b.jsonl"
std::string ParameterOf(std::string_view value, std::string_view wanted) {
  size_t at = value.find(';');
  while (at < value.size()) {
    const size_t equals = value.find('=', ++at);
    if (equals == std::string_view::npos) return {};
    const std::string_view name = Trimmed(value.substr(at, equals - at));
    std::string text;
    at = equals + 1;
    if (at < value.size() && value[at] == '"') {
      for (++at; at < value.size() && value[at] != '"'; ++at) {
        if (value[at] == '\\' && at + 1 < value.size()) ++at;
        text += value[at];
      }
      at = value.find(';', at);
    } else {
      const size_t end = std::min(value.find(';', at), value.size());
      text = std::string(Trimmed(value.substr(at, end - at)));
      at = end;
    }
    if (EqualNoCase(name, wanted)) return text;
  }
  return {};
}

// `head` is without the empty line at its end.
FormPart ReadHead(std::string_view head) {
  FormPart part;
  while (!head.empty()) {
    const size_t end = std::min(head.find("\r\n"), head.size());
    const std::string_view line = head.substr(0, end);
    head.remove_prefix(std::min(end + 2, head.size()));
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    if (!EqualNoCase(Trimmed(line.substr(0, colon)), "content-disposition")) continue;
    part.name = ParameterOf(line.substr(colon + 1), "name");
    part.filename = ParameterOf(line.substr(colon + 1), "filename");
  }
  return part;
}

}  // namespace

std::vector<FormPart> ReadForm(std::string_view content_type, std::string_view body) {
  constexpr std::string_view kType = "multipart/form-data";
  if (!EqualNoCase(content_type.substr(0, kType.size()), kType)) {
    throw ApiError(415, "expected multipart/form-data");
  }
  const std::string boundary = ParameterOf(content_type, "boundary");
  if (boundary.empty() || boundary.size() > 200) {
    throw ApiError(400, "multipart/form-data: expected a boundary");
  }
  const std::string mark = "--" + boundary, next_mark = "\r\n" + mark;
  const auto refuse = [] { throw ApiError(400, "the form is cut short or damaged"); };
  std::vector<FormPart> parts;
  if (!body.starts_with(mark)) refuse();
  std::string_view rest = body.substr(mark.size());
  while (!rest.starts_with("--")) {
    if (!rest.starts_with("\r\n") || parts.size() == kMostParts) refuse();
    rest.remove_prefix(2);
    const size_t head_end = rest.substr(0, kMostHeadBytes).find("\r\n\r\n");
    if (head_end == std::string_view::npos) refuse();
    FormPart part = ReadHead(rest.substr(0, head_end));
    rest.remove_prefix(head_end + 4);
    const size_t end = rest.find(next_mark);
    if (end == std::string_view::npos) refuse();
    part.bytes = rest.substr(0, end);
    parts.push_back(std::move(part));
    rest.remove_prefix(end + next_mark.size());
  }
  return parts;
}

}  // namespace banyan
