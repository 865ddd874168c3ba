// API keys, host names and origins.
#include "serve/access.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cctype>
#include <fstream>

#include "base/characters.h"
#include "base/error.h"

namespace banyan {
namespace {

constexpr size_t kLeastKeyBytes = 16;

Digest DigestOf(std::string_view key) { return Sha256().Add(key).Finish(); }

// In a time that does not depend on where they differ.
bool Equal(const Digest& a, const Digest& b) {
  unsigned difference = 0;
  for (size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned>(a[i] ^ b[i]);
  return difference == 0;
}

// "example.org:8080" → "example.org", "[::1]:80" → "[::1]". What is no port stays.
std::string NameOf(std::string_view host) {
  const size_t colon = host.rfind(':');
  const bool port =
      colon != std::string_view::npos &&
      (host.front() == '[' ? host[colon - 1] == ']' : host.find(':') == colon) &&
      std::ranges::all_of(host.substr(colon + 1), [](char c) { return c >= '0' && c <= '9'; });
  std::string name(port ? host.substr(0, colon) : host);
  std::ranges::transform(name, name.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return name;
}

}  // namespace

bool IsLoopback(std::string_view host) {
  if (host == "localhost") return true;
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  const std::string text(host);
  in_addr four{};
  if (::inet_pton(AF_INET, text.c_str(), &four) == 1) return (ntohl(four.s_addr) >> 24) == 127;
  in6_addr six{};
  return ::inet_pton(AF_INET6, text.c_str(), &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}

// "NAME:KEY" or "KEY".
Access::Key Access::ReadKey(std::string_view line, bool isolate) const {
  Key key;
  const size_t colon = line.find(':');
  const std::string_view secret =
      Trimmed(colon == std::string_view::npos ? line : line.substr(colon + 1));
  if (secret.size() < kLeastKeyBytes || secret.find_first_of(" \t") != std::string_view::npos) {
    return key;
  }
  key.digest = DigestOf(secret);
  // A name has no colon. Keys without names are never numbered: a line that goes would give the
  // files of one key to the next.
  const std::string_view name = Trimmed(line.substr(0, std::min(colon, line.size())));
  key.tenant = colon == std::string_view::npos || name.empty()
                   ? "key:" + ToHex(Sha256().Add("tenant").Add(secret).Finish()).substr(0, 32)
                   : std::string(name);
  if (isolate) {
    key.scope = std::max<std::uint64_t>(
        1, Prefix64(Sha256().Add("scope").Add(std::string_view(key.tenant)).Finish()));
  }
  return key;
}

Access::Access(const ServeOptions& options)
    : isolate_(options.isolate),
      admin_(options.admin),
      allow_origins_(options.allow_origins),
      allow_hosts_(options.allow_hosts) {
  loopback_ = IsLoopback(options.address);
  if (options.isolate && options.keys_file.empty()) {
    Throw(ErrorKind::kUsage, "--isolate: tenants are told apart by their keys; add --keys FILE");
  }
  if (!admin_.empty() && !isolate_) {
    Throw(ErrorKind::kUsage,
          "--admin: every key reads /metrics unless tenants are apart; add "
          "--isolate");
  }
  for (const std::string& origin : allow_origins_) {
    if (origin != "*" && origin.find("://") == std::string::npos) {
      Throw(ErrorKind::kUsage, "--allow-origin: expected https://NAME or *, found '{}'", origin);
    }
  }
  if (options.keys_file.empty()) return;
  std::ifstream file(options.keys_file);
  if (!file) Throw(ErrorKind::kNotFound, "--keys: {}: cannot read the file", options.keys_file);
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    const std::string_view text = Trimmed(line);
    if (text.empty() || text.starts_with('#')) continue;
    Key key = ReadKey(text, options.isolate);
    // The message has no part of the key.
    if (key.tenant.empty()) {
      Throw(ErrorKind::kUsage, "--keys: {}, line {}: expected a key of {} characters or more",
            options.keys_file, number, kLeastKeyBytes);
    }
    keys_.push_back(std::move(key));
  }
  if (keys_.empty()) Throw(ErrorKind::kUsage, "--keys: {}: no key in it", options.keys_file);
  if (!admin_.empty() && std::ranges::find(keys_, admin_, &Key::tenant) == keys_.end()) {
    Throw(ErrorKind::kUsage, "--admin: {}: no key of this name in {}", admin_, options.keys_file);
  }
}

// A page elsewhere may make a browser that runs on this machine ask us under a name of its own: on
// loopback only names of this machine are ours.
bool Access::HostIsOurs(std::string_view host) const {
  if (!loopback_ && allow_hosts_.empty()) return true;
  const std::string name = NameOf(host);
  return IsLoopback(name) || std::ranges::find(allow_hosts_, name) != allow_hosts_.end() ||
         std::ranges::find(allow_hosts_, host) != allow_hosts_.end();
}

std::optional<ApiError> Access::CheckKey(HttpRequest& request) const {
  constexpr std::string_view kBearer = "bearer ";
  const std::string_view header = request.header("authorization");
  const bool bearer =
      header.size() > kBearer.size() &&
      std::equal(kBearer.begin(), kBearer.end(), header.begin(),
                 [](char a, char b) { return a == std::tolower(static_cast<unsigned char>(b)); });
  if (!bearer) {
    return ApiError(401, "an API key is needed: Authorization: Bearer KEY", "", "missing_api_key");
  }
  const Digest given = DigestOf(Trimmed(header.substr(kBearer.size())));
  const Key* found = nullptr;
  for (const Key& key : keys_) {
    if (Equal(key.digest, given)) found = &key;
  }
  if (found == nullptr) return ApiError(401, "the API key is not known", "", "invalid_api_key");
  request.tenant = found->tenant;
  request.scope = found->scope;
  return std::nullopt;
}

std::optional<ApiError> Access::Check(HttpRequest& request, bool open) const {
  if (std::ranges::count(request.headers, std::string_view("host"),
                         &HttpFields::value_type::first) != 1 ||
      request.header("host").empty()) {
    return ApiError(400, "expected one Host header", "", "host");
  }
  const std::string_view host = request.header("host");
  if (!HostIsOurs(host)) {
    return ApiError(403, "this server does not answer to that name (--allow-host)", "", "host");
  }
  if (const std::string_view origin = request.header("origin"); !origin.empty()) {
    const size_t scheme = origin.find("://");
    const bool same = scheme != std::string_view::npos && origin.substr(scheme + 3) == host;
    const bool allowed =
        std::ranges::find(allow_origins_, origin) != allow_origins_.end() ||
        std::ranges::find(allow_origins_, std::string("*")) != allow_origins_.end();
    if (allowed) request.allow_origin = std::string(origin);
    if (!same && !allowed) {
      return ApiError(403, "pages of other origins may not ask this server (--allow-origin)", "",
                      "origin");
    }
  }
  if (open || request.method == "OPTIONS" || keys_.empty()) return std::nullopt;
  return CheckKey(request);
}

}  // namespace banyan
