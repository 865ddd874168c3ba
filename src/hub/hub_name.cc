// The grammar of names on the hub.
#include "hub/hub_name.h"

#include <algorithm>

namespace banyan {
namespace {

constexpr size_t kMostPartBytes = 96, kMostRevisionBytes = 200, kMostPathBytes = 512;

bool IsWordCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_' || c == '.';
}

// An owner's or a repository's name, by the hub's own rules.
bool IsHubPart(std::string_view part) {
  return !part.empty() && part.size() <= kMostPartBytes &&
         std::ranges::all_of(part, IsWordCharacter) && part.front() != '.' && part.front() != '-' &&
         part.back() != '.' && part.back() != '-' && part.find("--") == std::string_view::npos &&
         part.find("..") == std::string_view::npos;
}

bool IsQuantisation(std::string_view text) {
  return !text.empty() && text.size() <= kMostPartBytes &&
         std::ranges::all_of(text, IsWordCharacter);
}

bool IsRevision(std::string_view text) {
  return text.size() <= kMostRevisionBytes && IsPlainPath(text) &&
         std::ranges::all_of(text, [](char c) { return IsWordCharacter(c) || c == '/'; });
}

}  // namespace

bool IsPlainPath(std::string_view path) {
  if (path.empty() || path.size() > kMostPathBytes) return false;
  for (const char c : path) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f || c == '\\') return false;
  }
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view part = path.substr(begin, end - begin);
    if (part.empty() || part == "." || part == "..") return false;
    begin = end + 1;
  }
  return true;
}

std::string HubName::Text() const {
  std::string text = repository;
  if (revision_given) text += "@" + revision;
  if (!file.empty()) text += "/" + file;
  if (!quantisation.empty()) text += ":" + quantisation;
  return text;
}

std::optional<HubName> ParseHubName(std::string_view name) {
  HubName parsed;
  if (name.starts_with("hf:")) {
    parsed.explicit_hub = true;
    name.remove_prefix(3);
  }
  const size_t slash = name.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const std::string_view owner = name.substr(0, slash);
  const size_t end = std::min(name.find_first_of("/@:", slash + 1), name.size());
  const std::string_view repository = name.substr(slash + 1, end - slash - 1);
  if (!IsHubPart(owner) || !IsHubPart(repository)) return std::nullopt;
  parsed.repository = std::string(owner) + "/" + std::string(repository);
  parsed.revision = "main";
  std::string_view rest = name.substr(end);
  if (rest.starts_with('@')) {
    rest.remove_prefix(1);
    // A revision may have slashes, unless a file follows it.
    const bool has_file = rest.ends_with(".gguf");
    const size_t over = std::min(rest.find_first_of(has_file ? "/:" : ":"), rest.size());
    if (!IsRevision(rest.substr(0, over))) return std::nullopt;
    parsed.revision = rest.substr(0, over);
    parsed.revision_given = true;
    rest.remove_prefix(over);
  }
  if (rest.starts_with(':')) {
    rest.remove_prefix(1);
    if (!IsQuantisation(rest)) return std::nullopt;
    parsed.quantisation = rest;
  } else if (rest.starts_with('/')) {
    rest.remove_prefix(1);
    if (!IsPlainPath(rest) || !rest.ends_with(".gguf")) return std::nullopt;
    parsed.file = rest;
  }
  // "models/reader.gguf" is a path of this machine.
  if (parsed.file.empty() && repository.ends_with(".gguf")) return std::nullopt;
  return parsed;
}

}  // namespace banyan
