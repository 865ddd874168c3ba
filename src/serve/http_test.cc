// The HTTP server without an engine: many clients at once, those that leave, and how it ends.
#include "serve/http.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace banyan {
namespace {

using std::chrono::milliseconds;

class TestSite : public HttpSite {
 public:
  std::optional<HttpResponse> Admit(HttpRequest& request, std::uint64_t) override {
    if (request.path == "/forbidden") return Refusal(403, "no");
    return std::nullopt;
  }
  void Serve(const HttpRequest& request, HttpReply& reply) override {
    if (request.path == "/throw") throw std::runtime_error("secret");
    if (request.path == "/stream") {
      HttpResponse head;
      head.body = "0,";
      reply.Begin(head);
      for (int i = 1; i < 50; ++i) reply.Write(std::to_string(i) + ",");
      return reply.End();
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
    return changed_.wait_for(lock, std::chrono::seconds(20),
                             [&] { return this->*count >= wanted; });
  }
  void Release() {
    const std::lock_guard lock(mutex_);
    released_ = true;
    changed_.notify_all();
  }

  std::atomic<int> served{0};
  int waiting_ = 0, left_ = 0;

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
  ~Client() { ::close(socket_); }

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
      if (count <= 0) break;
      text.append(buffer, static_cast<size_t>(count));
    }
    return text;
  }

  bool connected = false;

 private:
  int socket_;
};

std::string Post(const std::string& path, const std::string& body) {
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

TEST_F(HttpTest, ManyClientsKeepTheirConnections) {
  Start();
  std::vector<std::thread> clients;
  for (int c = 0; c < 8; ++c) {
    clients.emplace_back([this, c] {
      Client client(port_);
      for (int i = 0; i < 20; ++i) {
        const std::string body = std::to_string(c) + "/" + std::to_string(i) + "!";
        client.Send(Post("/echo", body));
        EXPECT_NE(client.ReadUntil("!").find("POST /echo " + body), std::string::npos);
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(server_->counts().accepted, 8);
}

TEST_F(HttpTest, PiecesArriveInOrder) {
  Start();
  Client client(port_);
  client.Send("GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
  const std::string reply = client.ReadUntil("\r\n0\r\n\r\n");
  EXPECT_NE(reply.find("Transfer-Encoding: chunked"), std::string::npos) << reply;
  size_t at = 0;
  for (int i = 0; i < 50; ++i) {
    at = reply.find("\r\n" + std::to_string(i) + ",\r\n", at);
    ASSERT_NE(at, std::string::npos) << i;
  }
  // The connection goes on; requests that were sent ahead are answered in turn.
  client.Send(Post("/echo", "one!") + Post("/echo", "two?"));
  const std::string both = client.ReadUntil("two?");
  EXPECT_LT(both.find("one!"), both.find("two?"));
}

TEST_F(HttpTest, ErrorsTellNothingInside) {
  Start();
  Client client(port_);
  client.Send("GET /throw HTTP/1.1\r\nHost: x\r\n\r\n");
  const std::string reply = client.ReadUntil("internal");
  EXPECT_NE(reply.find(" 500 "), std::string::npos);
  EXPECT_EQ(reply.find("secret"), std::string::npos);
  Client refused(port_);
  refused.Send(Post("/forbidden", "a body that nobody reads"));
  EXPECT_NE(refused.ReadUntil("\r\n\r\nno").find(" 403 "), std::string::npos);
}

TEST_F(HttpTest, WhoeverLeavesIsMissed) {
  Start();
  {
    Client client(port_);
    client.Send("GET /wait HTTP/1.1\r\nHost: x\r\n\r\n");
    ASSERT_TRUE(site_.WaitFor(&TestSite::waiting_, 1));
  }
  EXPECT_TRUE(site_.WaitFor(&TestSite::left_, 1));
}

TEST_F(HttpTest, MoreThanThereIsPlaceForComeAgain) {
  HttpLimits limits;
  limits.max_requests = 1;
  Start(limits);
  Client first(port_), second(port_);
  first.Send("GET /wait HTTP/1.1\r\nHost: x\r\n\r\n");
  ASSERT_TRUE(site_.WaitFor(&TestSite::waiting_, 1));
  second.Send(Post("/echo", "x"));
  const std::string reply = second.ReadUntil("at once");
  EXPECT_NE(reply.find(" 429 "), std::string::npos) << reply;
  EXPECT_NE(reply.find("Retry-After: 1"), std::string::npos);
  site_.Release();
  EXPECT_NE(first.ReadUntil("/wait").find(" 200 "), std::string::npos);
}

TEST_F(HttpTest, DrainingFinishesWhatIsUnderWay) {
  Start();
  Client client(port_);
  client.Send("GET /wait HTTP/1.1\r\nHost: x\r\n\r\n");
  ASSERT_TRUE(site_.WaitFor(&TestSite::waiting_, 1));
  server_->Drain();
  std::this_thread::sleep_for(milliseconds(50));
  site_.Release();
  EXPECT_NE(client.ReadUntil("/wait").find(" 200 "), std::string::npos);
  thread_.join();
  EXPECT_FALSE(Client(port_).connected);
}

TEST_F(HttpTest, StoppingWaitsForNobody) {
  Start();
  Client client(port_);
  client.Send("GET /wait HTTP/1.1\r\nHost: x\r\n\r\n");
  ASSERT_TRUE(site_.WaitFor(&TestSite::waiting_, 1));
  server_->Stop();
  EXPECT_TRUE(site_.WaitFor(&TestSite::left_, 1));
  thread_.join();
}

TEST_F(HttpTest, SlowClientsAreClosed) {
  HttpLimits limits;
  limits.header_seconds = limits.body_seconds = 0.2;
  Start(limits);
  Client head(port_), body(port_);
  head.Send("GET /ec");
  body.Send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc");
  EXPECT_EQ(head.ReadUntil("x"), "");
  EXPECT_EQ(body.ReadUntil("x"), "");
  EXPECT_EQ(server_->counts().timed_out, 2);
}

TEST(HttpRequest, QueriesAndPercents) {
  HttpRequest request;
  request.query = "a=1&name=a%20b%2Bc+d&bad=%zz";
  EXPECT_EQ(request.query_value("name"), "a b+c d");
  EXPECT_EQ(request.query_value("bad"), "");
  EXPECT_EQ(request.query_value("none"), "");
  EXPECT_EQ(ResolvePercents("%4", false), std::nullopt);
  EXPECT_EQ(ResolvePercents("a+%41", false), "a+A");
}

}  // namespace
}  // namespace banyan
