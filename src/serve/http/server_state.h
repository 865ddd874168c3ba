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
#include <utility>
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

  // Held by what will take or ask for the next connection. It goes with a handler that is dropped
  // without being called, as Asio does when it has no memory for the new connection's socket.
  class Asked {
   public:
    explicit Asked(int& count) : count_(&count) { ++count; }
    Asked(Asked&& other) noexcept : count_(std::exchange(other.count_, nullptr)) {}
    ~Asked() {
      if (count_ != nullptr) --*count_;
    }

   private:
    int* count_;
  };

  // Asks for the next connection, or throws.
  void Accept();
  void Add(boost::asio::ip::tcp::socket socket);
  void CloseIdle();
  void LookForClients();
  bool TakeRoom(size_t bytes);  // from any thread
  // Random: a count would tell one client of the others'. For the socket thread.
  std::uint64_t NewRequestNumber();

  int asked = 0;  // before io, which drops handlers at its end; for the socket thread alone
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

// One request's part of HttpCounts::bodies_bytes: its body, and what a worker allocates for it
// until its reply is written. A worker may go on after that; then nothing counts any more.
class RequestMemory : public MemoryAccount {
 public:
  RequestMemory(HttpServer::State& server, bool open) : server_(server), open_(open) {}
  ~RequestMemory() override { Release(); }
  RequestMemory(const RequestMemory&) = delete;
  RequestMemory& operator=(const RequestMemory&) = delete;

  // The body takes so many bytes now. What it returns is not kFits: nothing has changed.
  Room SetBody(size_t bytes);
  void Grow(std::int64_t bytes) override;
  Room RoomFor(size_t bytes) const override;
  Room refused() const;  // the last that RoomFor said and was not kFits
  void Release();

 private:
  Room RoomWithin(std::int64_t more) const;  // REQUIRES: mutex_
  void Count(std::int64_t bytes);            // REQUIRES: mutex_

  HttpServer::State& server_;
  const bool open_;                     // see HttpRequest
  mutable std::mutex mutex_;            // guards what follows
  std::int64_t body_ = 0, others_ = 0;  // bytes
  bool over_ = false;
  mutable Room refused_ = Room::kFits;
};

}  // namespace banyan
