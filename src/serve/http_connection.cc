// The life of a connection: how it begins, waits, is served and ends. Requests are read in
// http_read.cc, replies written in http_reply.cc.
#include "serve/http_connection.h"

#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <memory>
#include <utility>

namespace banyan {

namespace asio = boost::asio;
using Tcp = asio::ip::tcp;

namespace {

// Between two looks whether a client that has sent ahead is still there.
constexpr auto kLookEvery = std::chrono::milliseconds(250);

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
      watching_(server.io),
      place_(server.all.insert(server.all.end(), this)) {
  ++server_.counts.connections;
  NoticeVanished(socket_);
}

HttpConnection::~HttpConnection() {
  if (!closed_ && !server_.over) {
    server_.all.erase(place_);
    LeaveWaiting();
  }
  GiveBackRoom();
  --server_.counts.connections;
}

void HttpConnection::Start() { AwaitRequest(server_.limits.header_seconds); }

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
  watching_.cancel();
  socket_.close(ignored);
  std::function<void()> call;
  bool serving;
  {
    const std::lock_guard lock(mutex_);
    gone_ = true;
    serving = serving_;
    call = std::exchange(when_gone_, nullptr);
    out_.clear();
    out_begin_ = 0;
    changed_.notify_all();
  }
  if (call) call();
  if (!serving) GiveBackRoom();  // else whoever serves still has the body, and Conclude does it
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
  cut_ = false;
  status_ = 0;
  reply_bytes_ = 0;
}

void HttpConnection::Dispatch() {
  // A worker has a request of its own: once its reply is over, the next one is read into request_,
  // whatever the worker still does.
  request_.body_bytes = parser_->get().body().size();
  auto given = std::make_shared<HttpRequest>(request_);
  given->body = std::move(parser_->get().body());
  parser_.reset();
  BeginRequest();
  const auto serve = [self = shared_from_this(), given = std::move(given)] {
    self->Serve(std::move(*given));
  };
  if (!server_.workers.TryRun(serve)) {
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
  explicit ReplyToOne(HttpConnection& connection) : connection_(connection) {}

  // After Begin no other reply can come: it is cut.
  void Send(HttpResponse response) override {
    if (over_) return;
    if (begun_) return Cut();
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
  bool TakeRoom(size_t bytes) override { return !over_ && connection_.TakeRoom(bytes); }
  void Cut() {
    if (!std::exchange(over_, true)) connection_.Cut();
  }

 private:
  HttpConnection& connection_;
  bool begun_ = false, over_ = false;
};

}  // namespace

// On a thread of its own.
void HttpConnection::Serve(HttpRequest request) {
  ReplyToOne reply(*this);
  try {
    server_.site.Serve(std::move(request), reply);
    reply.End();
  } catch (const std::exception& error) {
    reply.Send(server_.site.Refusal(500, error.what()));
  } catch (...) {
    reply.Send(server_.site.Refusal(500, "unknown"));
  }
}

// While a request is served, nothing is read: what comes may be the next request. But the end of
// the stream means that nobody waits for the reply, also when bytes stand before it.
void HttpConnection::WatchClient() {
  if (buffer_.size() > 0) return WatchByClock();
  socket_.async_wait(Tcp::socket::wait_read, [self = shared_from_this()](ErrorCode error) {
    if (!error && !self->closed_) self->WatchByClock();
  });
}

// Bytes that nobody reads yet make every wait for more end at once, so the socket is looked at now
// and then.
void HttpConnection::WatchByClock() {
  {
    const std::lock_guard lock(mutex_);
    if (!serving_) return;
  }
  if (ClientHasLeft()) return Close();
  watching_.expires_after(kLookEvery);
  watching_.async_wait([self = shared_from_this()](ErrorCode error) {
    if (!error && !self->closed_) self->WatchByClock();
  });
}

bool HttpConnection::ClientHasLeft() {
  pollfd wanted{socket_.native_handle(), POLLRDHUP, 0};
  return ::poll(&wanted, 1, 0) > 0 && (wanted.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

bool HttpConnection::TakeRoom(size_t bytes) {
  std::atomic<std::int64_t>& taken = server_.counts.bodies_bytes;
  const auto most = static_cast<std::int64_t>(server_.limits.max_bodies_bytes);
  const auto more = static_cast<std::int64_t>(bytes);
  std::int64_t now = taken.load();
  do {
    if (more > most - now) return false;
  } while (!taken.compare_exchange_weak(now, now + more));
  room_ += bytes;
  return true;
}

void HttpConnection::GiveBackRoom() {
  body_room_ = 0;
  server_.counts.bodies_bytes -= static_cast<std::int64_t>(room_.exchange(0));
}

}  // namespace banyan
