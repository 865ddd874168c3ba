// A server without an engine, and clients that say what they are told to.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "serve/http.h"

namespace banyan {

using std::chrono::milliseconds;

class TestSite : public HttpSite {
 public:
  std::optional<HttpResponse> Admit(HttpRequest& request, std::uint64_t) override {
    if (request.path == "/forbidden") return Refusal(403, "no");
    return std::nullopt;
  }
  void Serve(HttpRequest request, HttpReply& reply) override {
    if (request.path == "/throw") throw std::runtime_error("secret");
    if (request.path == "/stream") {
      HttpResponse head;
      head.body = "0,";
      reply.Begin(head);
      for (int i = 1; i < 50; ++i) reply.Write(std::to_string(i) + ",");
      return reply.End();
    }
    if (request.path == "/break") {
      HttpResponse head;
      head.body = "begun";
      reply.Begin(head);
      throw std::runtime_error("secret");
    }
    if (request.path == "/break-and-tell") {  // as a site does that catches everything
      reply.Begin(HttpResponse());
      reply.Write("begun");
      return reply.Send(Refusal(500, "secret"));
    }
    if (request.path == "/linger") {  // goes on after its reply, until the test lets it go
      reply.Send(HttpResponse());
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, std::chrono::seconds(120), [&] { return released_; });
      lingered = request.path + " " + request.body;
      ++lingered_;
      return changed_.notify_all();
    }
    if (request.path == "/wait") {
      bool gone = false;
      std::unique_lock lock(mutex_);
      ++waiting_;
      changed_.notify_all();
      lock.unlock();
      reply.WhenGone([&] {
        const std::lock_guard inner(mutex_);
        gone = true;
        changed_.notify_all();
      });
      lock.lock();
      changed_.wait(lock, [&] { return gone || released_; });
      if (gone) ++left_;
      changed_.notify_all();
      lock.unlock();
      reply.WhenGone(nullptr);
    }
    HttpResponse response;
    response.content_type = "text/plain";
    response.body = request.method + " " + request.path + " " + request.body;
    reply.Send(std::move(response));
  }
  HttpResponse Refusal(int status, const std::string& message) override {
    HttpResponse response;
    response.status = status;
    response.body = status == 500 ? "internal" : message;
    return response;
  }
  void Served(const HttpRequest&, int, std::uint64_t, double, bool) override { ++served; }

  bool WaitFor(int TestSite::*count, int wanted) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(120),
                             [&] { return this->*count >= wanted; });
  }
  void Release() {
    const std::lock_guard lock(mutex_);
    released_ = true;
    changed_.notify_all();
  }

  std::atomic<int> served{0};
  int waiting_ = 0, left_ = 0, lingered_ = 0;
  std::string lingered;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool released_ = false;
};

// A client that says what it is told to.
class Client {
 public:
  explicit Client(int port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected = ::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  }
  ~Client() { Close(); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void Close() {
    if (socket_ >= 0) ::close(socket_);
    socket_ = -1;
  }
  // The end is a reset.
  void ResetAtEnd() {
    const linger hard{1, 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
  }
  void Send(const std::string& bytes) {
    EXPECT_EQ(::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  // Until the text is there or the server ends.
  std::string ReadUntil(const std::string& end) {
    std::string text;
    char buffer[4096];
    while (text.find(end) == std::string::npos) {
      const ssize_t count = ::recv(socket_, buffer, sizeof(buffer), 0);
      if (count < 0) last_error = errno;
      if (count <= 0) break;
      text.append(buffer, static_cast<size_t>(count));
    }
    return text;
  }

  bool connected = false;
  int last_error = 0;

 private:
  int socket_;
};

inline std::string Post(const std::string& path, const std::string& body) {
  return "POST " + path + " HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + body;
}

class HttpTest : public ::testing::Test {
 protected:
  void Start(HttpLimits limits = {}) {
    server_ = std::make_unique<HttpServer>("127.0.0.1", 0, limits, site_);
    port_ = server_->port();
    thread_ = std::thread([this] { server_->Run(); });
  }
  void TearDown() override {
    site_.Release();
    server_->Drain();
    if (thread_.joinable()) thread_.join();
  }

  TestSite site_;
  std::unique_ptr<HttpServer> server_;
  std::thread thread_;
  int port_ = 0;
};

}  // namespace banyan
