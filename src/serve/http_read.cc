// The reading half of a connection: a request's head and body, and why one is not served.
#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/write.hpp>
#include <boost/beast/http/read.hpp>
#include <cctype>
#include <utility>

#include "serve/http_connection.h"

namespace banyan {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using Tcp = asio::ip::tcp;

namespace {

std::string LowerCase(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

std::string_view View(boost::beast::string_view text) { return {text.data(), text.size()}; }

}  // namespace

// Until the first byte of a request.
void HttpConnection::AwaitRequest(double seconds) {
  if (server_.draining) return Close();
  EnterWaiting();
  if (buffer_.size() > 0) return ReadHead();
  Set(reading_, seconds);
  socket_.async_wait(Tcp::socket::wait_read, [self = shared_from_this()](ErrorCode error) {
    if (error || self->closed_) return self->Close();
    self->ReadHead();
  });
}

void HttpConnection::ReadHead() {
  began_ = Clock::now();
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
  request_.began = began_;
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
  {
    const std::lock_guard lock(mutex_);
    keep_alive_ = head.keep_alive() && !server_.draining;
  }
  // A body whose end a proxy before this server may see elsewhere: what follows would be a request
  // of somebody else's.
  const std::string coding = LowerCase(request_.header("transfer-encoding"));
  if (!coding.empty() && (coding != "chunked" || old_version_)) {
    {
      const std::lock_guard lock(mutex_);
      keep_alive_ = false;
    }
    return Refuse(501, "Transfer-Encoding: only 'chunked' of HTTP/1.1 is known");
  }
  if (!path || !path->starts_with('/')) return Refuse(400, "the request's target is no path");
  request_.path = *path;
  if (server_.draining) return Refuse(503, "the server is stopping");
  const std::uint64_t length = parser_->content_length().value_or(0);
  if (std::optional<HttpResponse> refusal = server_.site.Admit(request_, length)) {
    return RefuseWith(std::move(*refusal));
  }
  // A promise takes no room: only bytes that came do.
  if (length >
      server_.limits.max_bodies_bytes - static_cast<size_t>(server_.counts.bodies_bytes.load())) {
    return RefuseForRoom();
  }
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

void HttpConnection::RefuseForRoom() {
  ++server_.counts.refused_busy;
  Refuse(429, "too many large requests are being read");
}

// Bodies of all requests together have a limit; false: this one was refused.
bool HttpConnection::TakeBodyRoom() {
  const size_t bytes = parser_->get().body().size();
  if (bytes <= body_room_) return true;
  if (!TakeRoom(bytes - body_room_)) {
    RefuseForRoom();
    return false;
  }
  body_room_ = bytes;
  return true;
}

void HttpConnection::ReadBody() {
  Set(reading_, server_.limits.body_seconds);
  if (!TakeBodyRoom()) return;  // what came with the head
  if (parser_->is_done()) return Dispatch();
  http::async_read_some(socket_, buffer_, *parser_,
                        [self = shared_from_this()](ErrorCode error, size_t) {
                          if (!self->closed_) self->OnBody(error);
                        });
}

void HttpConnection::OnBody(ErrorCode error) {
  if (error) return OnReadError(error);
  if (!TakeBodyRoom()) return;
  if (parser_->is_done()) return Dispatch();
  http::async_read_some(socket_, buffer_, *parser_,
                        [self = shared_from_this()](ErrorCode again, size_t) {
                          if (!self->closed_) self->OnBody(again);
                        });
}

void HttpConnection::Refuse(int status, const std::string& message) {
  HttpResponse response = server_.site.Refusal(status, message);
  if (status == 429 || status == 503) response.headers.emplace_back("Retry-After", "1");
  RefuseWith(std::move(response));
}

// Instead of serving. A body that was not read ends the connection.
void HttpConnection::RefuseWith(HttpResponse response) {
  if (!parser_->is_done()) {
    const std::lock_guard lock(mutex_);
    keep_alive_ = false;
  }
  BeginRequest();
  Send(std::move(response));
}

}  // namespace banyan
