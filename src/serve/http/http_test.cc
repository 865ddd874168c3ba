// The HTTP server without an engine: many clients at once, clients that leave, the memory of
// bodies, and shutdown.
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

#include "serve/http/http.h"

namespace banyan {
namespace {

using std::chrono::milliseconds;

class TestSite : public HttpHandler {
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

// A worker that is not done when its reply is over keeps its request, whatever comes next.
TEST_F(HttpTest, TheNextRequestLeavesTheLastOneAlone) {
  Start();
  Client client(port_);
  client.Send(Post("/linger", "abc"));
  EXPECT_NE(client.ReadUntil("\r\n\r\n").find("200"), std::string::npos);
  client.Send(Post("/other", "more"));
  EXPECT_NE(client.ReadUntil("POST /other more").find("200"), std::string::npos);
  site_.Release();
  ASSERT_TRUE(site_.WaitFor(&TestSite::lingered_, 1));
  EXPECT_EQ(site_.lingered, "/linger abc");
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

// A client must not take half a reply for a whole one.
TEST_F(HttpTest, AReplyThatBreaksOffHasNoEnd) {
  Start();
  for (const char* path : {"/break", "/break-and-tell"}) {
    Client client(port_);
    client.Send("GET " + std::string(path) + " HTTP/1.1\r\nHost: x\r\n\r\n");
    const std::string reply = client.ReadUntil("no such text");  // until the server ends
    EXPECT_NE(reply.find("5\r\nbegun\r\n"), std::string::npos) << reply;
    EXPECT_FALSE(reply.ends_with("0\r\n\r\n")) << reply;
    EXPECT_EQ(reply.find("HTTP/1.1", 8), std::string::npos) << reply;
    EXPECT_EQ(reply.find("secret"), std::string::npos);
  }
  Client old(port_);
  old.Send("GET /break HTTP/1.0\r\nHost: x\r\n\r\n");
  old.ReadUntil("no such text");
  EXPECT_EQ(old.last_error, ECONNRESET);
}

TEST_F(HttpTest, BytesAfterTheBodyDoNotHideThatAClientLeft) {
  Start();
  {
    Client client(port_);
    client.Send(Post("/wait", "abc") + "G");
    ASSERT_TRUE(site_.WaitFor(&TestSite::waiting_, 1));
  }
  EXPECT_TRUE(site_.WaitFor(&TestSite::left_, 1));
  {
    Client client(port_);
    client.Send(Post("/wait", "abc"));
    ASSERT_TRUE(site_.WaitFor(&TestSite::waiting_, 2));
    client.Send("G");  // after the server began to watch
    std::this_thread::sleep_for(milliseconds(50));
  }
  EXPECT_TRUE(site_.WaitFor(&TestSite::left_, 2));
}

// A proxy may take these for a body in pieces: what this server takes for the next request would be
// one that a stranger put into it.
TEST_F(HttpTest, NobodysBodyBecomesARequest) {
  Start(HttpLimits());
  for (const char* line :
       {"HTTP/1.1\r\nTransfer-Encoding: xchunked", "HTTP/1.0\r\nTransfer-Encoding: chunked",
        "HTTP/1.1\r\nTransfer-Encoding: gzip, chunked",
        "HTTP/1.1\r\nTransfer-Encoding: identity"}) {
    Client client(port_);
    client.Send(std::string("POST /echo ") + line +
                "\r\nHost: x\r\n\r\nGET /echo HTTP/1.1\r\nHost: x\r\n\r\n");
    const std::string reply = client.ReadUntil("closed by the server");
    EXPECT_EQ(reply.rfind("HTTP/1.1 501 ", 0), 0u) << reply;
    EXPECT_EQ(reply.find("HTTP/1.1 200"), std::string::npos) << reply;
  }
  // A field on two lines, which others read as one, as two or not at all.
  for (const char* field : {"Transfer-Encoding:\r\n chunked", "Transfer-Encoding: chun\r\n\tked",
                            "Transfer-Encoding: chunked\r\n ", "X: a\r\n b"}) {
    Client client(port_);
    client.Send(std::string("POST /echo HTTP/1.1\r\nHost: x\r\n") + field +
                "\r\n\r\n0\r\n\r\nGET /echo HTTP/1.1\r\nHost: x\r\n\r\n");
    const std::string reply = client.ReadUntil("closed by the server");
    EXPECT_EQ(reply.rfind("HTTP/1.1 400 ", 0), 0u) << reply;
    EXPECT_EQ(reply.find("HTTP/1.1 200"), std::string::npos) << reply;
  }
}

// Byte by byte, as a slow network delivers it.
TEST_F(HttpTest, RequestsArriveInAnyPieces) {
  Start(HttpLimits());
  const std::string request =
      "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
      "3;a=b\r\nabc\r\n4\r\ndef!\r\n0\r\nX-Sum: 7\r\n\r\n";
  for (const size_t piece : {size_t{1}, size_t{7}, request.size()}) {
    Client client(port_);
    for (size_t at = 0; at < request.size(); at += piece) client.Send(request.substr(at, piece));
    EXPECT_NE(client.ReadUntil("!").find("POST /echo abcdef!"), std::string::npos);
    client.Send(request + Post("/echo", "last?"));  // two at once
    EXPECT_NE(client.ReadUntil("last?").find("POST /echo abcdef!"), std::string::npos);
  }
}

TEST_F(HttpTest, HeadsOfChunksAndTrailersHaveAnEnd) {
  Start(HttpLimits());
  for (const char* start : {"3;a=", "3\r\nabc\r\n0\r\nX: ", "3\r\nabc\r\n2;"}) {
    Client client(port_);
    client.Send("POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" +
                std::string(start) + std::string(17'000, 'x'));
    const std::string reply = client.ReadUntil("closed by the server");
    EXPECT_EQ(reply.rfind("HTTP/1.1 431 ", 0), 0u) << reply;
  }
  EXPECT_EQ(server_->counts().bodies_bytes, 0);
}

// However a connection ends: promised, half sent, reset, too slow, refused.
TEST_F(HttpTest, RoomForBodiesComesBack) {
  HttpLimits limits;
  limits.max_body_bytes = 1 << 20;
  limits.max_bodies_bytes = 2 << 20;
  limits.body_seconds = 2.0;  // enough for a good client on a busy machine
  Start(limits);
  const std::string head = "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1048576\r\n\r\n";
  const std::string half(1 << 19, 'x');
  for (int i = 0; i < 8; ++i) {
    Client promise(port_), part(port_), reset(port_);
    promise.Send(head);
    part.Send(head + half);
    reset.Send(head + half);
    reset.ResetAtEnd();
  }
  Client slow(port_);
  slow.Send(head + half);
  slow.ReadUntil("closed by the server");
  const auto wait_for_room = [&] {
    for (int i = 0; server_->counts().bodies_bytes != 0 && i < 6000; ++i) {
      std::this_thread::sleep_for(milliseconds(10));
    }
  };
  wait_for_room();     // a busy machine notices late that a client left
  Client gone(port_);  // while it is served
  gone.Send(Post("/wait", half));
  ASSERT_TRUE(site_.WaitFor(&TestSite::waiting_, 1));
  gone.ResetAtEnd();
  gone.Close();
  ASSERT_TRUE(site_.WaitFor(&TestSite::left_, 1));
  wait_for_room();
  EXPECT_EQ(server_->counts().bodies_bytes, 0);
  for (int i = 0; i < 3; ++i) {
    Client good(port_);
    good.Send(Post("/echo", std::string((1 << 20) - 1, 'y') + "!"));
    EXPECT_NE(good.ReadUntil("!").find(" 200 "), std::string::npos);
  }
}

TEST_F(HttpTest, PromisesTakeNoRoomAndBytesDo) {
  HttpLimits limits;
  limits.max_body_bytes = 1 << 20;
  limits.max_bodies_bytes = 3 << 19;
  Start(limits);
  const std::string head = "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1048576\r\n\r\n";
  std::vector<std::unique_ptr<Client>> promises;
  for (int i = 0; i < 10; ++i) {
    promises.push_back(std::make_unique<Client>(port_));
    promises.back()->Send(head);
  }
  Client good(port_);
  good.Send(Post("/echo", std::string(1 << 20, 'y') + "!"));
  EXPECT_NE(good.ReadUntil("!").find(" 413 "), std::string::npos);
  Client full(port_);
  full.Send(Post("/wait", std::string(1 << 20, 'y')));
  ASSERT_TRUE(site_.WaitFor(&TestSite::waiting_, 1));
  EXPECT_EQ(server_->counts().bodies_bytes, 1 << 20);
  Client more(port_);
  more.Send(head);
  EXPECT_NE(more.ReadUntil("being read").find(" 429 "), std::string::npos);
  site_.Release();
  EXPECT_NE(full.ReadUntil("/wait").find(" 200 "), std::string::npos);
}

}  // namespace
}  // namespace banyan
