// The server as a whole (program/serve.h): engine, API, HTTP and the limits between them.
#include "program/serve.h"

#include <fmt/format.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <utility>

#include "base/machine_limits.h"
#include "serve/access.h"
#include "serve/api.h"
#include "serve/http/http.h"

namespace banyan {
namespace {

// One request can become six times its size: its bytes, three copies of its texts while JSON is
// read, and 64 MiB of values where 32 MiB are allowed.
constexpr std::int64_t kTimesBody = 6;

// All requests together take three eighths of the memory that there is (a container's limit counts)
// at most, KV another quarter. Where that is little, one request may have less than was asked for.
ServeOptions Fitting(ServeOptions options, std::int64_t memory) {
  options.max_body =
      std::max<std::int64_t>(1, std::min(options.max_body, memory / 8 * 3 / kTimesBody));
  return options;
}

HttpLimits LimitsOf(const ServeOptions& options) {
  HttpLimits limits;
  limits.max_connections = options.max_connections;
  limits.max_requests = options.max_requests;
  limits.max_body_bytes = static_cast<size_t>(options.max_body);
  const auto room = static_cast<size_t>(UsableMemory() / 8 * 3);
  limits.max_bodies_bytes =
      std::max(std::min(limits.max_bodies_bytes, room), kTimesBody * limits.max_body_bytes);
  limits.header_seconds = options.header_seconds;
  limits.body_seconds = options.body_seconds;
  limits.idle_seconds = options.idle_seconds;
  limits.write_seconds = options.write_seconds;
  return limits;
}

// What is large goes back to the system as soon as it is free. Left to itself, the allocator learns
// from the first large body to keep such blocks, and pieces of later ones keep them from going.
void KeepLargeBlocksApart() {
#ifdef __GLIBC__
  constexpr int kLarge = 1 << 20;
  ::mallopt(M_MMAP_THRESHOLD, kLarge);
#endif
}

}  // namespace

class Server::Impl {
 public:
  Impl(std::shared_ptr<Model> model, const EngineOptions& engine_options,
       const ServeOptions& options)
      : context_(std::move(model), engine_options, Fitting(options, UsableMemory())),
        api_(context_),
        http_(options.address, options.port, LimitsOf(context_.options), api_) {
    api_.SetCounts(&http_.counts());
    context_.room = {[this](size_t bytes) { return http_.TakeRoom(bytes); },
                     [this](size_t bytes) { http_.GiveBackRoom(bytes); },
                     LimitsOf(context_.options).max_bodies_bytes};
    const bool six = options.address.find(':') != std::string::npos;
    url_ = fmt::format("http://{}{}{}:{}/", six ? "[" : "", options.address, six ? "]" : "",
                       http_.port());
  }

  void Run() {
    context_.engine.Start();
    if (api_.batches()) api_.batches()->Start();
    http_.Run();
    if (api_.batches()) api_.batches()->Stop();
    context_.engine.Shutdown(Unfinished::kCancel);
  }

  void Drain() {
    api_.SetDraining();
    if (api_.batches()) api_.batches()->StopSoon();
    http_.Drain();
  }

  void Stop() {
    Drain();
    http_.Stop();
  }

  const std::string& url() const { return url_; }
  bool has_keys() const { return api_.has_keys(); }

 private:
  ServeContext context_;
  Api api_;
  HttpServer http_;
  std::string url_;
};

Server::Server(std::shared_ptr<Model> model, const EngineOptions& engine_options,
               const ServeOptions& options)
    : impl_((KeepLargeBlocksApart(),
             std::make_unique<Impl>(std::move(model), engine_options, options))) {}
Server::~Server() = default;

void Server::CheckOptions(const ServeOptions& options) {
  HttpServer::CheckAddress(options.address, options.port);
  // Keys out of a pipe can be read only once.
  std::error_code none;
  const std::filesystem::file_status keys = std::filesystem::status(options.keys_file, none);
  if (!std::filesystem::exists(keys) || std::filesystem::is_regular_file(keys)) Access{options};
}

bool Server::IsLoopback(const std::string& address) { return banyan::IsLoopback(address); }

int Server::ThreadsBesideOthers() {
  constexpr int kMany = 4;
  const int processors = UsableProcessors();
  return processors >= kMany ? processors - 1 : processors;
}

std::string Server::url() const { return impl_->url(); }
bool Server::has_keys() const { return impl_->has_keys(); }
void Server::Run() { impl_->Run(); }
void Server::Drain() { impl_->Drain(); }
void Server::Stop() { impl_->Stop(); }

}  // namespace banyan
