// banyan serve: the engine over HTTP. Options, help, signals and messages; the work is in the
// library.
#include <sys/resource.h>
#include <unistd.h>

#include <fmt/format.h>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "banyan/error.h"
#include "banyan/version.h"
#include "job/job_options.h"
#include "job/job_session.h"
#include "model/reader_offer.h"
#include "program.h"
#include "program/message_text.h"
#include "program/models.h"
#include "program/serve.h"
#include "shell/help.h"
#include "terminal/terminal.h"

namespace banyan::app {
namespace {

struct ServeCommand {
  RunOptions run;
  ServeOptions serve;
  std::string encoder, index, max_body = "32M", max_files = "4G", log;
  bool quiet = false;

  void AddTo(CLI::App& command);
  // Checks and converts what is text on the command line, opens the index. Throws kUsage.
  void Resolve();
};

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
      .add_option("--admin", serve.admin,
                  "With --isolate: name of the key that may read /metrics, which count all tenants")
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
  SetFirstOptions(
      command,
      {{"Who may ask", {"--address", "--port", "--keys", "--isolate", "--allow-origin"}},
       {"What is served", {"--model", "--name", "--encoder", "--index", "--adapter", "--state"}},
       {"Limits", {"--max-requests", "--max-tokens", "--request-seconds"}},
       {"Machine", {"--threads", "--kv-memory", "--log", "--quiet"}},
       {"Help", {"--help", "--help-all"}}});
}

void ServeCommand::Resolve() {
  serve.task_adapters = ChooseReaders(run);
  run.Resolve();
  serve.max_body = ParseBytes(max_body, "--max-body");
  serve.max_files = ParseBytes(max_files, "--max-files");
  if (serve.model_name.empty()) serve.model_name = NameOfModel(run.load.model);
  if (!encoder.empty()) serve.encoder_name = NameOfModel(encoder);
  if (index.empty()) return;
  serve.index = DocumentIndex::Open(index);
  if (!quiet) SayChanges(*serve.index);
}

#ifdef BANYAN_WITH_SERVE
namespace {

// SIGINT and SIGTERM, taken by a thread of its own: the first drains, the second stops. What does
// not stop then, the process ends under: nothing that was promised is lost by it.
class StopSignals {
 public:
  explicit StopSignals(bool quiet) : quiet_(quiet) {
    std::signal(SIGPIPE, SIG_IGN);
    std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is a disk that is full
    sigemptyset(&signals_);
    for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) sigaddset(&signals_, signal);
    pthread_sigmask(SIG_BLOCK, &signals_, nullptr);  // threads that come later inherit it
    thread_ = std::thread([this] { Wait(); });
  }
  ~StopSignals() {
    SetOver();
    pthread_kill(thread_.native_handle(), SIGUSR1);
    thread_.join();
  }

  void SetServer(Server* server) {
    const std::lock_guard lock(mutex_);
    server_ = server;
  }
  // The server has ended by itself: nothing is left to stop.
  void SetOver() {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }

 private:
  void Wait() {
    int count = 0;
    for (;;) {
      const timespec patience{count >= 2 ? 2 : 3600, 0};
      const int signal = sigtimedwait(&signals_, nullptr, &patience);
      if (signal < 0 && (errno == EINTR || count < 2)) continue;
      const std::lock_guard lock(mutex_);
      if (over_) return;
      if (signal == SIGUSR1) continue;
      ++count;
      // Still loading, in a hurry, or two seconds after the second.
      if (server_ == nullptr || count > 2) ::_exit(128 + (signal < 0 ? SIGTERM : signal));
      if (count == 2) {
        server_->Stop();
        continue;
      }
      if (!quiet_) Say("\nbanyan: finishing what is under way (a second time ends at once)\n");
      server_->Drain();
    }
  }

  const bool quiet_;
  sigset_t signals_;
  std::mutex mutex_;  // guards what follows
  bool over_ = false;
  Server* server_ = nullptr;
  std::thread thread_;
};

// Every connection is a descriptor.
void AllowConnections(int connections) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const auto wanted = static_cast<rlim_t>(connections) + 512;
  if (limit.rlim_cur >= wanted) return;
  limit.rlim_cur = std::min(wanted, limit.rlim_max);
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

// An engine on every core at the browser's own priority leaves the page no time to show anything.
// Threads that come later inherit the niceness, which costs nothing on an idle machine.
void LeaveRoom(const std::string& address, LoadOptions& load) {
  if (load.threads != 0 || load.device != "cpu" || !Server::IsLoopback(address)) return;
  constexpr int kNicer = 5;
  load.threads = Server::ThreadsBesideOthers();
  ::setpriority(PRIO_PROCESS, 0, std::max(kNicer, ::getpriority(PRIO_PROCESS, 0)));
}

int RunServe(ServeCommand& command) {
  command.Resolve();
  ServeOptions& serve = command.serve;
  serve.version = BANYAN_VERSION;
  StopSignals signals(command.quiet);
  AllowConnections(serve.max_connections);
  std::ofstream log_file;
  if (!command.log.empty() && command.log != "-") {
    log_file.open(command.log, std::ios::app);
    if (!log_file) {
      throw Error(ErrorKind::kIo, fmt::format("--log: {}: cannot write the file", command.log));
    }
  }
  if (!command.log.empty()) {
    std::ostream& log = command.log == "-" ? std::cerr : log_file;
    serve.log = [&log](const std::string& line) { log << line + "\n" << std::flush; };
  }
  Server::CheckOptions(serve);
  LeaveRoom(serve.address, command.run.load);
  RunOptions encoder = command.run;
  encoder.load.model = command.encoder;
  // A device's memory is the decoder's, for KV.
  if (encoder.load.device.starts_with("cuda")) encoder.load.device = "cpu";
  encoder.load.precision = "f32";
  encoder.load.adapter.clear();
  encoder.load.adapters.clear();
  encoder.model_by_default = false;
  encoder.Resolve();  // a name that there is not is said before anything is loaded
  const std::shared_ptr<Model> model = command.run.LoadModel(command.quiet);
  if (!command.encoder.empty()) {
    serve.encoder = encoder.LoadEncoder(command.quiet);
    if (!serve.encoder->text() || !serve.encoder->embeds()) {
      throw Error(ErrorKind::kUnsupported, "--encoder: the model has no vectors for texts");
    }
  }
  Server server(model, command.run.engine, serve);
  if (!command.quiet) {
    if (!Server::IsLoopback(serve.address) && !server.has_keys()) {
      SayLine("anyone who reaches this machine may ask: --keys FILE asks for keys");
    }
    Say(fmt::format("Serving {} on {}. Open {} in a browser. Ctrl-C ends.\n", serve.model_name,
                    model->backend_name(), server.url()));
  }
  signals.SetServer(&server);
  server.Run();
  signals.SetOver();
  return 0;
}

}  // namespace

Command AddServe(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("serve", "Answer many people at once over HTTP: OpenAI's API, and a page");
  auto options = std::make_shared<ServeCommand>();
  options->AddTo(*command);
  return [options] { return RunServe(*options); };
}

#else

Command AddServe(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("serve", "Answer many people at once over HTTP (not in this build)");
  auto options = std::make_shared<ServeCommand>();
  options->AddTo(*command);
  return []() -> int {
    throw Error(ErrorKind::kUnsupported, "serve: this program was built without Boost's headers");
  };
}

#endif

}  // namespace banyan::app
