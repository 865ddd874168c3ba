// HTTP by libcurl.
#include "hub/http_client.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <thread>
#include <utility>

#include "banyan/version.h"
#include "base/error.h"
#include "hub/curl_library.h"

namespace banyan {

std::string OriginOf(std::string_view url) {
  const size_t scheme = url.find("://");
  if (scheme == std::string_view::npos) return "";
  return std::string(url.substr(0, std::min(url.find_first_of("/?#", scheme + 3), url.size())));
}

#ifdef BANYAN_WITH_CURL
namespace {

constexpr int kMostRedirects = 8;
constexpr long kConnectSeconds = 20, kStallSeconds = 60, kStallBytesPerSecond = 64;
constexpr double kMostPauseSeconds = 20.0;
constexpr int kMostRetryAfterSeconds = 120;
constexpr size_t kMostHeaderBytes = 65536;

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return lower;
}

std::string_view Trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1);
}

std::optional<std::int64_t> NumberOf(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0) return std::nullopt;
  return number;
}

// W/"abc" → abc
std::string EtagOf(std::string_view value) {
  if (value.starts_with("W/")) value.remove_prefix(2);
  if (value.size() >= 2 && value.front() == '"' && value.back() == '"') {
    value = value.substr(1, value.size() - 2);
  }
  return std::string(value);
}

void TakeHeader(std::string_view line, TransferReply& reply) {
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos) return;
  const std::string name = Lower(line.substr(0, colon));
  const std::string_view value = Trimmed(line.substr(colon + 1));
  if (name == "etag") reply.etag = EtagOf(value);
  if (name == "x-linked-etag") reply.linked_etag = EtagOf(value);
  if (name == "x-error-code") reply.error_code = value;
  if (name == "content-length") reply.length = NumberOf(value);
  if (name == "retry-after") {
    if (const auto seconds = NumberOf(value)) {
      reply.retry_after = static_cast<int>(std::min<std::int64_t>(*seconds, 1'000'000));
    }
  }
  if (name == "content-range" && value.starts_with("bytes ")) {
    const std::string_view range = value.substr(6);
    const size_t dash = range.find('-'), slash = range.find('/');
    if (dash != std::string_view::npos) reply.range_begin = NumberOf(range.substr(0, dash));
    if (slash != std::string_view::npos) reply.total = NumberOf(range.substr(slash + 1));
  }
}

bool MayPass(int status) {
  return status == 408 || status == 429 || status == 500 || status == 502 || status == 503 ||
         status == 504;
}

// Where certificates are kept on systems other than the one that libcurl was built for.
const char* CertificateFile() {
  for (const char* variable : {"CURL_CA_BUNDLE", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"}) {
    const char* file = std::getenv(variable);
    if (file != nullptr && *file != '\0') return file;
  }
  for (const char* file : {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
                           "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"}) {
    if (::access(file, R_OK) == 0) return file;
  }
  return nullptr;
}

}  // namespace

struct HttpClient::Handle {
  CURL* curl = Curl().easy_init();
  ~Handle() {
    if (curl != nullptr) Curl().cleanup(curl);
  }
};

// A request with what has come of it, over all tries.
struct HttpClient::Exchange {
  const TransferRequest& request;
  const HttpClient* client = nullptr;
  std::int64_t received = 0;  // bytes that the request's body took
  // Of the try that runs:
  TransferReply reply;
  std::string redirect;  // where the answer says to look; empty: nowhere
  size_t header_bytes = 0;
  bool begun = false;  // the head was passed on
  std::exception_ptr thrown;

  // Of all answers on the way: what the hub says of a file stands in its own, which redirects.
  std::string linked_etag;

  void PassHead() {
    begun = true;
    reply.linked_etag = linked_etag;
    if (request.head) request.head(reply);
  }
  bool Wanted() const { return reply.status == 200 || reply.status == 206; }
};

HttpClient::HttpClient(TransferSettings settings)
    : settings_(std::move(settings)), handle_(std::make_unique<Handle>()) {
  if (handle_->curl == nullptr) Throw(ErrorKind::kIo, "libcurl cannot begin a transfer");
}

HttpClient::~HttpClient() = default;

