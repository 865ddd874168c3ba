// The HTTP server without an engine: many clients at once, those that leave, and how it ends.
#include "serve/http.h"

#include <gtest/gtest.h>

#include <thread>

#include "serve/http_fixture.h"

namespace banyan {
namespace {

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

// Whoever reads it must not take half a reply for a whole one.
// However a connection ends: promised, half sent, reset, too slow, refused.
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
