// Who may ask: API keys, and for browsers which pages.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/hash.h"
#include "program/serve.h"
#include "serve/http/http.h"
#include "serve/request/api_error.h"

namespace banyan {

// Whether an address or a name of a host is this machine's own: "localhost", 127.0.0.0/8 or ::1 in
// full, with or without brackets. Names that only begin like one are not.
bool IsLoopback(std::string_view host);

class Access {
 public:
  // Throws kNotFound or kUsage for the file of keys, kUsage for options that do not fit together.
  explicit Access(const ServeOptions& options);

  bool has_keys() const { return !keys_.empty(); }
  // Whether the tenant may see what tells of all tenants.
  bool MaySeeAll(const std::string& tenant) const { return !isolate_ || tenant == admin_; }
  // Fills in the tenant, its scope and the allowed origin; nothing when the request may go on.
  // `open`: what is asked for needs no key.
  std::optional<ApiError> Check(HttpRequest& request, bool open) const;

 private:
  struct Key {
    std::string tenant;  // the line's name, or of a line without one what only this key gives
    Digest digest{};     // of the key: all are compared, each in the same time
    std::uint64_t scope = 0;
  };
  bool HostIsOurs(std::string_view host) const;
  Key ReadKey(std::string_view line, bool isolate) const;
  std::optional<ApiError> CheckKey(HttpRequest& request) const;

  const bool isolate_;
  const std::string admin_;
  std::vector<Key> keys_;
  std::vector<std::string> allow_origins_, allow_hosts_;
  bool loopback_ = false;
};

}  // namespace banyan
