// What clients leave behind: room for bodies, replies that break off, bytes that hide them.
#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "serve/http_fixture.h"

namespace banyan {
namespace {

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
}

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
