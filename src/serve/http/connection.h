// One client's connection: waits for a request, has a worker serve it, writes the reply, and starts
// again or closes. Members belong to the socket thread unless they say otherwise.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>

#include "serve/http/reply_buffer.h"
#include "serve/http/request_reader.h"
#include "serve/http/server_state.h"

namespace banyan {

// A timer that calls once, unless it is set anew or lifted before.
class Deadline {
 public:
  explicit Deadline(boost::asio::io_context& io) : timer_(io) {}
  // `expired` must keep this object alive.
  void Set(double seconds, std::function<void()> expired);
  void Lift();

 private:
  boost::asio::steady_timer timer_;
  std::uint64_t epoch_ = 0;  // an expiry of an earlier epoch, already queued, does not count
};

class HttpConnection : public RequestReader::Owner,
                       public std::enable_shared_from_this<HttpConnection> {
 public:
  HttpConnection(HttpServer::State& server, boost::asio::ip::tcp::socket socket);
  ~HttpConnection() override;  // closed, unless a handler threw

  void Start();
  // Closes the socket. A request that is being served goes on, but sees its client gone. Throws
  // nothing.
  void Close() override;
  // Closes it when its request is being served and the client has left. For the server, from time
  // to time.
  void LookForClient();

 private:
  using ErrorCode = boost::system::error_code;

  std::shared_ptr<RequestReader::Owner> Hold() override { return shared_from_this(); }
  bool closed() const override { return closed_; }
  void LimitReading(double seconds) override { Limit(reading_, seconds); }
  void OnRequest() override;
  void OnRefusal(HttpResponse response) override;

  void AwaitRequest(double seconds);
  void BeginRequest();
  // On a worker's thread.
  void Serve(HttpRequest request, RequestMemory& memory);
  void WatchClient();
  void FlushSoon();  // for any thread
  void Flush();
  void FinishRequest();
  void Linger();
  void Limit(Deadline& deadline, double seconds);
  void EnterWaiting();
  void LeaveWaiting();

  HttpServer::State& server_;
  boost::asio::ip::tcp::socket socket_;
  Deadline reading_, writing_;
  std::list<HttpConnection*>::iterator place_;
  std::optional<std::list<HttpConnection*>::iterator> waiting_place_;
  std::optional<IoWorkGuard> busy_;  // the server goes on until this request is over
  RequestReader reader_;
  ReplyBuffer reply_;
  std::string being_written_;
  bool write_pending_ = false;
  bool closed_ = false;
};

}  // namespace banyan
