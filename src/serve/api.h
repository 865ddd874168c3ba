// The API: which path does what.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/access.h"
#include "serve/batches/batches.h"
#include "serve/batches/file_store.h"
#include "serve/http/http.h"
#include "serve/page.h"
#include "serve/request/context.h"

namespace banyan {

class Api : public HttpHandler {
 public:
  explicit Api(ServeContext& context);

  std::optional<HttpResponse> Admit(HttpRequest& request, std::uint64_t body_bytes) override;
  void Serve(HttpRequest request, HttpReply& reply) override;
  HttpResponse Refusal(int status, const std::string& message) override;
  void Served(const HttpRequest& request, int status, std::uint64_t bytes, double seconds,
              bool gone) override;

  // The server's own counts, for /metrics; set before it runs.
  void SetCounts(const HttpCounts* counts) { counts_ = counts; }
  void SetDraining() { draining_ = true; }
  bool has_keys() const { return access_.has_keys(); }
  Batches* batches() { return batches_.get(); }

 private:
  // `id`: what stands for the star of the path.
  using Action =
      std::function<void(const HttpRequest& request, const std::string& id, HttpReply& reply)>;
  struct Route {
    std::string method;
    std::string path;  // a star stands for one part
    Action action;
    bool open = false;  // no key is needed
  };
  void Add(const char* method, const char* path, Action action, bool open = false);
  void AddOwn();
  void AddOpenAi();
  void AddFiles();
  // Null: there is none; `path_known`: but for other methods.
  const Route* Find(const HttpRequest& request, std::string& id, bool& path_known) const;
  std::string AllowedMethods(const std::string& path) const;

  void ServeWithin(const HttpRequest& request, HttpReply& reply);  // its budget
  void Health(HttpReply& reply) const;
  void Models(const std::string& id, HttpReply& reply) const;
  void Documents(const HttpRequest& request, HttpReply& reply);

  ServeContext& context_;
  const Access access_;
  const Page page_;
  const HttpCounts* counts_ = nullptr;
  std::atomic<bool> draining_{false};
  std::unique_ptr<FileStore> files_;  // null: without a folder for them
  std::unique_ptr<Batches> batches_;
  std::vector<Route> routes_;
};

}  // namespace banyan
