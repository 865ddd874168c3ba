// The engine for many people at once, over HTTP: what `banyan serve` runs (docs/serve.md).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "banyan/encoder.h"
#include "banyan/engine.h"
#include "banyan/model.h"
#include "banyan/retrieval.h"

namespace banyan {

struct ServeOptions {
  std::string address = "127.0.0.1";
  int port = 8080;  // 0: any that is free
  std::string model_name, version;
  // Which of the model's adapters serves a task ("ask", "extract", "rag") for requests that name
  // none.
  std::map<std::string, std::string> task_adapters;
  // For /v1/embeddings and for questions without documents; may be null.
  std::shared_ptr<Encoder> encoder;
  std::string encoder_name;
  std::shared_ptr<const DocumentIndex> index;

  // One API key a line, NAME:KEY or KEY; empty: everyone may ask.
  std::string keys_file;
  bool isolate = false;  // tenants (keys) share nothing that is computed
  // With isolate: the name of the key that may read /metrics, which tell of all tenants.
  std::string admin;
  // Other origins whose pages may ask, "https://example.org" or "*"; and names of this server, when
  // it listens on loopback and a proxy calls it otherwise.
  std::vector<std::string> allow_origins, allow_hosts;
  std::string state_directory;  // of files and batches; empty: there are none

  int max_connections = 1024;
  int max_requests = 128;              // at once; more are told to come again
  int max_waiting = 4096;              // answers that wait in the engine
  std::int64_t max_body = 32ll << 20;  // bytes of a request
  std::int64_t max_files = 4ll << 30;  // bytes of a tenant's files and batches
  int max_tokens = 4096;               // of one answer
  int max_answers = 4096;              // of one request
  double request_seconds = 600.0;      // for one request; what is not written then is cancelled
  double header_seconds = 10.0, body_seconds = 60.0, idle_seconds = 75.0, write_seconds = 30.0;

  // Hears one JSON object for every request, without texts and keys; may be empty.
  std::function<void(const std::string&)> log;
};

// Threads: Drain and Stop may be called from any, at any moment after the constructor.
class Server {
 public:
  // Listens; serves only after Run. Throws kUsage, kIo (the address is taken), kUnsupported
  // (a model without text side).
  Server(std::shared_ptr<Model> model, const EngineOptions& engine_options,
         const ServeOptions& options);
  ~Server();
  // Throws as the constructor would for the address, the keys and the origins: for who wants to
  // know before a model is loaded.
  static void CheckOptions(const ServeOptions& options);
  // True when only this machine reaches the address: its browser runs beside the engine.
  static bool IsLoopback(const std::string& address);
  // Threads of an engine that leaves room for others on the machine: one less than the processors
  // where there are four or more.
  static int ThreadsBesideOthers();

  std::string url() const;  // "http://127.0.0.1:8080/"
  bool has_keys() const;
  // Until Drain (and the last reply) or Stop.
  void Run();
  void Drain();  // takes no more requests and finishes those it has
  void Stop();   // cancels them; batches go on when the server is started again

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace banyan
