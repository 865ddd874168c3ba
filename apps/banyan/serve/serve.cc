// banyan serve: the engine over HTTP. The work is in the library; here are signals and words.
#include "program/serve.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <fstream>
#include <iostream>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "banyan/error.h"
#include "banyan/version.h"
#include "serve/serve_options.h"
#include "terminal/screen.h"

namespace banyan::app {

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
// Threads that come later inherit the niceness, which costs nothing where nobody else computes.
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
  const std::shared_ptr<Model> model = command.run.LoadModel(command.quiet);
  if (!command.encoder.empty()) {
    RunOptions encoder = command.run;
    encoder.load.model = command.encoder;
    // A device's memory is the decoder's, for KV.
    if (encoder.load.device == "cuda") encoder.load.device = "cpu";
    encoder.load.precision = "f32";
    encoder.load.adapter.clear();
    encoder.load.adapters.clear();
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
