// The life of a connection on the socket thread, and the reply that a worker sees.
#include "serve/http/connection.h"

#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <memory>
#include <new>
#include <thread>
#include <utility>

namespace banyan {

namespace asio = boost::asio;
using Tcp = asio::ip::tcp;

namespace {

// A client must take this much within HttpLimits::write_seconds.
constexpr size_t kWriteBytes = 64u << 10;
constexpr double kLingerSeconds = 2.0;

// With keep-alive probes a client whose machine vanished is noticed within a minute and a half.
void SetSocketOptions(Tcp::socket& socket) {
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

bool ClientHasLeft(Tcp::socket& socket) {
  pollfd wanted{socket.native_handle(), POLLRDHUP, 0};
  return ::poll(&wanted, 1, 0) > 0 && (wanted.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

// What a handler writes to, for one request. Once its reply is over, the connection may serve the
// next request on another thread, and this object does nothing any more.
class ReplyToOne : public HttpReply {
 public:
  ReplyToOne(ReplyBuffer& buffer, RequestMemory& memory) : buffer_(buffer), memory_(memory) {}

  // After Begin no other reply is possible: it is cut.
  void Send(HttpResponse response) override {
    if (over_) return;
    if (begun_) return Cut();
    begun_ = true;
    buffer_.Send(std::move(response));
    over_ = true;
  }
  void Begin(const HttpResponse& head) override {
    begun_ = true;
    buffer_.Begin(head);
  }
  bool Write(std::string_view piece) override { return !over_ && buffer_.Write(piece); }
  void End() override {
    if (!std::exchange(over_, true)) buffer_.End();
  }
  bool gone() const override { return over_ || buffer_.gone(); }
  void WhenGone(std::function<void()> call) override {
    if (!over_) buffer_.WhenGone(std::move(call));
  }
  MemoryAccount& memory() override { return memory_; }
  MemoryAccount::Room refused() const override { return memory_.refused(); }
  void Cut() {
    if (!std::exchange(over_, true)) buffer_.Cut();
  }

 private:
  ReplyBuffer& buffer_;
  RequestMemory& memory_;
  bool begun_ = false, over_ = false;
};

}  // namespace

void Deadline::Set(double seconds, std::function<void()> expired) {
  const std::uint64_t epoch = ++epoch_;
  timer_.expires_after(std::chrono::duration_cast<std::chrono::steady_clock::duration>(
      std::chrono::duration<double>(seconds)));
  timer_.async_wait(
      [this, epoch, expired = std::move(expired)](const boost::system::error_code& error) {
        if (!error && epoch_ == epoch) expired();
      });
}

void Deadline::Lift() {
  ++epoch_;
  timer_.cancel();
}

HttpConnection::HttpConnection(HttpServer::State& server, Tcp::socket socket)
    : server_(server),
      socket_(std::move(socket)),
      reading_(server.io),
      writing_(server.io),
      reader_(server, socket_, *this),
      reply_(server.limits.max_unread_bytes, [this] { FlushSoon(); }) {
  SetSocketOptions(socket_);
  place_ = server.all.insert(server.all.end(), this);  // last: what throws here leaves no trace
  ++server_.counts.connections;
}

HttpConnection::~HttpConnection() {
  if (!closed_ && !server_.over) {
    server_.all.erase(place_);
    LeaveWaiting();
  }
  if (busy_) --server_.counts.requests;  // no worker could be had for it
  --server_.counts.connections;
}

void HttpConnection::Start() {
  Run([this] { AwaitRequest(server_.limits.header_seconds); });
}

void HttpConnection::AwaitRequest(double seconds) {
  if (server_.draining) return Close();
  EnterWaiting();
  reader_.Start(seconds);
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
  reading_.Lift();
  writing_.Lift();
  ErrorCode ignored;
  socket_.close(ignored);
  // A worker that is still serving has the body: FinishRequest releases its memory.
  if (!reply_.Abandon()) return reader_.DropRequest();
  try {
    Flush();       // of a reply that has ended nobody else might hear
  } catch (...) {  // its line of the log is missing
  }
}

void HttpConnection::Limit(Deadline& deadline, double seconds) {
  deadline.Set(seconds, [self = shared_from_this()] {  // throws nothing
    if (self->closed_) return;
    ++self->server_.counts.timed_out;
    self->Close();
  });
}

void HttpConnection::BeginRequest() {
  reading_.Lift();
  LeaveWaiting();
  reply_.Start(reader_.reply_form());
  busy_.emplace(server_.io.get_executor());
  ++server_.counts.requests;
}

void HttpConnection::OnRefusal(HttpResponse response) {
  BeginRequest();
  reply_.Send(std::move(response));
}

void HttpConnection::OnRequest() {
  // The worker gets a copy: it may still run when its reply is over and the next request is read.
  auto request = std::make_shared<HttpRequest>(reader_.TakeRequest());
  BeginRequest();
  const auto serve = [self = shared_from_this(), request = std::move(request),
                      memory = reader_.memory()] { self->Serve(std::move(*request), *memory); };
  if (!server_.workers.TryRun(serve)) {
    ++server_.counts.refused_busy;
    HttpResponse busy =
        server_.handler.Refusal(429, "the server is busy: too many requests at once");
    busy.headers.emplace_back("Retry-After", "1");
    return reply_.Send(std::move(busy));
  }
  WatchClient();
}

void HttpConnection::Serve(HttpRequest request, RequestMemory& memory) {
  ReplyToOne reply(reply_, memory);
  try {
    try {
      server_.handler.Serve(std::move(request), reply);
      reply.End();
    } catch (const std::exception& error) {
      reply.Send(server_.handler.Refusal(500, error.what()));
    } catch (...) {
      reply.Send(server_.handler.Refusal(500, "unknown"));
    }
  } catch (...) {  // no memory for that, either
    reply.Cut();
  }
}

// While a request is served, nothing is read: what comes may be the next request. But the end of
// the stream means that the client has left. Unread bytes make every wait for readability return at
// once: who leaves after them is noticed when the server looks (HttpServer::Run).
void HttpConnection::WatchClient() {
  if (reader_.has_more()) return;
  socket_.async_wait(Tcp::socket::wait_read, [self = shared_from_this()](ErrorCode error) {
    self->Run([&] {
      if (!error && !self->closed_) self->LookForClient();
    });
  });
}

void HttpConnection::LookForClient() {
  if (reply_.active() && ClientHasLeft(socket_)) Close();
}

// A reply whose last piece is announced to nobody would never end, so a worker waits for the memory
// that this takes.
void HttpConnection::FlushSoon() {
  const bool may_wait = !server_.io.get_executor().running_in_this_thread();
  for (;;) {
    try {
      asio::post(server_.io, [self = shared_from_this()] { self->Run([&] { self->Flush(); }); });
      return;
    } catch (const std::bad_alloc&) {
      if (!may_wait) throw;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
}

void HttpConnection::Flush() {
  if (write_pending_) return;
  ReplyBuffer::Piece piece = reply_.Take(kWriteBytes);
  if (closed_ || piece.bytes.empty()) {
    if (piece.ended) FinishRequest();
    return;
  }
  being_written_ = std::move(piece.bytes);
  Limit(writing_, server_.limits.write_seconds);
  asio::async_write(socket_, asio::buffer(being_written_),
                    [self = shared_from_this()](ErrorCode error, size_t) {
                      self->Run([&] {
                        self->write_pending_ = false;
                        self->writing_.Lift();
                        if (error) self->Close();
                        self->Flush();
                      });
                    });
  write_pending_ = true;  // its end comes later, even if it is done
}

// The reply is written, or its client has left.
void HttpConnection::FinishRequest() {
  const ReplyBuffer::Outcome outcome = reply_.Finish();
  const HttpRequest& request = reader_.request();
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - request.began).count();
  reader_.DropRequest();
  --server_.counts.requests;
  busy_.reset();
  ErrorCode ignored;
  socket_.cancel(ignored);  // of WatchClient: what reads next waits behind nobody
  server_.handler.Served(request, outcome.status, outcome.bytes, seconds, closed_);
  if (closed_) return;
  if (outcome.keep_alive && !server_.draining) return AwaitRequest(server_.limits.idle_seconds);
  if (outcome.cut &&
      outcome.http10) {  // without chunks only a reset shows that something is missing
    socket_.set_option(asio::socket_base::linger(true, 0), ignored);
    return Close();
  }
  Linger();
}

// Closing at once could lose bytes that the client has not read yet. So it gets a moment to close
// first, and what it still sends is discarded.
void HttpConnection::Linger() {
  ErrorCode error;
  socket_.shutdown(Tcp::socket::shutdown_send, error);
  if (error || server_.draining) return Close();
  EnterWaiting();
  LimitReading(kLingerSeconds);
  reader_.Discard();
}

}  // namespace banyan
