// Parsing a request, admitting it and reading its body within the limits.
#include "serve/http/request_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/write.hpp>
#include <cctype>
#include <utility>

namespace banyan {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using Tcp = asio::ip::tcp;

namespace {

// Every connection that waits for a request has room for so many bytes of it.
constexpr size_t kFirstBytes = 512;

std::string LowerCase(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

std::string_view View(boost::beast::string_view text) { return {text.data(), text.size()}; }

// Whether a line begins with white space: it continues the field before (RFC 9112, 5.2).
bool IsFolded(std::string_view head) {
  for (size_t at = head.find('\n'); at != std::string_view::npos; at = head.find('\n', at + 1)) {
    if (at + 1 < head.size() && (head[at + 1] == ' ' || head[at + 1] == '\t')) return true;
  }
  return false;
}

}  // namespace

RequestReader::RequestReader(HttpServer::State& server, Tcp::socket& socket, Owner& owner)
    : server_(server),
      socket_(socket),
      owner_(owner),
      buffer_(2 * server.limits.max_header_bytes) {}

// Reads instead of waiting for readability: when a wait begins, Asio announces the descriptor anew
// and does not notice when that fails.
void RequestReader::Start(double seconds) {
  if (has_more()) return ReadHead();
  buffer_.shrink_to_fit();
  owner_.LimitReading(seconds);
  ReadSome(kFirstBytes, &RequestReader::ReadHead);
}

ReplyForm RequestReader::reply_form() const {
  return {request_.number, request_.allow_origin, http10_, request_.method == "HEAD", keep_alive_};
}

HttpRequest RequestReader::TakeRequest() {
  request_.body_bytes = parser_->get().body().size();
  HttpRequest request = request_;
  request.body = std::move(parser_->get().body());
  parser_.reset();
  return request;
}

void RequestReader::DropRequest() {
  parser_.reset();
  if (memory_) memory_->Release();
  memory_.reset();
}

void RequestReader::ReadHead() {
  DropRequest();
  request_ = HttpRequest();
  request_.began = std::chrono::steady_clock::now();
  folded_ = false;
  head_bytes_ = 0;
  parser_.emplace();
  parser_->header_limit(static_cast<std::uint32_t>(server_.limits.max_header_bytes));
  parser_->body_limit(server_.limits.max_body_bytes);
  owner_.LimitReading(server_.limits.header_seconds);
  ParseHead();
}

void RequestReader::ReadSome(size_t most, void (RequestReader::*next)()) {
  socket_.async_read_some(buffer_.prepare(most),
                          [this, next, owner = owner_.Hold()](ErrorCode error, size_t bytes) {
                            owner->Run([&] {
                              if (owner->closed()) return;
                              if (error) return owner->Close();
                              buffer_.commit(bytes);
                              (this->*next)();
                            });
                          });
}

void RequestReader::ParseHead() {
  while (has_more() && !parser_->is_header_done()) {
    ErrorCode error;
    const auto bytes = buffer_.data();
    const size_t used = parser_->put(bytes, error);
    // The parser takes whole fields, those on several lines, too.
    folded_ |= IsFolded({static_cast<const char*>(bytes.data()), used});
    buffer_.consume(used);
    head_bytes_ += used;
    if (error == http::error::need_more) break;
    if (error) return OnHead(error);
  }
  if (parser_->is_header_done()) return OnHead({});
  // The parser's own limit is that of a field.
  if (head_bytes_ + buffer_.size() >= server_.limits.max_header_bytes) {
    return OnHead(http::error::header_limit);
  }
  ReadSome(server_.limits.max_header_bytes, &RequestReader::ParseHead);
}

size_t RequestReader::most_body() const {
  return std::min(server_.limits.max_body_bytes, request_.most_body);
}

void RequestReader::RefuseAfter(ErrorCode error) {
  if (error == http::error::body_limit) {
    const bool own = request_.most_body < server_.limits.max_body_bytes;
    return Refuse(413, fmt::format("the body has more than {} bytes{}", most_body(),
                                   own ? ", and this path reads none" : " (--max-body)"));
  }
  if (error == http::error::header_limit) {
    return Refuse(431,
                  fmt::format("the head has more than {} bytes", server_.limits.max_header_bytes));
  }
  Refuse(400, "not an HTTP request: " + error.message());
}

void RequestReader::OnHead(ErrorCode error) {
  request_.number = server_.NewRequestNumber();
  http10_ = false;
  keep_alive_ = false;
  if (error) return RefuseAfter(error);
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
  ErrorCode ignored;
  const Tcp::endpoint peer = socket_.remote_endpoint(ignored);
  request_.peer = peer.address().to_string(ignored);
  http10_ = head.version() < 11;
  keep_alive_ = head.keep_alive() && !server_.draining;
  // Request smuggling: a proxy in front of this server might see another end of such a body, and
  // what follows would become a request of its own.
  if (folded_) {
    keep_alive_ = false;
    return Refuse(400, "not an HTTP request: a field of the head goes on in the next line");
  }
  const std::string coding = LowerCase(request_.header("transfer-encoding"));
  if (!coding.empty() && (coding != "chunked" || http10_)) {
    keep_alive_ = false;
    return Refuse(501, "Transfer-Encoding: only 'chunked' of HTTP/1.1 is known");
  }
  if (!path || !path->starts_with('/')) return Refuse(400, "the request's target is no path");
  request_.path = *path;
  if (server_.draining) return Refuse(503, "the server is stopping");
  const std::uint64_t length = parser_->content_length().value_or(0);
  if (std::optional<HttpResponse> refusal = server_.handler.Admit(request_, length)) {
    return RefuseWith(std::move(*refusal));
  }
  if (length > most_body()) return RefuseAfter(http::error::body_limit);
  if (!parser_->is_done()) parser_->body_limit(most_body());
  memory_ = std::make_shared<RequestMemory>(server_, request_.open);
  // An announced length takes no memory yet; bytes that arrive do.
  if (const auto room = memory_->RoomFor(length); room != MemoryAccount::Room::kFits) {
    return RefuseForMemory(room);
  }
  if (LowerCase(request_.header("expect")) == "100-continue") return SendContinue();
  StartBody();
}

void RequestReader::SendContinue() {
  static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
  asio::async_write(socket_, asio::buffer(kContinue),
                    [this, owner = owner_.Hold()](ErrorCode error, size_t) {
                      owner->Run([&] {
                        if (error || owner->closed()) return owner->Close();
                        StartBody();
                      });
                    });
}

void RequestReader::RefuseForMemory(MemoryAccount::Room room) {
  if (room == MemoryAccount::Room::kNever) {
    return Refuse(413, "the body takes more memory than this server has for requests");
  }
  ++server_.counts.refused_busy;
  Refuse(429, "too many large requests are being read");
}

// For what was read, before it becomes part of the body. A body without a length doubles: both
// copies count. False: the request was refused.
bool RequestReader::TakeBodyMemory() {
  std::string& body = parser_->get().body();
  const size_t needed = std::min(body.size() + buffer_.size(), most_body());
  size_t room_for = needed;
  if (parser_->chunked()) {
    if (needed <= body.capacity()) return true;
    const size_t doubled = std::min(std::max(needed, 2 * body.capacity()), most_body());
    room_for = body.capacity() + doubled;
    const auto room = memory_->SetBody(room_for);
    if (room != MemoryAccount::Room::kFits) {
      RefuseForMemory(room);
      return false;
    }
    body.reserve(doubled);
    room_for = body.capacity();
  }
  const auto room = memory_->SetBody(room_for);
  if (room == MemoryAccount::Room::kFits) return true;
  RefuseForMemory(room);
  return false;
}

void RequestReader::StartBody() {
  owner_.LimitReading(server_.limits.body_seconds);
  parser_->eager(true);
  ParseBody();
}

// Bytes that stay in the buffer are a chunk's head or trailers without their end.
void RequestReader::ParseBody() {
  while (has_more() && !parser_->is_done()) {
    if (!TakeBodyMemory()) return;
    ErrorCode error;
    buffer_.consume(parser_->put(buffer_.data(), error));
    if (error == http::error::need_more) break;
    if (error) return RefuseAfter(error);
  }
  if (parser_->is_done()) return owner_.OnRequest();
  if (buffer_.size() >= server_.limits.max_header_bytes) {
    return Refuse(
        431,
        fmt::format("the head of a chunk, or what follows the last one, has more than {} bytes",
                    server_.limits.max_header_bytes));
  }
  ReadSome(server_.limits.max_header_bytes, &RequestReader::ParseBody);
}

void RequestReader::Refuse(int status, const std::string& message) {
  HttpResponse response = server_.handler.Refusal(status, message);
  if (status == 429 || status == 503) response.headers.emplace_back("Retry-After", "1");
  RefuseWith(std::move(response));
}

// A body that was not read ends the connection.
void RequestReader::RefuseWith(HttpResponse response) {
  if (!parser_->is_done()) keep_alive_ = false;
  owner_.OnRefusal(std::move(response));
}

void RequestReader::Discard() {
  buffer_.clear();
  socket_.async_read_some(buffer_.prepare(4096),
                          [this, owner = owner_.Hold()](ErrorCode end, size_t) {
                            owner->Run([&] {
                              if (end || owner->closed()) return owner->Close();
                              Discard();
                            });
                          });
}

}  // namespace banyan
