// HTTP/1.1 over TCP: delivers whole requests, takes replies whole or in pieces. Boost.Beast parses;
// only server_state.h and what includes it sees Boost.
// Threads: one reads and writes sockets and never blocks. Each request is served on a thread of its
// own, which may block: on the engine, or on a client that reads slowly.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "program/memory_tally.h"

namespace banyan {

using HttpFields = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method;
  std::string path;    // without the query, percent signs resolved
  std::string query;   // after the '?', as it came
  HttpFields headers;  // names in lower case
  std::string body;
  size_t body_bytes = 0;                          // of the body, also where it is with a worker
  std::string peer;                               // the client's address
  std::chrono::steady_clock::time_point began{};  // its first byte came
  std::uint64_t number = 0;                       // random
  std::string tenant;        // who asks: a name from the key file, never the key
  std::uint64_t scope = 0;   // what the tenant shares caches within
  std::string allow_origin;  // for Access-Control-Allow-Origin; empty: no such header
  bool open = false;         // needs no key, and takes no memory that those with a key could have
  size_t most_body = SIZE_MAX;  // bytes of a body, for what is asked for

  std::string_view header(std::string_view name) const;  // empty: there is none
  std::string query_value(std::string_view name) const;  // percent signs resolved
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  HttpFields headers;
};

// Where the answer to one request goes; for the thread that serves it.
class HttpReply {
 public:
  virtual ~HttpReply() = default;
  // The whole response. Once, instead of the next three.
  virtual void Send(HttpResponse response) = 0;
  virtual void Begin(const HttpResponse& head) = 0;  // its body is the first piece
  // Blocks while the client has not read what came before. False: the client is gone.
  virtual bool Write(std::string_view piece) = 0;
  virtual void End() = 0;
  // The client went away, or was too slow.
  virtual bool gone() const = 0;
  // Called once when that happens, from another thread, or now if it has happened. Must not wait.
  virtual void WhenGone(std::function<void()> call) = 0;
  // The memory of the request beside its body: parsed values, texts, automata, the reply until its
  // client has read it. It counts against HttpLimits::max_bodies_bytes until the reply is over.
  // Lives as long as this object.
  virtual MemoryAccount& memory() = 0;
  // Why the account has refused memory; kFits: it never did. What is caught on the way from there
  // to the reply may have become another error.
  virtual MemoryAccount::Room refused() const = 0;
};

struct HttpLimits {
  int max_connections = 1024;  // more: the one that has waited longest for its request is closed
  int max_requests = 128;      // served at once; more are refused with 429
  size_t max_header_bytes = 16u << 10;  // of the head, of a chunk's head, of the trailers
  size_t max_body_bytes = 32u << 20;
  size_t max_bodies_bytes = 256u << 20;  // of all requests, bytes that came and what they became
  // A request that has no more is never refused for what others have. One without a key may have no
  // more than that.
  size_t small_request_bytes = 256u << 10;
  size_t max_unread_bytes = 256u << 10;  // of one reply, before its thread waits
  double header_seconds = 10.0;          // from the first byte to the last of a request's head
  double body_seconds = 60.0;
  double idle_seconds = 75.0;   // between requests of a connection
  double write_seconds = 30.0;  // without a byte taken by the client
};

struct HttpCounts {
  std::atomic<std::int64_t> accepted{0}, refused_busy{0}, timed_out{0}, evicted{0};
  std::atomic<std::int64_t> connections{0}, requests{0};  // now
  std::atomic<std::int64_t> bodies_bytes{0};              // now; see HttpLimits::max_bodies_bytes
};

// What handles the requests of a server.
class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  // Looks at a request whose body is not read yet: fills in who asks and how large a body may be; a
  // response refuses it.
  // `body_bytes`: what the head announces. Called on the socket thread: must not wait.
  virtual std::optional<HttpResponse> Admit(HttpRequest& request, std::uint64_t body_bytes) = 0;
  // On a thread of its own. Must end with Send or End; what it throws becomes a 500, or after Begin
  // a reply that ends without its last chunk.
  virtual void Serve(HttpRequest request, HttpReply& reply) = 0;
  // A response that the server makes itself, e.g. 400, 408, 413, 429.
  virtual HttpResponse Refusal(int status, const std::string& message) = 0;
  // One line for the log of each request: after its reply, or instead of it.
  virtual void Served(const HttpRequest& request, int status, std::uint64_t bytes, double seconds,
                      bool gone) = 0;
};

class HttpServer {
 public:
  // Binds and listens. Throws kIo when the address cannot be bound, kUsage when it is not one.
  HttpServer(const std::string& address, int port, const HttpLimits& limits, HttpHandler& handler);
  ~HttpServer();
  // Throws as the constructor would now.
  static void CheckAddress(const std::string& address, int port);

  int port() const;  // the one that was given, or that the system chose for 0
  const HttpCounts& counts() const;
  // Counts memory of work that no connection asks for (batches) with that of requests; false: there
  // is no room in HttpLimits::max_bodies_bytes. Who took it gives it back.
  bool TakeRoom(size_t bytes);
  void GiveBackRoom(size_t bytes);
  // Serves until Stop. REQUIRES: called once.
  void Run();
  // No new connections and requests; returns at once. Run ends when the last reply has.
  void Drain();
  // Run ends now: every connection is closed, and those who serve see their clients gone.
  void Stop();

  struct State;

 private:
  std::unique_ptr<State> state_;
};

// A server-sent event, and the head of a reply that consists of them.
std::string EventText(const std::string& data);
HttpResponse EventStreamHead();

// "a%20b" → "a b". Nothing when a percent sign stands before no two digits.
std::optional<std::string> ResolvePercents(std::string_view text, bool plus_is_space);

}  // namespace banyan
