// The whole way of a request's bytes: a connection on loopback, heads and bodies, who may ask, and
// the reply. Whatever comes, the server answers the next client and keeps no room for the last.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "base/error.h"
#include "serve/access.h"
#include "serve/batches/multipart.h"
#include "serve/http/http.h"
#include "serve/request/parameters.h"

namespace {

using namespace banyan;  // NOLINT(google-build-using-namespace)

banyan::ServeOptions WithKeys() {
  const auto path =
      std::filesystem::temp_directory_path() / ("banyan-fuzz-keys-" + std::to_string(::getpid()));
  std::ofstream(path) << "anna:first-key-0123456789\nsecond-key-0123456789\n";
  ServeOptions options;
  options.keys_file = path.string();
  options.allow_origins = {"https://good.example"};
  return options;
}

class FuzzedSite : public HttpHandler {
 public:
  FuzzedSite() : access_(WithKeys()) {}
  std::optional<HttpResponse> Admit(HttpRequest& request, std::uint64_t) override {
    const std::optional<ApiError> refused = access_.Check(request, request.path != "/a");
    return refused ? std::optional(refused->ToResponse()) : std::nullopt;
  }
  void Serve(HttpRequest request, HttpReply& reply) override {
    HttpResponse response;
    response.body = request.query_value("x") + std::string(request.header("content-type"));
    if (request.method == "PUT") {
      reply.Begin(response);
      reply.Write(request.body);
      return reply.End();
    }
    try {
      if (request.path == "/form") (void)ReadForm(request.header("content-type"), request.body);
      if (request.path == "/v1/ask") (void)ReadBody(request.body);
    } catch (const ApiError& error) {
      response = error.ToResponse();
    }
    reply.Send(std::move(response));
  }
  HttpResponse Refusal(int status, const std::string& message) override {
    return ApiError(status, message).ToResponse();
  }
  void Served(const HttpRequest&, int, std::uint64_t, double, bool) override {}

 private:
  Access access_;
};

HttpServer& RunningServer() {
  static HttpServer* server = [] {
    HttpLimits limits;
    limits.max_body_bytes = 1 << 16;
    limits.max_bodies_bytes = 1 << 17;
    auto* made = new HttpServer("127.0.0.1", 0, limits, *new FuzzedSite);
    std::thread([made] { made->Run(); }).detach();
    return made;
  }();
  return *server;
}

// Sends everything, ends its side and reads to the end.
std::string Ask(int port, const char* bytes, size_t size) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  BANYAN_CHECK(::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
  std::string reply;
  while (size > 0) {
    const ssize_t sent = ::send(fd, bytes, size, MSG_NOSIGNAL);
    if (sent <= 0) break;
    bytes += sent;
    size -= static_cast<size_t>(sent);
  }
  ::shutdown(fd, SHUT_WR);
  char buffer[4096];
  for (ssize_t got; (got = ::recv(fd, buffer, sizeof(buffer), 0)) > 0;) {
    reply.append(buffer, static_cast<size_t>(got));
  }
  ::close(fd);
  return reply;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  HttpServer& server = RunningServer();
  const std::string reply = Ask(server.port(), reinterpret_cast<const char*>(data), size);
  BANYAN_CHECK(reply.empty() || reply.starts_with("HTTP/1.1 "));
  static int count = 0;
  if (++count % 64 != 0) return 0;
  for (int i = 0; server.counts().bodies_bytes != 0 && i < 1000; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  BANYAN_CHECK(server.counts().bodies_bytes == 0);
  return 0;
}
