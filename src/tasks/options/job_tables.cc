// Options of every job and of every command that runs a model: the job, loading, the engine and the
// KV store.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "banyan/error.h"
#include "base/files.h"
#include "load/device_list.h"
#include "program/kv.h"
#include "program/message_text.h"
#include "tasks/options/option_rows.h"

namespace banyan {

namespace {

using JobRow = Row<JobOptions>;

JobRow Delimiter() {
  return JobRow::Custom(
             "delimiter", OptionKind::kText,
             [](JobOptions& options, const OptionData& data, const std::string& called) {
               const auto& text = std::get<std::string>(data);
               if (!text.empty()) options.delimiter = ParseDelimiter(text, called);
             },
             [](const JobOptions& options) -> std::optional<OptionData> {
               return options.delimiter == 0 ? "" : std::string(1, options.delimiter);
             },
             "Delimiter of CSV: , ; | or tab (default: detected in the header; output tables use "
             "the "
             "input's)")
      .Interfaces(kCommandLine | kPython);
}

// "2/8".
JobRow ShardRow() {
  return JobRow::Custom(
             "shard", OptionKind::kText,
             [](JobOptions& options, const OptionData& data, const std::string& called) {
               const auto& text = std::get<std::string>(data);
               int read = 0;
               const bool parsed = std::sscanf(text.c_str(), "%d/%d%n", &options.shard,
                                               &options.shards, &read) == 2 &&
                                   static_cast<size_t>(read) == text.size();
               if (!parsed) options.shard = 0;
               CheckShard(options, text, called);
             },
             [](const JobOptions& options) -> std::optional<OptionData> {
               return std::to_string(options.shard) + "/" + std::to_string(options.shards);
             },
             "i/n: every n-th document, starting with the i-th")
      .HideDefault()
      .WholeInIdentity()
      .Interfaces(kCommandLine | kPython);
}

void AddInput(OptionTable<JobOptions>& rows) {
  constexpr unsigned kJobInterfaces = kCommandLine | kPython;
  AddGroup<JobOptions>(
      rows, "Input",
      {JobRow::Word("input_format", &JobOptions::input_format,
                    {"jsonl", "json", "csv", "tsv", "text", "html", "pdf"},
                    "Format of the files (default: by name, otherwise by content)")
           .Interfaces(kJobInterfaces),
       JobRow::Text("id_column", &JobOptions::id_column,
                    "The field that names the rows (default: id; in a table without it, a column "
                    "of different values called id, number or key); line: their lines")
           .Called("--id")
           .Placeholder("FIELD")
           .Interfaces(kJobInterfaces),
       Delimiter(),
       JobRow::Text("encoding", &JobOptions::encoding,
                    "Encoding of the input, such as latin-1, windows-1252 or UTF-16 (default: "
                    "UTF-8)")
           .Placeholder("NAME")
           .Interfaces(kJobInterfaces)
           .WholeInIdentity()
           .Identity(InIdentity::kUnlessDefault),
       JobRow::Flag("strict", &JobOptions::strict,
                    "Stop at a file that cannot be read or a row that cannot be answered (default: "
                    "it becomes an error row, and the job continues)")
           .Interfaces(kJobInterfaces)});
  AddGroup<JobOptions>(
      rows, "Records",
      {JobRow::Whole("limit", &JobOptions::limit, "Only the first N records of the input")
           .From(0)
           .Unit("records")
           .Interfaces(kJobInterfaces),
       ShardRow(),
       JobRow::Whole("max_errors", &JobOptions::max_errors,
                     "Stop after more error rows than this (default: never)")
           .From(0)
           .Unit("rows")
           .Interfaces(kJobInterfaces)});
}

}  // namespace

const OptionTable<JobOptions>& JobTable() {
  static const OptionTable<JobOptions> table = [] {
    constexpr unsigned kJobInterfaces = kCommandLine | kPython;
    OptionTable<JobOptions> rows;
    AddInput(rows);
    AddGroup<JobOptions>(
        rows, "Output",
        {JobRow::Text("output", &JobOptions::output,
                      "The output file: .jsonl, .csv, .tsv or .md (a Markdown table), with .gz or "
                      ".zst to compress it; - for standard output")
             .Called("-o,--output")
             .Placeholder("FILE")
             .ShowDefault()
             .Interfaces(kJobInterfaces),
         JobRow::Word("output_format", &JobOptions::output_format, {"jsonl", "csv", "tsv", "md"},
                      "Format of the output, whatever its name")
             .Interfaces(kJobInterfaces),
         JobRow::Texts("columns", &JobOptions::columns,
                       "Tables: fields with their own column, separated by commas; all others are "
                       "JSON in the column 'more'")
             .Delimiter(',')
             .Interfaces(kJobInterfaces),
         JobRow::Flag("csv_safe", &JobOptions::csv_safe,
                      "CSV: put an apostrophe before cells that a spreadsheet would interpret as "
                      "formulas")
             .Interfaces(kJobInterfaces),
         JobRow::Flag("ordered", &JobOptions::ordered, "Write rows in input order")
             .Interfaces(kJobInterfaces),
         JobRow::Flag("resume", &JobOptions::resume,
                      "Continue an interrupted job (needs OUTPUT.journal)")
             .Interfaces(kJobInterfaces),
         JobRow::Flag("retry_errors", &JobOptions::retry_errors,
                      "With --resume: ask failed records again and replace their error rows")
             .Interfaces(kJobInterfaces),
         JobRow::Flag("overwrite", &JobOptions::overwrite,
                      "Replace OUTPUT and the receipt; with --resume: keep the job's own rows and "
                      "write the rest again")
             .Interfaces(kJobInterfaces),
         JobRow::Number("checkpoint", &JobOptions::checkpoint_seconds,
                        "Maximum seconds of work that an interruption may cost")
             .From(0)
             .Unit("seconds")
             .Interfaces(kJobInterfaces),
         JobRow::Text("receipt", &JobOptions::receipt, "Write the receipt as JSON to this file")
             .Placeholder("FILE")
             .Interfaces(kCommandLine)});
    return rows;
  }();
  return table;
}

// --- How a model is loaded and how the engine works

namespace {

constexpr unsigned kOwnMachine = kCommandLine | kPython;

using EngineRow = Row<EngineOptions>;
using LoadRow = Row<LoadOptions>;

// "[NAME=]DIR". What stands before a "=" is a name, unless all of it is a path.
void AddAdapter(const std::string& words, const std::string& called, LoadOptions& options) {
  const size_t equals = words.find('=');
  std::error_code none;
  const bool named = equals != std::string::npos && words.find('/') > equals &&
                     !std::filesystem::exists(words, none);
  if (named) {
    options.adapters.push_back({words.substr(0, equals), words.substr(equals + 1)});
  } else if (options.adapter.empty()) {
    options.adapter = words;
  } else {
    throw Error(ErrorKind::kUsage, called + ": one adapter can be merged, found " +
                                       options.adapter + " and " + words +
                                       "; with NAME= before them, several are kept apart");
  }
}

LoadRow AdapterRow() {
  return LoadRow::Custom(
             "adapter", OptionKind::kTexts,
             [](LoadOptions& options, const OptionData& data, const std::string& called) {
               for (const std::string& words : std::get<std::vector<std::string>>(data)) {
                 AddAdapter(words, called, options);
               }
             },
             [](const LoadOptions&) -> std::optional<OptionData> { return std::nullopt; },
             "Directory of a LoRA adapter (PEFT), or the name of a shipped one; it is merged into "
             "the weights. NAME=DIR keeps it apart for requests that name it, and may be repeated. "
             "Without it, the adapter that ships for the model and the task; none: the model as it "
             "is")
      .Placeholder("[NAME=]DIR")
      .Interfaces(kOwnMachine);
}

EngineRow KvMemoryRow() {
  return EngineRow::Custom(
             "kv_memory", OptionKind::kBytes,
             [](EngineOptions& options, const OptionData& data, const std::string& called) {
               const auto* bytes = std::get_if<std::int64_t>(&data);
               options.kv_memory =
                   bytes != nullptr ? *bytes : ParseBytes(std::get<std::string>(data), called);
             },
             [](const EngineOptions& options) -> std::optional<OptionData> {
               if (options.kv_memory == 0) return std::nullopt;
               return options.kv_memory;
             },
             "Memory for KV, such as 512M or 4G (default: a quarter of the machine's memory, or "
             "the free memory of the device)")
      .Placeholder("SIZE")
      .Unit("bytes")
      .From(0)
      .Interfaces(kOwnMachine);
}

}  // namespace

const OptionTable<LoadOptions>& LoadTable() {
  static const OptionTable<LoadOptions> table = [] {
    OptionTable<LoadOptions> rows;
    AddGroup<LoadOptions>(
        rows, "Loading",
        {LoadRow::Text(
             "model", &LoadOptions::model,
             "GGUF file, Hugging Face directory, or a name that 'banyan model list' shows")
             .Called("-m,--model")
             .Interfaces(kOwnMachine),
         LoadRow::Custom(
             "device", OptionKind::kText,
             [](LoadOptions& options, const OptionData& data, const std::string&) {
               options.device = std::get<std::string>(data);
               ParseDevices(options.device);  // throws what is wrong with it
             },
             [](const LoadOptions& options) -> std::optional<OptionData> { return options.device; },
             "cpu, cuda or reference; several: cuda:0,1, cuda:all, cpu,cpu (default: cpu)")
             .Placeholder("cpu|reference|cuda|DEVICES")
             .Interfaces(kOwnMachine),
         LoadRow::Word("precision", &LoadOptions::precision, {"f32", "mixed", "w8a8"},
                       "f32: everything in float32; mixed: 16-bit KV, compact weights; w8a8: "
                       "mixed with products of 8-bit weights and activations (cuda, reference)")
             .Interfaces(kOwnMachine),
         LoadRow::Whole("threads", &LoadOptions::threads,
                        "Number of threads; 0: all that the process may use")
             .Range(0, 1024)
             .Unit("threads")
             .Interfaces(kOwnMachine)});
    AddGroup<LoadOptions>(
        rows, "Machine",
        {LoadRow::Word("kv_type", &LoadOptions::kv_type, {"f16", "bf16", "q8", "f32"},
                       "KV elements in mixed precision (default: f16)")
             .Interfaces(kOwnMachine),
         LoadRow::Flag("fast", &LoadOptions::fast,
                       "cuda, mixed: use the fastest matrix products; an answer's bits may then "
                       "depend on its batch")
             .Interfaces(kOwnMachine),
         LoadRow::Word("keep_weights", &LoadOptions::weights, {"auto", "converted", "compact"},
                       "Quantised weights on a GPU: converted (16 bits), compact (as stored), or "
                       "auto: converted while that takes at most half of the free memory")
             .Interfaces(kOwnMachine),
         LoadRow::Whole("tensor_parallel", &LoadOptions::tensor_parallel,
                        "So many of the devices compute one model together; one device has all "
                        "shards, as a test. 0: as few as make the model fit. Answers are the same")
             .Range(0, 64)
             .Interfaces(kOwnMachine),
         AdapterRow(),
         LoadRow::Number("yarn_factor", &LoadOptions::yarn_factor,
                         "Extend the model's context by this factor with YaRN")
             .From(0)
             .HideDefault()
             .Interfaces(kOwnMachine)});
    return rows;
  }();
  return table;
}

const OptionTable<EngineOptions>& EngineTable() {
  static const OptionTable<EngineOptions> table = [] {
    OptionTable<EngineOptions> rows;
    AddGroup<EngineOptions>(
        rows, "Machine",
        {EngineRow::Name("strategy", &EngineOptions::strategy, StrategyNames(),
                         "How shared text is read; the answers are the same. The last two are for "
                         "comparison only")
             .Interfaces(kOwnMachine),
         EngineRow::Whole("share_levels", &EngineOptions::share_levels,
                          "tree: share only the first N levels of the forest, and compute, store "
                          "and read what is below for every answer alone; 0: all")
             .From(0)
             .Unit("levels")
             .ForComparison()
             .Interfaces(kOwnMachine),
         EngineRow::Whole("contexts_per_stack", &EngineOptions::contexts_per_stack,
                          "stacked: contexts in a stack")
             .From(1)
             .Unit("contexts")
             .ForComparison()
             .Interfaces(kOwnMachine),
         EngineRow::Whole("questions_per_stack", &EngineOptions::questions_per_stack,
                          "stacked: questions of a context in a stack; 0: all")
             .From(0)
             .Unit("questions")
             .ForComparison()
             .Interfaces(kOwnMachine),
         EngineRow::Whole("stacks", &EngineOptions::stacks, "stacked: stacks per batch")
             .From(1)
             .Unit("stacks")
             .ForComparison()
             .Interfaces(kOwnMachine),
         EngineRow::Flag("private_stacks", &EngineOptions::private_stacks,
                         "stacked: every stack has its own copy of instruction and contexts")
             .ForComparison()
             .Interfaces(kOwnMachine),
         EngineRow::Whole("batch_rows", &EngineOptions::batch_rows,
                          "Rows per step; 0: chosen by the backend")
             .From(0)
             .Unit("rows")
             .Interfaces(kOwnMachine),
         EngineRow::Whole("mixed_rows", &EngineOptions::mixed_rows,
                          "Maximum rows of a step that mixes prefill and decoding; 0: chosen by "
                          "the backend; -1: as many as fit, prompts in order")
             .Range(-1, 1 << 24)
             .Unit("rows")
             .ForComparison()
             .Interfaces(kOwnMachine),
         EngineRow::Whole("max_streams", &EngineOptions::max_streams,
                          "Answers decoded at once; 0: chosen by the backend")
             .From(0)
             .Unit("answers")
             .Interfaces(kOwnMachine),
         EngineRow::Whole("max_waiting", &EngineOptions::max_waiting,
                          "Answers that may wait before a program that submits more is held up; 0: "
                          "a million")
             .From(0)
             .Unit("answers")
             .Interfaces(kPython),  // `serve` has its own
         KvMemoryRow(),
         EngineRow::Whole("steps_ahead", &EngineOptions::steps_ahead,
                          "Steps launched before the previous tokens are known: 0 or 1; -1: chosen "
                          "by the backend")
             .Range(-1, 1)
             .Unit("steps")
             .ForComparison()
             .Interfaces(kOwnMachine),
         EngineRow::Flag("measure_costs", &EngineOptions::measure_costs,
                         "Plan with built-in costs of attention instead of those of this machine, "
                         "which are measured once and kept in the cache folder")
             .Elsewhere("auto: plan with this machine's costs of attention, which are measured "
                        "once and kept in the cache folder, instead of built-in ones")
             .Style(CommandStyle::kOnlyNo)
             .ForComparison()
             .Interfaces(kOwnMachine),
         EngineRow::Flag("replay", &EngineOptions::replay,
                         "Launch the kernels of every step one by one, for comparison")
             .Elsewhere("A device may record steps that repeat and launch them as a whole")
             .Style(CommandStyle::kOnlyNo)
             .ForComparison()
             .Interfaces(kOwnMachine),
         EngineRow::Flag("one_by_one", &EngineOptions::one_by_one,
                         "Run every stream alone with an empty cache, for comparison")
             .ForComparison()
             .Interfaces(kOwnMachine)});
    return rows;
  }();
  return table;
}

const OptionTable<KvStoreUse>& KvUseTable() {
  using KvRow = Row<KvStoreUse>;
  static const OptionTable<KvStoreUse> table = [] {
    OptionTable<KvStoreUse> rows;
    AddGroup<KvStoreUse>(
        rows, "KV on disk",
        {KvRow::Text("kv_store", &KvStoreUse::directory,
                     "Folder of a KV store (banyan kv): load its documents instead of computing "
                     "them; the answers are the same; none: not even that of rag's questions")
             .Placeholder("FOLDER")
             .Interfaces(kOwnMachine),
         KvRow::Flag("kv_save", &KvStoreUse::save,
                     "Also save the documents of this job in the store, up to its limit")
             .Interfaces(kOwnMachine),
         KvRow::Custom(
             "kv_bits", OptionKind::kWhole,
             [](KvStoreUse& use, const OptionData& data, const std::string& called) {
               const std::int64_t bits = std::get<std::int64_t>(data);
               if (bits != 0 && bits != 8) {
                 throw Error(ErrorKind::kUsage,
                             called + ": expected 0 or 8, found " + std::to_string(bits));
               }
               use.bits = static_cast<int>(bits);
             },
             [](const KvStoreUse& use) -> std::optional<OptionData> {
               return static_cast<std::int64_t>(use.bits);
             },
             "8: use (and save) 8-bit KV of the store; answers are approximate")
             .Range(0, 8)
             .Unit("bits")
             .HideDefault()
             .Interfaces(kOwnMachine)});
    return rows;
  }();
  return table;
}

namespace {

// Of a store that was opened to be written and is only read.
std::string WhyNotWritten(const std::string& folder) {
  for (const char* part : {"", "/segments", "/lock"}) {
    const std::string path = folder + part;
    if (::access(path.c_str(), W_OK) == 0 || errno == ENOENT) continue;
    return "cannot write to the store: " + std::string(std::strerror(errno));
  }
  return "another process writes to the store";
}

}  // namespace

void UseKvStore(const KvStoreUse& use, EngineOptions& engine,
                const std::function<void(const std::string&)>& notice) {
  if (use.directory.empty() || use.directory == kNoKvStore) {
    if (!use.save && use.bits == 0) return;
    throw Error(ErrorKind::kUsage,
                std::string(use.save ? "--kv-save" : "--kv-bits") + " needs --kv-store FOLDER");
  }
  KvStoreOptions options;
  options.directory = use.directory;
  options.bits = use.bits;
  options.access = use.save ? KvStoreOptions::Access::kWriteIfFree : KvStoreOptions::Access::kRead;
  try {
    engine.kv_store = KvStore::Open(options);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kFormat) throw;  // what is damaged is computed
    notice(std::string(error.what()) + ": nothing is loaded ('banyan kv gc' makes it anew)");
    return;
  }
  engine.kv_save = use.save;
  if (use.save && !engine.kv_store->writable()) {
    notice(use.directory + ": " + WhyNotWritten(use.directory) + ": nothing is saved");
  }
}

