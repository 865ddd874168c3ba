// One HTTP exchange after another: TLS by the system's certificates, redirects followed by our own
// rules, tries repeated within limits. One object per thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace banyan {

struct TransferRange {
  std::int64_t begin = 0, end = 0;  // bytes [begin, end)
};

struct TransferReply {
  int status = 0;
  std::string url;                                 // of the last answer, after redirects
  std::string etag;                                // without quotes
  std::string linked_etag;                         // X-Linked-Etag of the hub: of the file itself
  std::string error_code;                          // X-Error-Code of the hub
  std::optional<std::int64_t> length;              // Content-Length
  std::optional<std::int64_t> range_begin, total;  // of Content-Range
  std::optional<int> retry_after;                  // seconds
};

struct TransferRequest {
  std::string url;
  std::optional<TransferRange> range;
  // Called with the head of the last answer when its status is 200 or 206, before any byte; may
  // throw, which ends the exchange. May be empty.
  std::function<void(const TransferReply&)> head;
  // Takes bytes of such an answer; may throw.
  std::function<void(std::string_view)> body;
  // Of a request without a range: what `body` took comes once more, from the beginning. Empty: an
  // answer that ends early is an error.
  std::function<void()> again;
};

// How exchanges are made; the same for all of a program's.
struct TransferSettings {
  std::string token;                             // sent to `origin` alone; empty: none
  std::string origin;                            // "https://huggingface.co"
  const std::atomic<bool>* cancelled = nullptr;  // true ends every exchange with kIo
  // Hears why a try is repeated. May be empty; called from any thread.
  std::function<void(const std::string&)> notice;
};

// "https://host:port" of an address; empty when it has none.
std::string OriginOf(std::string_view url);

class HttpClient {
 public:
  explicit HttpClient(TransferSettings settings);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // The answer, whatever its status. Follows at most 8 redirects. Tries again what may pass: a
  // connection that cannot be made or ends early, 408, 429, 500, 502, 503, 504, at most `tries`
  // times without a new byte in between; a range then goes on where it ended. Throws kIo with the
  // address and the reason, kUnsupported where there is no libcurl.
  TransferReply Send(const TransferRequest& request, int tries = 5);

 private:
  struct Handle;
  struct Exchange;
  TransferReply Follow(Exchange& exchange);
  TransferReply SendOnce(Exchange& exchange, const std::string& url);
  void Pause(double seconds) const;
  bool IsCancelled() const;

  TransferSettings settings_;
  std::unique_ptr<Handle> handle_;
};

}  // namespace banyan
