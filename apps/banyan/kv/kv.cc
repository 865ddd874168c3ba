// banyan kv: documents computed ahead of time, and the store that keeps them.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "banyan/error.h"
#include "banyan/kv_store.h"
#include "commands.h"
#include "job/run_options.h"
#include "kv/kv_add.h"
#include "program/bytes.h"
#include "program/fresh_file.h"
#include "program/visible.h"
#include "terminal/progress_line.h"
#include "terminal/screen.h"

namespace banyan::app {
namespace {

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
