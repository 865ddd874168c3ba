// One client's connection. Only the files of the server itself include this: Beast is heavy.
#pragma once

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "serve/http.h"
#include "serve/worker_pool.h"

namespace banyan {

class HttpConnection;

struct HttpServer::State {
  State(const HttpLimits& limits, HttpSite& site);

  void Accept();
  void Add(boost::asio::ip::tcp::socket socket);
  void CloseIdle();

  boost::asio::io_context io{1};
  std::optional<boost::asio::executor_work_guard<boost::asio::io_context::executor_type>> busy;
  boost::asio::ip::tcp::acceptor acceptor{io};
  boost::asio::steady_timer accept_again{io};
  const HttpLimits limits;
  HttpSite& site;
  HttpCounts counts;
  // The socket thread alone.
  std::list<HttpConnection*> all;
  std::list<HttpConnection*> waiting;  // for a request to be complete, longest first
  std::uint64_t next_request = 1;
  bool draining = false;
  bool over = false;  // the lists above are about to go

  WorkerPool workers;  // last: what it runs uses all of the above
};

// Members are of the socket thread, but for those that say otherwise.
class HttpConnection : public HttpReply, public std::enable_shared_from_this<HttpConnection> {
 public:
  HttpConnection(HttpServer::State& server, boost::asio::ip::tcp::socket socket);
  ~HttpConnection() override;  // closed, unless a handler threw

  void Start();
  // Nobody reads or writes any more; whoever serves sees the client gone.
  void Close();

  // --- for the thread that serves
  void Send(HttpResponse response) override;
  void Begin(const HttpResponse& head) override;
  bool Write(std::string_view piece) override;
  void End() override;
  bool gone() const override;
  void WhenGone(std::function<void()> call) override;
  bool TakeRoom(size_t bytes) override;
  // The reply ends here, and the client can see that something is missing.
  void Cut();

 private:
  using ErrorCode = boost::system::error_code;
  using Clock = std::chrono::steady_clock;

  void AwaitRequest(double seconds);
  void ReadHead();
  void OnHead(ErrorCode error);
  void SendContinue();
  void ReadBody();
  void OnBody(ErrorCode error);
  bool TakeBodyRoom();
  void RefuseForRoom();
  void GiveBackRoom();
  void BeginRequest();
  void Dispatch();
  void Serve(HttpRequest request);
  void WatchClient();
  void WatchByClock();
  bool ClientHasLeft();
  void EndReply(bool cut);
  void Refuse(int status, const std::string& message);
  void RefuseWith(HttpResponse response);
  void OnReadError(ErrorCode error);

  std::string HeadText(const HttpResponse& response, std::optional<size_t> length);
  void Append(std::string_view bytes);  // REQUIRES: mutex_
  void FlushSoon();
  void Flush();
  void Conclude();
  void Linger();
  void DropInput();
  // Closes the connection when the time is over before the deadline is lifted or set anew.
  struct Deadline {
    explicit Deadline(boost::asio::io_context& io) : timer(io) {}
    boost::asio::steady_timer timer;
    std::uint64_t epoch = 0;  // of the latest: a call that is on its way already counts no more
  };
  void Set(Deadline& deadline, double seconds);
  static void Lift(Deadline& deadline);
  void EnterWaiting();
  void LeaveWaiting();

  HttpServer::State& server_;
  boost::asio::ip::tcp::socket socket_;
  Deadline reading_, writing_until_;
  boost::asio::steady_timer watching_;
  std::list<HttpConnection*>::iterator place_;
  std::optional<std::list<HttpConnection*>::iterator> waiting_place_;
  std::optional<boost::asio::executor_work_guard<boost::asio::io_context::executor_type>> busy_;

  boost::beast::flat_buffer buffer_;
  std::optional<boost::beast::http::request_parser<boost::beast::http::string_body>> parser_;
  HttpRequest request_;          // without its body, which is the worker's
  std::atomic<size_t> room_{0};  // of HttpCounts::bodies_bytes; any thread
  size_t body_room_ = 0;         // of it, for the body
  bool closed_ = false;
  bool writing_ = false;
  std::string being_written_;
  // Set before a request is served, for the thread that serves.
  Clock::time_point began_;
  bool old_version_ = false;  // HTTP/1.0: pieces end where the connection does
  bool head_only_ = false;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::string out_;  // not written yet, from out_begin_ on
  size_t out_begin_ = 0;
  bool serving_ = false;  // a request is between its last byte and its reply's
  bool ended_ = false;    // the reply is complete in out_
  bool gone_ = false;
  bool keep_alive_ = false;
  bool cut_ = false;  // the reply has no end
  int status_ = 0;
  std::uint64_t reply_bytes_ = 0;
  std::function<void()> when_gone_;
};

}  // namespace banyan
