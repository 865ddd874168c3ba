#include <boost/asio/ip/address.hpp>
#include <boost/asio/post.hpp>
#include <utility>

#include "base/error.h"
#include "serve/http_connection.h"

namespace banyan {

namespace asio = boost::asio;
using Tcp = asio::ip::tcp;

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

HttpServer::State::State(const HttpLimits& limits_, HttpSite& site_)
    : limits(limits_), site(site_), workers(limits_.max_requests) {
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
                       HttpSite& site)
    : state_(std::make_unique<State>(limits, site)) {
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
