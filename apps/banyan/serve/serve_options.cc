#include "serve/serve_options.h"

#include <filesystem>

#include "banyan/error.h"
#include "model/reader_offer.h"
#include "program/bytes.h"
#include "program/models.h"

namespace banyan::app {
namespace {

constexpr const char* kServeHelp = R"(
Serves one model to many clients over HTTP. Shared prefixes are computed once, and an answer does not
depend on other clients. OpenAI's API is at /v1; documents and questions go to /v1/ask, /v1/extract and
/v1/rag; a web page is at /.

Examples
  With the shipped model, for this machine only; the page is at the printed address:
    $ banyan serve
  From any program:
    $ curl http://127.0.0.1:8080/v1/ask -d '{"documents":[{"text":"Anna steers the ferry."}],
      "questions":["Who steers the ferry?"]}'
  For other machines, with keys, behind a proxy that terminates TLS (see docs/serve.md):
    $ banyan serve -m model.gguf --address 0.0.0.0 --keys keys.txt --isolate --state /var/lib/banyan

Ctrl-C or SIGTERM: accepts no more requests, finishes those it has, and ends. A second time: ends at once.)";

void AddWho(CLI::App& command, ServeCommand& options) {
  const char* group = "Who may ask";
  ServeOptions& serve = options.serve;
  command.add_option("--address", serve.address, "IP address to listen on; 0.0.0.0: all of them")
      ->capture_default_str()
      ->group(group);
  command.add_option("-p,--port", serve.port, "Port; 0: any that is free")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--keys", serve.keys_file,
                  "File of API keys, one NAME:KEY per line; without it everyone may ask")
      ->group(group);
  command
      .add_flag("--isolate", serve.isolate,
                "Tenants (keys) share no computed data, so that response times reveal nothing "
                "about others")
      ->group(group);
  command
      .add_option(
          "--allow-origin", serve.allow_origins,
          "Allow pages of this origin, e.g. https://example.org; * for all; may be repeated")
      ->allow_extra_args(false)
      ->group(group);
  command
      .add_option("--allow-host", serve.allow_hosts,
                  "A host name of this server that a proxy passes on; may be repeated")
      ->allow_extra_args(false)
      ->group(group);
}

void AddWhat(CLI::App& command, ServeCommand& options) {
  const char* group = "What is served";
  command
      .add_option("--name", options.serve.model_name,
                  "Name of the model for clients (default: its file name)")
      ->group(group);
  command.add_option("--encoder", options.encoder, "Encoder for /v1/embeddings: as -m")
      ->group(group);
  command.add_option("--index", options.index, "Index for questions to /v1/rag without documents")
      ->group(group);
  command
      .add_option("--state", options.serve.state_directory,
                  "Folder for /v1/files and /v1/batches, which continue after a restart")
      ->group(group);
}

void AddLimits(CLI::App& command, ServeCommand& options) {
  const char* group = "Limits";
  ServeOptions& serve = options.serve;
  const auto add = [&](const char* name, auto& value, const char* help) {
    command.add_option(name, value, help)
        ->check(CLI::PositiveNumber)
        ->capture_default_str()
        ->group(group);
  };
  add("--max-requests", serve.max_requests, "Requests at once; more are told to come again (429)");
  add("--max-waiting", serve.max_waiting, "Answers that wait in the engine, likewise");
  add("--max-connections", serve.max_connections,
      "Connections; beyond, the one that waits longest without a request is closed");
  add("--max-tokens", serve.max_tokens, "Tokens of an answer that a request may ask for");
  add("--max-answers", serve.max_answers, "Answers that one request may ask for");
  command.add_option("--max-body", options.max_body, "Size of a request, e.g. 32M")
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--max-files", options.max_files,
                  "Size of a tenant's files and batches together, e.g. 4G")
      ->capture_default_str()
      ->group(group);
  add("--request-seconds", serve.request_seconds, "Time for one request");
  add("--header-seconds", serve.header_seconds, "Time to send a request's head");
  add("--body-seconds", serve.body_seconds, "Time to send its body");
  add("--idle-seconds", serve.idle_seconds, "Time between requests of a connection");
  add("--write-seconds", serve.write_seconds, "Time for a client to take 64 KiB of a reply");
}

// "models/banyan-reader-34m.gguf" → "banyan-reader-34m"
std::string NameOfModel(const std::string& model) {
  std::filesystem::path path(model);
  if (path.filename().empty()) path = path.parent_path();
  const std::string name = path.filename().string();
  return name.ends_with(".gguf") ? name.substr(0, name.size() - 5) : name;
}

}  // namespace

void ServeCommand::AddTo(CLI::App& command) {
  command.footer(kServeHelp);
  run.model_by_default = true;
  AddWho(command, *this);
  AddWhat(command, *this);
  AddLimits(command, *this);
  run.AddTo(command, "mixed", "Machine");
  command.get_option("--threads")
      ->description(
          "Number of threads; 0: all that the process may use; on loopback, where the browser "
          "needs "
          "time too, one of four or more stays free");
  command.add_option("--log", log, "Write one JSON line per request to this file; - for stderr");
  command.add_flag("--quiet", quiet, "Print only errors to stderr");
}

void ServeCommand::Resolve() {
  serve.task_adapters = ChooseDefaultReaders(run);
  run.Resolve();
  serve.max_body = ParseBytes(max_body, "--max-body");
  serve.max_files = ParseBytes(max_files, "--max-files");
  if (serve.model_name.empty()) serve.model_name = NameOfModel(run.load.model);
  if (!encoder.empty()) serve.encoder_name = NameOfModel(encoder);
  if (!index.empty()) serve.index = DocumentIndex::Open(index);
}

}  // namespace banyan::app
