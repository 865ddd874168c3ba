// The life of a connection: how it begins, waits, is served and ends. Requests are read in
// http_read.cc, replies written in http_reply.cc.
#include "serve/http_connection.h"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <utility>

namespace banyan {

namespace asio = boost::asio;
using Tcp = asio::ip::tcp;

namespace {

// A client whose machine vanished is noticed within a minute and a half, also while it waits.
void NoticeVanished(Tcp::socket& socket) {
  boost::system::error_code ignored;
  socket.set_option(asio::socket_base::keep_alive(true), ignored);
  socket.set_option(Tcp::no_delay(true), ignored);
  const auto set = [&](int name, int value) {
    ::setsockopt(socket.native_handle(), IPPROTO_TCP, name, &value, sizeof(value));
  };
  set(TCP_KEEPIDLE, 30);
  set(TCP_KEEPINTVL, 15);
  set(TCP_KEEPCNT, 4);
}

}  // namespace

HttpConnection::HttpConnection(HttpServer::State& server, Tcp::socket socket)
    : server_(server),
      socket_(std::move(socket)),
      reading_(server.io),
      writing_until_(server.io),
      place_(server.all.insert(server.all.end(), this)) {
  ++server_.counts.connections;
  NoticeVanished(socket_);
}

HttpConnection::~HttpConnection() { --server_.counts.connections; }

void HttpConnection::Start() {
  EnterWaiting();
  ReadHead();
}

void HttpConnection::EnterWaiting() {
  LeaveWaiting();
  waiting_place_ = server_.waiting.insert(server_.waiting.end(), this);
}

void HttpConnection::LeaveWaiting() {
  if (waiting_place_) server_.waiting.erase(*waiting_place_);
  waiting_place_.reset();
}

void HttpConnection::Close() {
  if (std::exchange(closed_, true)) return;
  server_.all.erase(place_);
  LeaveWaiting();
  boost::system::error_code ignored;
  Lift(reading_);
  Lift(writing_until_);
  socket_.close(ignored);
  std::function<void()> call;
  {
    const std::lock_guard lock(mutex_);
    gone_ = true;
    call = std::exchange(when_gone_, nullptr);
    out_.clear();
    out_begin_ = 0;
    changed_.notify_all();
  }
  if (call) call();
}

void HttpConnection::Set(Deadline& deadline, double seconds) {
  const std::uint64_t epoch = ++deadline.epoch;
  deadline.timer.expires_after(
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds)));
  deadline.timer.async_wait([self = shared_from_this(), &deadline, epoch](ErrorCode error) {
    if (error || self->closed_ || deadline.epoch != epoch) return;
    ++self->server_.counts.timed_out;
    self->Close();
  });
}

void HttpConnection::Lift(Deadline& deadline) {
  ++deadline.epoch;
  deadline.timer.cancel();
}

void HttpConnection::BeginRequest() {
  Lift(reading_);
  LeaveWaiting();
  busy_.emplace(server_.io.get_executor());
  ++server_.counts.requests;
  const std::lock_guard lock(mutex_);
  serving_ = true;
  ended_ = false;
  status_ = 0;
  reply_bytes_ = 0;
}

void HttpConnection::Dispatch() {
  request_.body = std::move(parser_->get().body());
  parser_.reset();
  BeginRequest();
  if (!server_.workers.TryRun([self = shared_from_this()] { self->Serve(); })) {
    ++server_.counts.refused_busy;
    HttpResponse busy = server_.site.Refusal(429, "the server is busy: too many requests at once");
    busy.headers.emplace_back("Retry-After", "1");
    return Send(std::move(busy));
  }
  WatchClient();
}

namespace {

// The reply to one request. Once it is over, the connection may serve the next one on another
// thread, and this one has no say any more.
class ReplyToOne : public HttpReply {
 public:
  explicit ReplyToOne(HttpReply& connection) : connection_(connection) {}

  void Send(HttpResponse response) override {
    if (over_) return;
    begun_ = over_ = true;
    connection_.Send(std::move(response));
  }
  void Begin(const HttpResponse& head) override {
    begun_ = true;
    connection_.Begin(head);
  }
  bool Write(std::string_view piece) override { return !over_ && connection_.Write(piece); }
  void End() override {
    if (!std::exchange(over_, true)) connection_.End();
  }
  bool gone() const override { return over_ || connection_.gone(); }
  void WhenGone(std::function<void()> call) override {
    if (!over_) connection_.WhenGone(std::move(call));
  }
  bool begun() const { return begun_; }

 private:
  HttpReply& connection_;
  bool begun_ = false, over_ = false;
};

}  // namespace

// On a thread of its own.
void HttpConnection::Serve() {
  ReplyToOne reply(*this);
  try {
    server_.site.Serve(request_, reply);
  } catch (const std::exception& error) {
    if (!reply.begun()) reply.Send(server_.site.Refusal(500, error.what()));
  }
  reply.End();
}

// While a request is served, nothing is read: the first byte may be the next request's, but the end
// of the stream means that nobody waits for the reply.
void HttpConnection::WatchClient() {
  if (buffer_.size() > 0) return;
  socket_.async_wait(Tcp::socket::wait_read, [self = shared_from_this()](ErrorCode error) {
    if (error || self->closed_) return;
    {
      const std::lock_guard lock(self->mutex_);
      if (!self->serving_) return;
    }
    char byte;
    const ssize_t there = ::recv(self->socket_.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    const bool later = there < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
    if (there <= 0 && !later) self->Close();
  });
}

}  // namespace banyan
