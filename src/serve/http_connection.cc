// The reading half of a connection: head, body, and who serves it. Replies are in http_reply.cc.
#include "serve/http_connection.h"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/write.hpp>
#include <boost/beast/http/read.hpp>
#include <cctype>
#include <utility>

#include "base/error.h"

namespace banyan {

namespace asio = boost::asio;
namespace http = boost::beast::http;
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

std::string LowerCase(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

std::string_view View(boost::beast::string_view text) { return {text.data(), text.size()}; }

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

// Between requests: until the first byte of the next.
void HttpConnection::AwaitRequest() {
  if (server_.draining) return Close();
  EnterWaiting();
  if (buffer_.size() > 0) return ReadHead();
  Set(reading_, server_.limits.idle_seconds);
  socket_.async_wait(Tcp::socket::wait_read, [self = shared_from_this()](ErrorCode error) {
    if (error || self->closed_) return self->Close();
    self->ReadHead();
  });
}

void HttpConnection::ReadHead() {
  parser_.emplace();
  parser_->header_limit(static_cast<std::uint32_t>(server_.limits.max_header_bytes));
  parser_->body_limit(server_.limits.max_body_bytes);
  Set(reading_, server_.limits.header_seconds);
  http::async_read_header(socket_, buffer_, *parser_,
                          [self = shared_from_this()](ErrorCode error, size_t) {
                            if (!self->closed_) self->OnHead(error);
                          });
}

void HttpConnection::OnReadError(ErrorCode error) {
  if (error == http::error::body_limit) {
    return Refuse(413, fmt::format("the body has more than {} bytes (--max-body)",
                                   server_.limits.max_body_bytes));
  }
  if (error == http::error::header_limit) {
    return Refuse(431,
                  fmt::format("the head has more than {} bytes", server_.limits.max_header_bytes));
  }
  // Nothing was said, or nobody is there to hear the answer.
  const bool ended = error == http::error::end_of_stream || error == http::error::partial_message ||
                     error.category() == asio::error::get_system_category() ||
                     error.category() == asio::error::get_misc_category();
  if (ended) return Close();
  Refuse(400, "not an HTTP request: " + error.message());
}

void HttpConnection::OnHead(ErrorCode error) {
  request_ = HttpRequest();
  request_.number = server_.next_request++;
  began_ = Clock::now();
  head_only_ = false;
  old_version_ = false;
  if (error) return OnReadError(error);
  const auto& head = parser_->get();
  request_.method = std::string(View(head.method_string()));
  const std::string_view target = View(head.target());
  const size_t question = std::min(target.find('?'), target.size());
  const auto path = ResolvePercents(target.substr(0, question), false);
  request_.query = std::string(target.substr(std::min(question + 1, target.size())));
  for (const auto& field : head) {
    request_.headers.emplace_back(LowerCase(View(field.name_string())),
                                  std::string(View(field.value())));
  }
  boost::system::error_code ignored;
  const Tcp::endpoint peer = socket_.remote_endpoint(ignored);
  request_.peer = peer.address().to_string(ignored);
  old_version_ = head.version() < 11;
  head_only_ = request_.method == "HEAD";
  keep_alive_ = head.keep_alive() && !server_.draining;
  if (!path || !path->starts_with('/')) return Refuse(400, "the request's target is no path");
  request_.path = *path;
  if (server_.draining) return Refuse(503, "the server is stopping");
  const std::uint64_t length = parser_->content_length().value_or(0);
  if (std::optional<HttpResponse> refusal = server_.site.Admit(request_, length)) {
    return RefuseWith(std::move(*refusal));
  }
  if (!TakeBodyRoom(static_cast<size_t>(length))) return;
  if (LowerCase(request_.header("expect")) == "100-continue") return SendContinue();
  ReadBody();
}

void HttpConnection::SendContinue() {
  static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
  asio::async_write(socket_, asio::buffer(kContinue),
                    [self = shared_from_this()](ErrorCode error, size_t) {
                      if (error || self->closed_) return self->Close();
                      self->ReadBody();
                    });
}

// Bodies of all requests together have a limit; false: this one was refused.
bool HttpConnection::TakeBodyRoom(size_t bytes) {
  if (bytes <= body_room_) return true;
  if (server_.bodies_bytes + (bytes - body_room_) > server_.limits.max_bodies_bytes) {
    ++server_.counts.refused_busy;
    Refuse(429, "too many large requests are being read");
    return false;
  }
  server_.bodies_bytes += bytes - body_room_;
  body_room_ = bytes;
  return true;
}

void HttpConnection::ReadBody() {
  Set(reading_, server_.limits.body_seconds);
  if (parser_->is_done()) return Dispatch();
  http::async_read_some(socket_, buffer_, *parser_,
                        [self = shared_from_this()](ErrorCode error, size_t) {
                          if (!self->closed_) self->OnBody(error);
                        });
}

void HttpConnection::OnBody(ErrorCode error) {
  if (error) return OnReadError(error);
  if (!TakeBodyRoom(parser_->get().body().size())) return;
  if (parser_->is_done()) return Dispatch();
  http::async_read_some(socket_, buffer_, *parser_,
                        [self = shared_from_this()](ErrorCode again, size_t) {
                          if (!self->closed_) self->OnBody(again);
                        });
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

void HttpConnection::Refuse(int status, const std::string& message) {
  HttpResponse response = server_.site.Refusal(status, message);
  if (status == 429 || status == 503) response.headers.emplace_back("Retry-After", "1");
  RefuseWith(std::move(response));
}

// Instead of serving. A body that was not read ends the connection.
void HttpConnection::RefuseWith(HttpResponse response) {
  if (!parser_->is_done()) keep_alive_ = false;
  BeginRequest();
  Send(std::move(response));
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
