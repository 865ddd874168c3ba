// Files that are part of the binary: the page, and the description of the API.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/files.h"
#include "serve/http/http.h"

namespace banyan {

// All of web/, and openapi.json.
extern const std::span<const EmbeddedFile> kWebFiles;

class Page {
 public:
  Page();
  // The file of a path; "/" is page.html. Nothing: there is none.
  std::optional<HttpResponse> Find(const HttpRequest& request) const;
  bool Has(std::string_view path) const { return files_.contains(path); }

 private:
  struct File {
    std::string_view bytes;
    std::string packed;  // empty: packing it does not pay
    std::string content_type, etag;
  };
  std::string openapi_;                             // with the options of requests
  std::map<std::string, File, std::less<>> files_;  // by path
};

}  // namespace banyan
