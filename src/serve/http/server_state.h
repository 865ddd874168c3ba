// What the connections of a server share. Only sources of this folder include it: Boost.Asio is
// heavy.
#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "serve/http/http.h"

namespace banyan {

class HttpConnection;

// Threads that serve requests. They start on demand and are reused; there are never more than
// `most`.
class WorkerPool {
 public:
  explicit WorkerPool(int most);
  ~WorkerPool();  // waits for what runs

  // False when `most` are running.
  bool TryRun(std::function<void()> work);

 private:
  void Work();

  const int most_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;  // taken at once: there is a thread for each
  int running_ = 0;                            // including those in waiting_
  bool ended_ = false;
  std::vector<std::thread> threads_;
};

using IoWorkGuard = boost::asio::executor_work_guard<boost::asio::io_context::executor_type>;

struct HttpServer::State {
  State(const HttpLimits& limits, HttpHandler& handler);

  void Accept();
  void Add(boost::asio::ip::tcp::socket socket);
  void CloseIdle();
  bool TakeRoom(size_t bytes);  // from any thread
  // Random: a count would tell one client of the others'. For the socket thread.
  std::uint64_t NewRequestNumber();

  boost::asio::io_context io{1};
  std::optional<IoWorkGuard> busy;
  boost::asio::ip::tcp::acceptor acceptor{io};
  boost::asio::steady_timer accept_again{io};
  const HttpLimits limits;
  HttpHandler& handler;
  HttpCounts counts;
  // For the socket thread alone.
  std::list<HttpConnection*> all;
  std::list<HttpConnection*> waiting;  // for a complete request, longest first
  std::random_device random;
  bool draining = false;
  bool over = false;  // the lists above are about to be destroyed

  WorkerPool workers;  // last: what it runs uses all of the above
};

// One connection's part of HttpCounts::bodies_bytes. For any thread.
class BodyMemory {
 public:
  explicit BodyMemory(HttpServer::State& server) : server_(server) {}
  ~BodyMemory() { Release(); }
  BodyMemory(const BodyMemory&) = delete;
  BodyMemory& operator=(const BodyMemory&) = delete;

  // False when all requests together would pass HttpLimits::max_bodies_bytes.
  bool Take(size_t bytes);
  void Release();

 private:
  HttpServer::State& server_;
  std::atomic<size_t> taken_{0};
};

}  // namespace banyan
