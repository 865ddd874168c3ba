// The server itself: listening, accepting, workers, shutdown; and the fields of a request.
#include "serve/http/http.h"

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/post.hpp>
#include <system_error>
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
  if (running_ == static_cast<int>(threads_.size())) {  // none is free
    try {
      threads_.emplace_back([this] { Work(); });
    } catch (const std::system_error&) {  // the system gives no thread now
      return false;
    }
  }
  waiting_.push_back(std::move(work));
  ++running_;
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

MemoryAccount::Room RequestMemory::RoomWithin(std::int64_t more) const {
  const HttpLimits& limits = server_.limits;
  const auto most = static_cast<std::int64_t>(limits.max_bodies_bytes);
  const std::int64_t own = body_ + others_ + more;
  if (own <= static_cast<std::int64_t>(limits.small_request_bytes)) return Room::kFits;
  if (open_ || own > most) return Room::kNever;
  return server_.counts.bodies_bytes.load() + more <= most ? Room::kFits : Room::kBusy;
}

void RequestMemory::Count(std::int64_t bytes) {
  if (!open_) server_.counts.bodies_bytes += bytes;
}

MemoryAccount::Room RequestMemory::SetBody(size_t bytes) {
  const std::lock_guard lock(mutex_);
  const std::int64_t more = static_cast<std::int64_t>(bytes) - body_;
  const Room room = more > 0 ? RoomWithin(more) : Room::kFits;
  if (room != Room::kFits) return room;
  body_ += more;
  Count(more);
  return room;
}

// A worker frees what it has not allocated, too, such as the body: there is no less than nothing.
void RequestMemory::Grow(std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (over_) return;
  const std::int64_t more = std::max(bytes, -others_);
  others_ += more;
  Count(more);
}

MemoryAccount::Room RequestMemory::RoomFor(size_t bytes) const {
  const std::lock_guard lock(mutex_);
  const Room room = over_ ? Room::kFits : RoomWithin(static_cast<std::int64_t>(bytes));
  if (room != Room::kFits) refused_ = room;
  return room;
}

MemoryAccount::Room RequestMemory::refused() const {
  const std::lock_guard lock(mutex_);
  return refused_;
}

void RequestMemory::Release() {
  const std::lock_guard lock(mutex_);
  over_ = true;
  Count(-(body_ + others_));
  body_ = others_ = 0;
}

namespace {

constexpr auto kAcceptAgain = std::chrono::milliseconds(50);
constexpr auto kLookAgain = std::chrono::milliseconds(250);

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
  acceptor.async_accept(
      [this, held = Asked(asked)](boost::system::error_code error, Tcp::socket socket) {
        if (!acceptor.is_open()) return;
        if (!error) {
          Accept();
          return Add(std::move(socket));
        }
        // No descriptors are left, for instance: others will end meanwhile.
        accept_again.expires_after(kAcceptAgain);
        accept_again.async_wait([this, held = Asked(asked)](boost::system::error_code cancelled) {
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

// A connection that closes leaves both lists.
void HttpServer::State::CloseIdle() {
  while (!waiting.empty()) waiting.front()->shared_from_this()->Close();
}

// A connection that closes leaves the list.
void HttpServer::State::LookForClients() {
  for (auto next = all.begin(); next != all.end();) {
    (*next++)->shared_from_this()->LookForClient();
  }
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

// What a handler throws ends its connection (RequestReader::Owner::Run); here arrives what concerns
// none: no memory for the next connection, or for a descriptor of it. Then it is asked for again.
// Nobody depends on being woken, which Asio cannot promise: it does not notice when the call that
// wakes this thread fails. What was posted is found within kLookAgain, and so is a client that
// left.
void HttpServer::Run() {
  State& state = *state_;
  while (!state.io.stopped()) {
    try {
      if (state.asked == 0 && state.acceptor.is_open()) state.Accept();
    } catch (...) {
      // Nothing is asked for yet: others are served meanwhile, and after that it is tried again.
    }
    try {
      state.io.run_for(kLookAgain);
    } catch (...) {
    }
    state.LookForClients();
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
    while (!state->all.empty()) state->all.front()->shared_from_this()->Close();
  });
}

}  // namespace banyan
