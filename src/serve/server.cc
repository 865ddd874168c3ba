#include "banyan/serve.h"

#include <fmt/format.h>

#include <atomic>
#include <utility>

#include "serve/http.h"
#include "serve/site.h"

namespace banyan {
namespace {

HttpLimits LimitsOf(const ServeOptions& options) {
  HttpLimits limits;
  limits.max_connections = options.max_connections;
  limits.max_requests = options.max_requests;
  limits.max_body_bytes = static_cast<size_t>(options.max_body);
  limits.max_bodies_bytes = std::max(limits.max_bodies_bytes, 2 * limits.max_body_bytes);
  limits.header_seconds = options.header_seconds;
  limits.body_seconds = options.body_seconds;
  limits.idle_seconds = options.idle_seconds;
  limits.write_seconds = options.write_seconds;
  return limits;
}

}  // namespace

class Server::Impl {
 public:
  Impl(std::shared_ptr<Model> model, const EngineOptions& engine_options,
       const ServeOptions& options)
      : context_(std::move(model), engine_options, options),
        site_(context_),
        http_(options.address, options.port, LimitsOf(options), site_) {
    site_.SetCounts(&http_.counts());
    const bool six = options.address.find(':') != std::string::npos;
    url_ = fmt::format("http://{}{}{}:{}/", six ? "[" : "", options.address, six ? "]" : "",
                       http_.port());
  }

  void Run() {
    context_.engine.Start();
    if (site_.batches()) site_.batches()->Start();
    http_.Run();
    if (site_.batches()) site_.batches()->Stop();
    context_.engine.Shutdown(Unfinished::kCancel);
  }

  void Drain() {
    site_.SetDraining();
    if (site_.batches()) site_.batches()->StopSoon();
    http_.Drain();
  }

  void Stop() {
    Drain();
    http_.Stop();
  }

  const std::string& url() const { return url_; }
  bool has_keys() const { return site_.has_keys(); }

 private:
  ServeContext context_;
  Site site_;
  HttpServer http_;
  std::string url_;
};

Server::Server(std::shared_ptr<Model> model, const EngineOptions& engine_options,
               const ServeOptions& options)
    : impl_(std::make_unique<Impl>(std::move(model), engine_options, options)) {}
Server::~Server() = default;

void Server::CheckAddress(const ServeOptions& options) {
  HttpServer::CheckAddress(options.address, options.port);
}

std::string Server::url() const { return impl_->url(); }
bool Server::has_keys() const { return impl_->has_keys(); }
void Server::Run() { impl_->Run(); }
void Server::Drain() { impl_->Drain(); }
void Server::Stop() { impl_->Stop(); }

}  // namespace banyan
