#include "serve/access.h"

#include <algorithm>
#include <cctype>
#include <fstream>

#include "base/error.h"
#include "base/spaces.h"

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

// "example.org:8080" → "example.org", "[::1]:80" → "[::1]"
std::string NameOf(std::string_view host) {
  const size_t colon = host.rfind(':');
  const bool port = colon != std::string_view::npos && host.find(']', colon) == host.npos &&
                    (host.front() == '[' || host.find(':') == colon);
  std::string name(port ? host.substr(0, colon) : host);
  std::ranges::transform(name, name.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return name;
}

}  // namespace

Access::Access(const ServeOptions& options)
    : allow_origins_(options.allow_origins), allow_hosts_(options.allow_hosts) {
  loopback_ = options.address.starts_with("127.") || options.address == "::1" ||
              options.address == "localhost";
  if (options.isolate && options.keys_file.empty()) {
    Throw(ErrorKind::kUsage, "--isolate: tenants are told apart by their keys; add --keys FILE");
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
    line = std::string(Trimmed(line));
    if (line.empty() || line.starts_with('#')) continue;
    Key key;
    const size_t colon = line.find(':');
    key.name = colon == std::string::npos
                   ? fmt::format("key-{}", keys_.size() + 1)
                   : std::string(Trimmed(std::string_view(line).substr(0, colon)));
    const std::string secret = colon == std::string::npos
                                   ? line
                                   : std::string(Trimmed(std::string_view(line).substr(colon + 1)));
    // The message has no part of the key.
    if (secret.size() < kLeastKeyBytes || secret.find_first_of(" \t") != std::string::npos) {
      Throw(ErrorKind::kUsage, "--keys: {}, line {}: expected a key of {} characters or more",
            options.keys_file, number, kLeastKeyBytes);
    }
    key.digest = DigestOf(secret);
    if (options.isolate) {
      key.scope =
          Prefix64(Sha256().Add("scope").Add(std::as_bytes(std::span(key.digest))).Finish());
      if (key.scope == 0) key.scope = 1;
    }
    keys_.push_back(std::move(key));
  }
  if (keys_.empty()) Throw(ErrorKind::kUsage, "--keys: {}: no key in it", options.keys_file);
}

// A page elsewhere may make a browser that runs on this machine ask us under a name of its own: on
// loopback only names of this machine are ours.
bool Access::HostIsOurs(std::string_view host) const {
  if (!loopback_ && allow_hosts_.empty()) return true;
  if (host.empty()) return true;  // HTTP/1.0; no browser does that
  const std::string name = NameOf(host);
  return name == "localhost" || name == "[::1]" || name.starts_with("127.") ||
         std::ranges::find(allow_hosts_, name) != allow_hosts_.end() ||
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
  request.tenant = found->name;
  request.scope = found->scope;
  return std::nullopt;
}

std::optional<ApiError> Access::Check(HttpRequest& request, bool open) const {
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
