// The writing half of a connection: what the serving thread hands over, in order, as fast as the
// client takes it.
#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/fields.hpp>
#include <boost/beast/http/write.hpp>
#include <sstream>
#include <utility>

#include "base/error.h"
#include "serve/http_connection.h"

namespace banyan {

namespace asio = boost::asio;
namespace http = boost::beast::http;

namespace {

// A client takes so much within HttpLimits::write_seconds, or it is too slow.
constexpr size_t kWriteBytes = 64u << 10;
constexpr double kLingerSeconds = 2.0;

}  // namespace

std::string HttpConnection::HeadText(const HttpResponse& response, std::optional<size_t> length) {
  http::response_header<> head;
  head.version(11);
  head.result(static_cast<unsigned>(response.status));
  if (!response.content_type.empty()) head.set(http::field::content_type, response.content_type);
  head.set(http::field::server, "banyan");
  head.set("X-Content-Type-Options", "nosniff");
  head.set("X-Request-Id", fmt::format("req-{}", request_.number));
  if (!request_.allow_origin.empty()) {
    head.set(http::field::access_control_allow_origin, request_.allow_origin);
    head.set(http::field::vary, "Origin");
  }
  for (const auto& [name, value] : response.headers) head.set(name, value);
  const bool has_body = response.status != 204 && response.status != 304;
  if (has_body && length) {
    head.set(http::field::content_length, std::to_string(*length));
  } else if (has_body && !old_version_) {
    head.set(http::field::transfer_encoding, "chunked");
  }
  head.set(http::field::connection, keep_alive_ ? "keep-alive" : "close");
  std::ostringstream text;
  text << head;
  return text.str();
}

// REQUIRES: mutex_.
void HttpConnection::Append(std::string_view bytes) {
  if (gone_) return;
  if (out_begin_ > out_.size() / 2) {
    out_.erase(0, out_begin_);
    out_begin_ = 0;
  }
  out_ += bytes;
  reply_bytes_ += bytes.size();
}

void HttpConnection::FlushSoon() {
  asio::post(server_.io, [self = shared_from_this()] { self->Flush(); });
}

void HttpConnection::Send(HttpResponse response) {
  {
    const std::lock_guard lock(mutex_);
    if (ended_) return;
    status_ = response.status;
    const std::string head = HeadText(response, response.body.size());
    if (head_only_ || response.status == 304) response.body.clear();
    if (out_.empty()) {  // a large body is not held twice
      response.body.insert(0, head);
      if (!gone_) out_ = std::move(response.body);
      reply_bytes_ += out_.size();
    } else {
      Append(head);
      Append(response.body);
    }
    ended_ = true;
  }
  FlushSoon();
}

void HttpConnection::Begin(const HttpResponse& head) {
  {
    const std::lock_guard lock(mutex_);
    if (old_version_) keep_alive_ = false;
    status_ = head.status;
    Append(HeadText(head, std::nullopt));
  }
  if (!head.body.empty()) {
    Write(head.body);
  } else {
    FlushSoon();
  }
}

bool HttpConnection::Write(std::string_view piece) {
  if (piece.empty() || head_only_) return !gone();
  {
    std::unique_lock lock(mutex_);
    changed_.wait(
        lock, [&] { return gone_ || out_.size() - out_begin_ <= server_.limits.max_unread_bytes; });
    if (gone_) return false;
    if (old_version_) {
      Append(piece);
    } else {
      Append(fmt::format("{:x}\r\n", piece.size()));
      Append(piece);
      Append("\r\n");
    }
  }
  FlushSoon();
  return true;
}

void HttpConnection::End() { EndReply(/*cut=*/false); }
void HttpConnection::Cut() { EndReply(/*cut=*/true); }

void HttpConnection::EndReply(bool cut) {
  {
    const std::lock_guard lock(mutex_);
    if (ended_) return;
    ended_ = true;
    cut_ = cut;
    if (cut) keep_alive_ = false;
    if (!cut && !old_version_ && !head_only_) Append("0\r\n\r\n");
  }
  FlushSoon();
}

bool HttpConnection::gone() const {
  const std::lock_guard lock(mutex_);
  return gone_;
}

void HttpConnection::WhenGone(std::function<void()> call) {
  {
    const std::lock_guard lock(mutex_);
    if (!gone_) {
      when_gone_ = std::move(call);
      return;
    }
  }
  if (call) call();
}

void HttpConnection::Flush() {
  if (writing_) return;
  bool over;
  {
    const std::lock_guard lock(mutex_);
    over = ended_ && serving_;
    being_written_ = out_.substr(out_begin_, kWriteBytes);
    out_begin_ += being_written_.size();
    if (out_begin_ == out_.size()) {
      out_.clear();
      out_begin_ = 0;
    }
    changed_.notify_all();
  }
  if (closed_ || being_written_.empty()) {
    if (over) Conclude();
    return;
  }
  writing_ = true;
  Set(writing_until_, server_.limits.write_seconds);
  asio::async_write(socket_, asio::buffer(being_written_),
                    [self = shared_from_this()](ErrorCode error, size_t) {
                      self->writing_ = false;
                      Lift(self->writing_until_);
                      if (error) self->Close();
                      self->Flush();
                    });
}

// The reply is written, or nobody wants it any more.
void HttpConnection::Conclude() {
  int status;
  std::uint64_t bytes;
  bool cut, keep_alive;
  {
    const std::lock_guard lock(mutex_);
    serving_ = false;
    cut = cut_;
    keep_alive = keep_alive_;
    when_gone_ = nullptr;
    status = status_;
    bytes = reply_bytes_;
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - began_).count();
  watching_.cancel();
  server_.site.Served(request_, status, bytes, seconds, closed_);
  parser_.reset();
  GiveBackRoom();
  --server_.counts.requests;
  busy_.reset();
  if (closed_) return;
  if (keep_alive && !server_.draining) return AwaitRequest(server_.limits.idle_seconds);
  if (cut && old_version_) {  // without chunks only a reset says that something is missing
    ErrorCode ignored;
    socket_.set_option(asio::socket_base::linger(true, 0), ignored);
    return Close();
  }
  Linger();
}

// Closed at once, the client might lose what it has not read yet: it is given a moment to end
// first, and what it still sends is thrown away.
void HttpConnection::Linger() {
  ErrorCode error;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send, error);
  if (error || server_.draining) return Close();
  EnterWaiting();
  Set(reading_, kLingerSeconds);
  DropInput();
}

void HttpConnection::DropInput() {
  buffer_.clear();
  socket_.async_read_some(buffer_.prepare(4096),
                          [self = shared_from_this()](ErrorCode end, size_t) {
                            if (end || self->closed_) return self->Close();
                            self->DropInput();
                          });
}

}  // namespace banyan