bool HttpClient::IsCancelled() const {
  return settings_.cancelled != nullptr && settings_.cancelled->load();
}

void HttpClient::Pause(double seconds) const {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (!IsCancelled() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

// Throws kIo for what no second try mends; else returns with `reason` set, or with an answer.
TransferReply HttpClient::SendOnce(Exchange& exchange, const std::string& url) {
  const CurlLibrary& curl = Curl();
  CURL* handle = handle_->curl;
  curl.reset(handle);
  exchange.reply = TransferReply();
  exchange.reply.url = url;
  exchange.redirect.clear();
  exchange.header_bytes = 0;
  exchange.begun = false;
  char message[CURL_ERROR_SIZE] = "";
  const auto on_header = +[](char* data, size_t size, size_t count, void* user) -> size_t {
    auto& of = *static_cast<Exchange*>(user);
    const std::string_view line(data, size * count);
    of.header_bytes += line.size();
    if (of.header_bytes > kMostHeaderBytes) return 0;
    if (line.starts_with("HTTP/")) {  // also after "100 Continue" or a proxy's answer
      const std::string at = std::exchange(of.reply, TransferReply()).url;
      of.reply.url = at;
      const size_t space = line.find(' ');
      const auto status =
          space == std::string_view::npos ? std::nullopt : NumberOf(line.substr(space + 1, 3));
      of.reply.status = static_cast<int>(status.value_or(0));
    } else {
      TakeHeader(line, of.reply);
      if (!of.reply.linked_etag.empty()) of.linked_etag = of.reply.linked_etag;
    }
    return line.size();
  };
  const auto on_body = +[](char* data, size_t size, size_t count, void* user) -> size_t {
    auto& of = *static_cast<Exchange*>(user);
    if (!of.Wanted()) return size * count;  // a page of words about the error
    try {
      if (!of.begun) of.PassHead();
      if (of.request.body) of.request.body({data, size * count});
      of.received += static_cast<std::int64_t>(size * count);
    } catch (...) {
      of.thrown = std::current_exception();
      return 0;
    }
    return size * count;
  };
  const auto on_progress = +[](void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) -> int {
    return static_cast<Exchange*>(user)->client->IsCancelled() ? 1 : 0;
  };
  curl_slist* headers = nullptr;
  const bool trusted = !settings_.token.empty() && OriginOf(url) == settings_.origin;
  if (trusted) {
    headers = curl.slist_append(headers, ("Authorization: Bearer " + settings_.token).c_str());
  }
  curl.setopt(handle, CURLOPT_URL, url.c_str());
  curl.setopt(handle, CURLOPT_HTTPHEADER, headers);
  curl.setopt(handle, CURLOPT_USERAGENT, "banyan/" BANYAN_VERSION);
  curl.setopt(handle, CURLOPT_NOSIGNAL, 1L);
  curl.setopt(handle, CURLOPT_FOLLOWLOCATION, 0L);
  curl.setopt(handle, CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
  curl.setopt(handle, CURLOPT_LOW_SPEED_LIMIT, kStallBytesPerSecond);
  curl.setopt(handle, CURLOPT_LOW_SPEED_TIME, kStallSeconds);
  curl.setopt(handle, CURLOPT_ERRORBUFFER, message);
  if (const char* file = CertificateFile()) curl.setopt(handle, CURLOPT_CAINFO, file);
  std::string range;
  if (exchange.request.range) {
    range = fmt::format("{}-{}", exchange.request.range->begin + exchange.received,
                        exchange.request.range->end - 1);
    curl.setopt(handle, CURLOPT_RANGE, range.c_str());
  }
  curl.setopt(handle, CURLOPT_HEADERFUNCTION, on_header);
  curl.setopt(handle, CURLOPT_HEADERDATA, &exchange);
  curl.setopt(handle, CURLOPT_WRITEFUNCTION, on_body);
  curl.setopt(handle, CURLOPT_WRITEDATA, &exchange);
  curl.setopt(handle, CURLOPT_NOPROGRESS, 0L);
  curl.setopt(handle, CURLOPT_XFERINFOFUNCTION, on_progress);
  curl.setopt(handle, CURLOPT_XFERINFODATA, &exchange);
  const CURLcode code = curl.perform(handle);
  char* redirect = nullptr;
  curl.getinfo(handle, CURLINFO_REDIRECT_URL, &redirect);
  const std::string location = redirect == nullptr ? "" : redirect;
  curl.slist_free_all(headers);
  if (exchange.thrown) std::rethrow_exception(std::exchange(exchange.thrown, nullptr));
  if (IsCancelled()) Throw(ErrorKind::kIo, "{}: the transfer was stopped", url);
  TransferReply reply = exchange.reply;
  if (code != CURLE_OK) {
    const std::string reason = *message != '\0' ? message : curl.strerror(code);
    if (code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE) {
      Throw(ErrorKind::kIo,
            "{}: the certificate is not this host's, or nobody that this system trusts has signed "
            "it ({}); nothing was sent",
            OriginOf(url), reason);
    }
    if (code == CURLE_UNSUPPORTED_PROTOCOL || code == CURLE_URL_MALFORMAT) {
      Throw(ErrorKind::kIo, "{}: no address of the web: {}", url, reason);
    }
    reply.status = 0;
    reply.error_code = reason;
    return reply;
  }
  if (exchange.Wanted() && !exchange.begun) exchange.PassHead();  // of an empty body
  if (reply.status >= 300 && reply.status < 400) exchange.redirect = location;
  return reply;
}

TransferReply HttpClient::Follow(Exchange& exchange) {
  std::string url = exchange.request.url;
  exchange.linked_etag.clear();
  for (int hop = 0; hop <= kMostRedirects; ++hop) {
    TransferReply reply = SendOnce(exchange, url);
    const std::string& next = exchange.redirect;
    if (next.empty()) return reply;
    const bool web = next.starts_with("https://") || next.starts_with("http://");
    if (!web || (url.starts_with("https://") && !next.starts_with("https://"))) {
      Throw(ErrorKind::kIo, "{}: redirects to {}, which is not safe", OriginOf(url),
            next.substr(0, next.find('?')));
    }
    url = next;
  }
  Throw(ErrorKind::kIo, "{}: more than {} redirects", exchange.request.url, kMostRedirects);
}

TransferReply HttpClient::Send(const TransferRequest& request, int tries) {
  Exchange exchange{.request = request,
                    .client = this,
                    .reply = {},
                    .redirect = {},
                    .thrown = nullptr,
                    .linked_etag = {}};
  double pause = 0.25;
  for (int failed = 0;;) {
    const std::int64_t before = exchange.received;
    TransferReply reply = Follow(exchange);
    if (reply.status != 0 && !MayPass(reply.status)) return reply;
    if (exchange.received > before && request.range) {
      failed = 0;
      pause = 0.25;
      if (exchange.received >= request.range->end - request.range->begin) return reply;
    } else if (exchange.received > before) {
      if (!request.again) Throw(ErrorKind::kIo, "{}: {}", request.url, reply.error_code);
      request.again();
      exchange.received = 0;
    }
    const std::string reason =
        reply.status == 0 ? reply.error_code : fmt::format("the server answers {}", reply.status);
    if (++failed >= tries) {
      if (reply.status != 0) return reply;
      Throw(ErrorKind::kIo, "{}: {}", OriginOf(reply.url), reason);
    }
    double wait = pause;
    pause = std::min(2.0 * pause, kMostPauseSeconds);
    if (reply.retry_after) {
      if (*reply.retry_after > kMostRetryAfterSeconds) return reply;
      wait = *reply.retry_after;
    }
    if (settings_.notice && wait >= 2.0) {
      settings_.notice(
          fmt::format("{}: {}; trying again in {:.0f} s", OriginOf(reply.url), reason, wait));
    }
    Pause(wait);
    if (IsCancelled()) Throw(ErrorKind::kIo, "{}: the transfer was stopped", request.url);
  }
}

#else

struct HttpClient::Handle {};

HttpClient::HttpClient(TransferSettings settings) : settings_(std::move(settings)) {
  Throw(ErrorKind::kUnsupported,
        "this program was built without downloads: libcurl4-openssl-dev was missing");
}

HttpClient::~HttpClient() = default;

TransferReply HttpClient::Send(const TransferRequest&, int) { return {}; }

#endif

}  // namespace banyan
