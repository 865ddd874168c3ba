// The server itself: listening, accepting, workers, shutdown; and the fields of a request.
#include "serve/http/http.h"

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/post.hpp>
#include <utility>

#include "base/error.h"
#include "serve/http/connection.h"
#include "serve/http/server_state.h"

namespace banyan {

namespace asio = boost::asio;
using Tcp = asio::ip::tcp;

namespace {

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

std::optional<std::string> ResolvePercents(std::string_view text, bool plus_is_space) {
  std::string resolved;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+' && plus_is_space) {
      resolved += ' ';
    } else if (text[i] == '%') {
      const int high = i + 2 < text.size() ? HexDigit(text[i + 1]) : -1;
      const int low = i + 2 < text.size() ? HexDigit(text[i + 2]) : -1;
      if (high < 0 || low < 0) return std::nullopt;
      resolved += static_cast<char>(high * 16 + low);
      i += 2;
    } else {
      resolved += text[i];
    }
  }
  return resolved;
}

std::string EventText(const std::string& data) { return "data: " + data + "\n\n"; }

HttpResponse EventStreamHead() {
  HttpResponse head;
  head.content_type = "text/event-stream; charset=utf-8";
  head.headers = {{"Cache-Control", "no-store"}, {"X-Accel-Buffering", "no"}};
  return head;
}

std::string_view HttpRequest::header(std::string_view name) const {
  const auto found = std::ranges::find(headers, name, &std::pair<std::string, std::string>::first);
  return found == headers.end() ? std::string_view() : std::string_view(found->second);
}

std::string HttpRequest::query_value(std::string_view name) const {
  std::string_view rest = query;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('&'), rest.size());
    const std::string_view pair = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const size_t equals = std::min(pair.find('='), pair.size());
    if (pair.substr(0, equals) != name) continue;
    return ResolvePercents(pair.substr(std::min(equals + 1, pair.size())), true).value_or("");
  }
  return {};
}

WorkerPool::WorkerPool(int most) : most_(most) {}

WorkerPool::~WorkerPool() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }
  for (std::thread& thread : threads_) thread.join();
}

bool WorkerPool::TryRun(std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  if (running_ >= most_ || ended_) return false;
  ++running_;
  waiting_.push_back(std::move(work));
  if (running_ > static_cast<int>(threads_.size())) threads_.emplace_back([this] { Work(); });
  changed_.notify_one();
  return true;
}

void WorkerPool::Work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ended_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    std::function<void()> work = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    work();
    work = nullptr;  // what it holds goes before its place is given away
    lock.lock();
    --running_;
  }
}

std::uint64_t HttpServer::State::NewRequestNumber() {
  constexpr int kMoreThanADoubleHas = 11;  // logs are JSON
  return (std::uint64_t{random()} << 32 | random()) >> kMoreThanADoubleHas;
}

bool HttpServer::State::TakeRoom(size_t bytes) {
  const auto most = static_cast<std::int64_t>(limits.max_bodies_bytes);
  const auto more = static_cast<std::int64_t>(bytes);
  std::int64_t now = counts.bodies_bytes.load();
  do {
    if (more > most - now) return false;
  } while (!counts.bodies_bytes.compare_exchange_weak(now, now + more));
  return true;
}

bool BodyMemory::Take(size_t bytes) {
  if (!server_.TakeRoom(bytes)) return false;
  taken_ += bytes;
  return true;
}

void BodyMemory::Release() {
  server_.counts.bodies_bytes -= static_cast<std::int64_t>(taken_.exchange(0));
}

namespace {

void Listen(Tcp::acceptor& acceptor, const std::string& address, int port) {
  boost::system::error_code error;
  const asio::ip::address parsed =
      asio::ip::make_address(address == "localhost" ? "127.0.0.1" : address, error);
  if (error) {
    Throw(ErrorKind::kUsage, "--address: expected an IP address such as 127.0.0.1, found '{}'",
          address);
  }
  const Tcp::endpoint endpoint(parsed, static_cast<unsigned short>(port));
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(asio::socket_base::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) {
    const bool in_use = error == asio::error::address_in_use;
    Throw(ErrorKind::kIo, "cannot listen on {} port {}: {}{}", address, port, error.message(),
          in_use ? " (--port takes another one; --port 0 any that is free)" : "");
  }
}

}  // namespace

HttpServer::State::State(const HttpLimits& limits_, HttpHandler& handler_)
    : limits(limits_), handler(handler_), workers(limits_.max_requests) {
  busy.emplace(io.get_executor());
}

void HttpServer::State::Accept() {
  acceptor.async_accept([this](boost::system::error_code error, Tcp::socket socket) {
    if (!acceptor.is_open()) return;
    if (!error) {
      Add(std::move(socket));
      return Accept();
    }
    // No descriptors are left, for instance: others will end meanwhile.
    accept_again.expires_after(std::chrono::milliseconds(50));
    accept_again.async_wait([this](boost::system::error_code cancelled) {
      if (!cancelled && acceptor.is_open()) Accept();
    });
  });
}

void HttpServer::State::Add(Tcp::socket socket) {
  ++counts.accepted;
  if (static_cast<int>(all.size()) >= limits.max_connections) {
    ++counts.evicted;
    if (waiting.empty()) return;  // all are being served: this one is closed
    waiting.front()->shared_from_this()->Close();
  }
  std::make_shared<HttpConnection>(*this, std::move(socket))->Start();
}

void HttpServer::State::CloseIdle() {
  const std::list<HttpConnection*> idle = waiting;
  for (HttpConnection* connection : idle) connection->shared_from_this()->Close();
}

HttpServer::HttpServer(const std::string& address, int port, const HttpLimits& limits,
                       HttpHandler& handler)
    : state_(std::make_unique<State>(limits, handler)) {
  Listen(state_->acceptor, address, port);
}

void HttpServer::CheckAddress(const std::string& address, int port) {
  asio::io_context io;
  Tcp::acceptor acceptor(io);
  Listen(acceptor, address, port);
}

HttpServer::~HttpServer() { state_->over = true; }

int HttpServer::port() const { return state_->acceptor.local_endpoint().port(); }
const HttpCounts& HttpServer::counts() const { return state_->counts; }
bool HttpServer::TakeRoom(size_t bytes) { return state_->TakeRoom(bytes); }
void HttpServer::GiveBackRoom(size_t bytes) {
  state_->counts.bodies_bytes -= static_cast<std::int64_t>(bytes);
}

void HttpServer::Run() {
  state_->Accept();
  for (;;) {
    try {
      state_->io.run();
      return;
    } catch (const std::exception&) {  // no memory for a connection: it is gone, others go on
    }
  }
}

void HttpServer::Drain() {
  asio::post(state_->io, [state = state_.get()] {
    boost::system::error_code ignored;
    state->draining = true;
    state->acceptor.close(ignored);
    state->accept_again.cancel();
    state->CloseIdle();
    state->busy.reset();
  });
}

void HttpServer::Stop() {
  Drain();
  asio::post(state_->io, [state = state_.get()] {
    const std::list<HttpConnection*> all = state->all;
    for (HttpConnection* connection : all) connection->shared_from_this()->Close();
  });
}

}  // namespace banyan
