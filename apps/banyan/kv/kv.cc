// banyan kv: documents computed ahead of time (kv add), and the store that keeps their keys and
// values.
#include <fmt/format.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "banyan/error.h"
#include "banyan/kv_store.h"
#include "job/job_options.h"
#include "job/job_session.h"
#include "model/reader_offer.h"
#include "program.h"
#include "program/fresh_file.h"
#include "program/json_library.h"
#include "program/kv.h"
#include "program/message_text.h"
#include "program/options.h"
#include "shell/help.h"
#include "shell/table_options.h"
#include "terminal/terminal.h"

namespace banyan::app {
namespace {

struct KvAddCommand {
  RunOptions run;
  KvStoreOptions store;
  KvAddOptions add;
  std::string prompts = "ask", index, limit;
  TableOptions table;  // of ask's prompts
  InputOptions input;
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
  SetFirstOptions(
      command, {{"What is kept", {"--for", "--index", "--kv-bits", "--limit", "--pin", "--quiet"}},
                {"Prompt", {"--instruction", "--template", "--few-shot", "--chat", "--too-long"}},
                {"Input", {"--field", "--input-format"}},
                {"Model", {"--model", "--adapter", "--threads", "--kv-memory"}},
                {"Help", {"--help", "--help-all"}}});
}

void KvAddCommand::Resolve() {
  add.for_rag = NamedValue<bool>(prompts, "--for", {{"ask", false}, {"rag", true}});
  // The default model, which will read them.
  const ReaderTask reader = add.for_rag ? ReaderTask::kRag : ReaderTask::kAsk;
  ChooseReader(run, reader, /*may_ask=*/false);
  run.Resolve();
  if (!index.empty() && !add.for_rag) {
    throw Error(ErrorKind::kUsage, "--index: its passages are for rag (--for rag)");
  }
  if (add.job.inputs.empty() == index.empty()) {
    throw Error(ErrorKind::kUsage, "kv add: expected documents, or an index (--for rag --index)");
  }
  if (!index.empty()) {
    add.rag.index = DocumentIndex::Open(index);
    SayChanges(*add.rag.index);
  }
  table.ReadFiles([](const std::string&, const std::string&) {});
  add.rag.instruction = add.ask.instruction;
  add.rag.chat = add.ask.chat;
  // What is read by documents is not split.
  if (add.ask.too_long != TooLong::kSplit) add.rag.too_long = add.ask.too_long;
  input.Resolve(
      {"id", "context", "questions", "question", "instruction", "documents", "text", "title"},
      add.job);
  if (index.empty()) CheckJob(add.job);
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

Command AddKvAdd(CLI::App& command) {
  auto options = std::make_shared<KvAddCommand>();
  options->AddTo(command);
  return [options] { return RunKvAdd(*options); };
}

// banyan kv: documents computed ahead of time, and the store that keeps them.

using StoreAccess = KvStoreOptions::Access;

struct KvCommand {
  std::string directory, output, limit;
  std::vector<std::string> ids;
  bool json = false, remove = false, overwrite = false;
};

std::shared_ptr<KvStore> OpenStore(const std::string& directory, StoreAccess access,
                                   const std::string& limit = "") {
  KvStoreOptions options;
  options.directory = directory;
  options.access = access;
  // What looks after a store does not make one.
  if (!std::filesystem::exists(directory + "/index.sqlite")) options.access = StoreAccess::kRead;
  if (!limit.empty()) options.limit = ParseBytes(limit, "--limit");
  return KvStore::Open(options);
}

std::string StoreSize(std::int64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (bytes >= std::int64_t{1} << 30) return fmt::format("{:.2f} GiB", value / (1 << 30));
  return fmt::format("{:.1f} MiB", value / (1 << 20));
}

std::string MinuteOf(std::int64_t seconds) {
  const auto time = static_cast<std::time_t>(seconds);
  std::tm parts{};
  ::localtime_r(&time, &parts);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M", &parts);
  return text;
}

std::string StoreTotals(const KvStoreTotals& totals) {
  return fmt::format("{} segments, {} tokens, {} of {}\n", totals.segments, totals.tokens,
                     StoreSize(totals.bytes), StoreSize(totals.limit));
}

nlohmann::ordered_json SegmentJson(const StoredSegment& s) {
  nlohmann::ordered_json json = {{"id", s.id},
                                 {"label", s.label},
                                 {"model", s.model},
                                 {"type", s.type},
                                 {"exact", s.exact},
                                 {"tokens", s.tokens},
                                 {"first_position", s.first_position},
                                 {"bytes", s.bytes},
                                 {"created", s.created},
                                 {"used", s.used},
                                 {"pinned", s.pinned}};
  if (!s.exact) {
    json["key_loss"] = s.key_loss;
    json["value_loss"] = s.value_loss;
  }
  return json;
}

int ListSegments(const KvCommand& command) {
  const auto store = OpenStore(command.directory, StoreAccess::kRead);
  std::vector<StoredSegment> segments = store->List();
  std::ranges::reverse(segments);
  if (command.json) {
    for (const StoredSegment& segment : segments) {
      Print(SegmentJson(segment).dump(-1, ' ', false,
                                      nlohmann::ordered_json::error_handler_t::replace) +
            "\n");
    }
    return 0;
  }
  Print(fmt::format("{:<16} {:>8} {:>11}  {:<5} {:<16}  {:<12}  {}\n", "id", "tokens", "size",
                    "type", "used", "model", "label"));
  for (const StoredSegment& s : segments) {
    Print(fmt::format("{:<16} {:>8} {:>11}  {:<5} {:<16}  {:<12}  {}{}\n", s.id, s.tokens,
                      StoreSize(s.bytes), s.exact ? s.type : "8 bit", MinuteOf(s.used), s.model,
                      Visible(s.label), s.pinned ? "  (pinned)" : ""));
  }
  Say(StoreTotals(store->totals()));
  return 0;
}

int ShowSegments(const KvCommand& command) {
  const auto store = OpenStore(command.directory, StoreAccess::kRead);
  if (!command.ids.empty()) {
    for (const std::string& id : command.ids) Print(store->Describe(id) + "\n");
    return 0;
  }
  Print(StoreTotals(store->totals()));
  return 0;
}

int VerifyStore(const KvCommand& command) {
  const auto store =
      OpenStore(command.directory, command.remove ? StoreAccess::kWrite : StoreAccess::kRead);
  LoadLine line(::isatty(STDERR_FILENO) == 1);
  const KvStoreCheck check = store->Verify(
      command.remove, [&](std::int64_t done, std::int64_t all) { line.Show(done, all); });
  for (const std::string& damaged : check.damaged) Print(Visible(damaged) + "\n");
  Say(fmt::format("{} segments are whole ({}), {} are not{}\n", check.segments,
                  StoreSize(check.bytes), check.damaged.size(),
                  check.damaged.empty() ? ""
                  : command.remove      ? " and were removed"
                                        : " (see --remove)"));
  return check.damaged.empty() || command.remove ? 0 : 1;
}

int RemoveSegments(const KvCommand& command) {
  const auto store = OpenStore(command.directory, StoreAccess::kWrite);
  for (const std::string& id : command.ids) store->Remove(id);
  return 0;
}

int PinSegments(const KvCommand& command, bool pinned) {
  const auto store = OpenStore(command.directory, StoreAccess::kWrite);
  for (const std::string& id : command.ids) store->Pin(id, pinned);
  return 0;
}

int CollectStore(const KvCommand& command) {
  const auto store = OpenStore(command.directory, StoreAccess::kWrite, command.limit);
  const KvStoreCheck check = store->Collect();
  for (const std::string& damaged : check.damaged) Print(Visible(damaged) + "\n");
  Say(fmt::format("{} removed ({} freed); {}", check.removed, StoreSize(check.freed_bytes),
                  StoreTotals(store->totals())));
  return 0;
}

int ExportSegment(const KvCommand& command) {
  GuardOutput(command.output, "-o", command.overwrite);
  OpenStore(command.directory, StoreAccess::kRead)->Export(command.ids.front(), command.output);
  return 0;
}

constexpr const char* kKvHelp = R"(
Computes the keys and values of documents once and stores them on disk. 'ask' and 'rag' load them with
--kv-store instead of computing them, and give the same answers bit for bit.

Examples
  $ banyan kv add store/ reports/*.txt          # prompts of ask
  $ banyan ask reports/q3.txt "Who signed it?" --kv-store store/
  $ banyan rag index notes/ && banyan kv add store/ --for rag --index .banyan-index
  $ banyan rag "Which code does the yacht have?" --kv-store store/
  $ banyan kv ls store/
  $ banyan kv gc store/ --limit 20G             # the least recently used goes first

Data computed with another model, adapter, precision, instruction or template is not found, and damaged
data is not used: both are recomputed. docs/kv-store.md has the details.
)";

}  // namespace

Command AddKv(CLI::App& app) {
  CLI::App* kv =
      app.add_subcommand("kv", "Store the KV of documents on disk, and manage the store");
  kv->require_subcommand(1);
  kv->footer(kKvHelp);
  auto command = std::make_shared<KvCommand>();
  auto commands = std::make_shared<std::vector<std::pair<CLI::App*, Command>>>();
  const auto add = [&](const char* name, const char* what, Command run) {
    CLI::App* sub = kv->add_subcommand(name, what);
    sub->add_option("store", command->directory, "The store's folder")
        ->type_name("FOLDER")
        ->required();
    commands->emplace_back(sub, std::move(run));
    return sub;
  };
  const auto with_ids = [&](CLI::App* sub, bool required) {
    sub->add_option("id", command->ids, "Segments, by the beginning of their id")
        ->required(required);
  };
  CLI::App* adding = kv->add_subcommand("add", "Compute documents and keep them");
  commands->emplace_back(adding, AddKvAdd(*adding));
  CLI::App* list =
      add("ls", "List segments, the last used first", [command] { return ListSegments(*command); });
  list->alias("list")->add_flag("--json", command->json, "A JSON object a line");
  with_ids(add("show", "Sizes of the store, or all about a segment as JSON",
               [command] { return ShowSegments(*command); }),
           false);
  add("verify", "Read everything and compare checksums; exit code 1: something is damaged",
      [command] { return VerifyStore(*command); })
      ->add_flag("--remove", command->remove, "Damaged segments go");
  with_ids(add("rm", "Remove segments", [command] { return RemoveSegments(*command); }), true);
  with_ids(add("pin", "Segments that are never evicted",
               [command] { return PinSegments(*command, true); }),
           true);
  with_ids(add("unpin", "Segments that may be evicted again",
               [command] { return PinSegments(*command, false); }),
           true);
  add("gc", "Remove what nobody can use, and what is beyond the limit",
      [command] { return CollectStore(*command); })
      ->add_option("--limit", command->limit, "Bytes of the store from now on, such as 20G")
      ->type_name("SIZE");
  CLI::App* exporting = add("export", "Write a segment's keys and values as safetensors",
                            [command] { return ExportSegment(*command); });
  with_ids(exporting, true);
  exporting->add_option("-o,--output", command->output, "The file to write")
      ->type_name("FILE")
      ->required();
  exporting->add_flag("--overwrite", command->overwrite, "Replace the file if it is there");
  return [commands] {
    for (const auto& [sub, run] : *commands) {
      if (sub->parsed()) return run();
    }
    return 2;
  };
}

}  // namespace banyan::app
