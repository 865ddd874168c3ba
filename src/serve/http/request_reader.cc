// Parsing a request, admitting it and reading its body within the limits.
#include "serve/http/request_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/write.hpp>
#include <boost/beast/http/read.hpp>
#include <cctype>
#include <utility>

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

RequestReader::RequestReader(HttpServer::State& server, Tcp::socket& socket, BodyMemory& memory,
                             Owner& owner)
    : server_(server), socket_(socket), memory_(memory), owner_(owner) {}

void RequestReader::Start(double seconds) {
  if (has_more()) return ReadHead();
  owner_.LimitReading(seconds);
  socket_.async_wait(Tcp::socket::wait_read, [this, owner = owner_.Hold()](ErrorCode error) {
    if (error || owner->closed()) return owner->Close();
    ReadHead();
  });
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

void RequestReader::ReadHead() {
  request_ = HttpRequest();
  request_.began = std::chrono::steady_clock::now();
  body_memory_ = 0;
  parser_.emplace();
  parser_->header_limit(static_cast<std::uint32_t>(server_.limits.max_header_bytes));
  parser_->body_limit(server_.limits.max_body_bytes);
  owner_.LimitReading(server_.limits.header_seconds);
  http::async_read_header(socket_, buffer_, *parser_,
                          [this, owner = owner_.Hold()](ErrorCode error, size_t) {
                            if (!owner->closed()) OnHead(error);
                          });
}

void RequestReader::RefuseAfter(ErrorCode error) {
  if (error == http::error::body_limit) {
    return Refuse(413, fmt::format("the body has more than {} bytes (--max-body)",
                                   server_.limits.max_body_bytes));
  }
  if (error == http::error::header_limit) {
    return Refuse(431,
                  fmt::format("the head has more than {} bytes", server_.limits.max_header_bytes));
  }
  // The client sent nothing, or is not there to read a reply.
  const bool ended = error == http::error::end_of_stream || error == http::error::partial_message ||
                     error.category() == asio::error::get_system_category() ||
                     error.category() == asio::error::get_misc_category();
  if (ended) return owner_.Close();
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
  // An announced length takes no memory yet; bytes that arrive do.
  if (length >
      server_.limits.max_bodies_bytes - static_cast<size_t>(server_.counts.bodies_bytes.load())) {
    return RefuseForMemory();
  }
  if (LowerCase(request_.header("expect")) == "100-continue") return SendContinue();
  StartBody();
}

void RequestReader::SendContinue() {
  static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
  asio::async_write(socket_, asio::buffer(kContinue),
                    [this, owner = owner_.Hold()](ErrorCode error, size_t) {
                      if (error || owner->closed()) return owner->Close();
                      StartBody();
                    });
}

void RequestReader::RefuseForMemory() {
  ++server_.counts.refused_busy;
  Refuse(429, "too many large requests are being read");
}

// False: the request was refused.
bool RequestReader::TakeBodyMemory() {
  const size_t bytes = parser_->get().body().size();
  if (bytes <= body_memory_) return true;
  if (!memory_.Take(bytes - body_memory_)) {
    RefuseForMemory();
    return false;
  }
  body_memory_ = bytes;
  return true;
}

void RequestReader::StartBody() {
  owner_.LimitReading(server_.limits.body_seconds);
  ReadBody();
}

void RequestReader::ReadBody() {
  if (!TakeBodyMemory()) return;  // what came with the head counts, too
  if (parser_->is_done()) return owner_.OnRequest();
  http::async_read_some(socket_, buffer_, *parser_,
                        [this, owner = owner_.Hold()](ErrorCode error, size_t) {
                          if (owner->closed()) return;
                          error ? RefuseAfter(error) : ReadBody();
                        });
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
                            if (end || owner->closed()) return owner->Close();
                            Discard();
                          });
}

}  // namespace banyan