namespace {

constexpr std::int64_t kMostKeptBytes = std::int64_t{1} << 30;
constexpr std::int64_t kShareOfDisk = 8;  // at most one of so many parts of what is free

// Whether it had to be made. What documents say can be read from their KV: it is their owner's.
bool MakeOwnFolder(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder.parent_path());
  return ::mkdir(folder.c_str(), S_IRWXU) == 0;
}

}  // namespace

void UseKeptKv(EngineOptions& engine, const std::function<void(const std::string&)>& notice) {
  const std::filesystem::path cache = CacheDirectory();
  if (cache.empty()) return;
  try {
    KvStoreOptions options;
    options.directory = cache / "kv";
    options.access = KvStoreOptions::Access::kWriteIfFree;
    const bool made = MakeOwnFolder(options.directory);
    if (!std::filesystem::exists(std::filesystem::path(options.directory) / "index.sqlite")) {
      const auto free = static_cast<std::int64_t>(std::filesystem::space(cache).available);
      options.limit = std::min(kMostKeptBytes, free / kShareOfDisk);
    }
    engine.kv_store = KvStore::Open(options);
    engine.kv_save = engine.kv_store->writable();
    engine.kv_store_optional = true;
    if (made) {
      notice("what was computed of the passages is kept in " + options.directory +
             " (at most 1 GiB), so that the next question is faster; --kv-store none: it is not");
    }
  } catch (const std::exception&) {
    engine.kv_store = nullptr;  // it only saves time
    engine.kv_save = false;
  }
}

}  // namespace banyan
