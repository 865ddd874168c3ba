// banyan kv add: computes documents ahead of time and keeps their keys and values.
#include "kv/kv_add.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "banyan/error.h"
#include "job/input_options.h"
#include "job/run_options.h"
#include "model/reader_offer.h"
#include "program/bytes.h"
#include "program/kv_add.h"
#include "program/option_names.h"
#include "program/option_table.h"
#include "shell/table_options.h"
#include "terminal/screen.h"
#include "terminal/stop_signal.h"

namespace banyan::app {
namespace {

struct KvAddCommand {
  RunOptions run;
  KvStoreOptions store;
  KvAddOptions add;
  std::string prompts = "ask", index, limit;
  TableOptions table;  // of ask's prompts
  InputWords input;
  bool quiet = false;

  void AddTo(CLI::App& command);
  void Resolve();
};

void KvAddCommand::AddTo(CLI::App& command) {
  command.add_option("store", store.directory, "The store's folder; made if need be")
      ->type_name("FOLDER")
      ->required();
  command.add_option("input", add.job.inputs,
                     "Documents, as ask (or with --for rag: rag) takes them: files, folders, "
                     "patterns, JSONL, CSV");
  command.add_option("--for", prompts, "Whose prompts begin with the documents")
      ->type_name("ask|rag")
      ->capture_default_str();
  command.add_option("--index", index, "--for rag: all passages of this index")
      ->type_name("FOLDER");
  command
      .add_option("--kv-bits", store.bits,
                  "8: about half the size, for approximate answers; the loss is said")
      ->check(CLI::IsMember({8}))
      ->type_name("8");
  command
      .add_option("--limit", limit,
                  "Bytes of the store from now on, such as 20G (a new one: half of what is "
                  "free on its disk)")
      ->type_name("SIZE");
  command.add_flag("--pin", add.pin, "What is added is never evicted");
  command.add_flag("--quiet", quiet, "No progress and no receipt on stderr");
  table.AddTo(command, Bind(add.ask), {"Prompt"}, "Prompt: as the questions will have it");
  input.AddTo(command, add.job, "context=body");
  run.model_by_default = true;
  run.AddTo(command, "mixed");
}

void KvAddCommand::Resolve() {
  add.for_rag = NamedValue<bool>(prompts, "--for", {{"ask", false}, {"rag", true}});
  // The model that will read them, where nobody names one.
  const ReaderTask reader = add.for_rag ? ReaderTask::kRag : ReaderTask::kAsk;
  ChooseDefaultReader(run, reader, /*may_ask=*/false);
  run.Resolve();
  if (!index.empty() && !add.for_rag) {
    throw Error(ErrorKind::kUsage, "--index: its passages are for rag (--for rag)");
  }
  if (add.job.inputs.empty() == index.empty()) {
    throw Error(ErrorKind::kUsage, "kv add: expected documents, or an index (--for rag --index)");
  }
  if (!index.empty()) add.rag.index = DocumentIndex::Open(index);
  table.ReadFiles([](const std::string&, const std::string&) {});
  add.rag.instruction = add.ask.instruction;
  add.rag.chat = add.ask.chat;
  add.rag.too_long = add.ask.too_long;
  input.Resolve(
      {"id", "context", "questions", "question", "instruction", "documents", "text", "title"},
      add.job);
  if (!limit.empty()) store.limit = ParseBytes(limit, "--limit");
  store.access = KvStoreOptions::Access::kWrite;
}

void ShowKvAdd(const KvAddProgress& progress, bool terminal) {
  if (!terminal && !progress.last) return;
  constexpr int kWidth = 20;
  std::string text;
  if (progress.fraction >= 0.0 && terminal) {
    const int filled = static_cast<int>(progress.fraction * kWidth);
    text = fmt::format("[{:#>{}}{:.>{}}] {:3.0f} %  ", "", filled, "", kWidth - filled,
                       100.0 * progress.fraction);
  }
  text += fmt::format("{} documents  {} tokens kept  {:.0f} tokens/s", progress.documents,
                      progress.tokens,
                      static_cast<double>(progress.tokens) / std::max(progress.seconds, 1e-3));
  std::fprintf(stderr, terminal ? "\r%s\x1b[K%s" : "%s%s", text.c_str(), progress.last ? "\n" : "");
  std::fflush(stderr);
}

int RunKvAdd(KvAddCommand& command) {
  command.Resolve();
  command.run.engine.kv_store = KvStore::Open(command.store);
  const std::shared_ptr<Model> model = command.run.LoadModel(command.quiet);
  command.add.job.notice = [](const std::string& text) { SayLine(text); };
  command.add.job.stop = [] { return StopSignal() != 0; };
  StopOnSignals();
  const bool terminal = ::isatty(STDERR_FILENO) == 1;
  if (!command.quiet) {
    command.add.progress = [terminal](const KvAddProgress& progress) {
      ShowKvAdd(progress, terminal);
    };
  }
  const KvAddReceipt receipt = AddToStore(model, command.run.engine, command.add);
  if (!command.quiet) {
    Say(fmt::format(
        "added {} documents ({} were there, {} failed): {} tokens in {} segments, "
        "{:.1f} MiB, {:.1f} s\n",
        receipt.documents, receipt.there, receipt.failed, receipt.tokens, receipt.segments,
        static_cast<double>(receipt.bytes) / (1 << 20), receipt.seconds));
    if (command.store.bits == 8) {
      Say(
          fmt::format("8 bits lost {:.3f} % of the keys and {:.3f} % of the values (root mean "
                      "square)\n",
                      100.0 * receipt.key_loss, 100.0 * receipt.value_loss));
    }
  }
  if (receipt.stopped) {
    SayLine("the same command goes on where this one was");
    return 128 + StopSignal();
  }
  return receipt.failed > 0 ? 1 : 0;
}

}  // namespace

Command AddKvAdd(CLI::App& command) {
  auto options = std::make_shared<KvAddCommand>();
  options->AddTo(command);
  return [options] { return RunKvAdd(*options); };
}

}  // namespace banyan::app
