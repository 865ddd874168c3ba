// The embedded web page and openapi.json, gzipped where it pays.
#include "serve/page.h"

#ifdef BANYAN_WITH_ZLIB
#include <zlib.h>
#endif

#include <utility>

#include "base/hash.h"
#include "serve/request/parameters.h"

namespace banyan {
namespace {

constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; font-src 'self'; form-action 'none'; base-uri 'none'; "
    "frame-ancestors 'none'";

std::string ContentTypeOf(std::string_view name) {
  constexpr std::pair<std::string_view, const char*> kTypes[] = {
      {".html", "text/html; charset=utf-8"},
      {".css", "text/css; charset=utf-8"},
      {".js", "text/javascript; charset=utf-8"},
      {".mjs", "text/javascript; charset=utf-8"},
      {".json", "application/json"},
      {".webmanifest", "application/manifest+json"},
      {".svg", "image/svg+xml"},
      {".png", "image/png"},
      {".ico", "image/x-icon"},
      {".woff2", "font/woff2"},
  };
  for (const auto& [ending, type] : kTypes) {
    if (name.ends_with(ending)) return type;
  }
  return "text/plain; charset=utf-8";
}

// Empty: without zlib, or when it saves less than a tenth.
std::string Packed(std::string_view bytes) {
#ifdef BANYAN_WITH_ZLIB
  constexpr int kGzip = 15 + 16;
  z_stream stream{};
  if (deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, kGzip, 9, Z_DEFAULT_STRATEGY) != Z_OK) {
    return {};
  }
  std::string packed(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  const int end = deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  if (end == Z_STREAM_END && packed.size() < bytes.size() / 10 * 9) return packed;
#else
  static_cast<void>(bytes);
#endif
  return {};
}

}  // namespace

Page::Page() {
  for (EmbeddedFile embedded : kWebFiles) {
    if (embedded.name == "openapi.json") {
      openapi_ = FilledOpenApi(embedded.bytes);
      embedded.bytes = openapi_;
    }
    File file;
    file.bytes = embedded.bytes;
    file.packed = Packed(embedded.bytes);
    file.content_type = ContentTypeOf(embedded.name);
    file.etag = "\"" + ToHex(Sha256().Add(embedded.bytes).Finish()).substr(0, 32) + "\"";
    if (embedded.name == "page.html") files_.emplace("/", file);
    files_.emplace("/" + std::string(embedded.name), std::move(file));
  }
}

std::optional<HttpResponse> Page::Find(const HttpRequest& request) const {
  const auto found = files_.find(request.path);
  if (found == files_.end()) return std::nullopt;
  const File& file = found->second;
  HttpResponse response;
  response.content_type = file.content_type;
  response.headers = {{"ETag", file.etag},
                      {"Cache-Control", "no-cache"},
                      {"Vary", "Accept-Encoding"},
                      {"Content-Security-Policy", kPolicy},
                      {"Referrer-Policy", "no-referrer"},
                      {"Cross-Origin-Opener-Policy", "same-origin"}};
  if (request.header("if-none-match").find(file.etag) != std::string_view::npos) {
    response.status = 304;
    return response;
  }
  const bool packed = !file.packed.empty() &&
                      request.header("accept-encoding").find("gzip") != std::string_view::npos;
  if (packed) response.headers.emplace_back("Content-Encoding", "gzip");
  response.body = packed ? file.packed : std::string(file.bytes);
  return response;
}

}  // namespace banyan
