#include "run_options.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <utility>

#include "banyan/bytes.h"
#include "banyan/error.h"
#include "banyan/models.h"
#include "progress_line.h"

namespace banyan::app {

void RunOptions::AddLoadingTo(CLI::App& command, const std::string& default_precision) {
  load.precision = default_precision;
  const std::string by_default =
      model_by_default
          ? fmt::format(" (default: $BANYAN_MODEL, else the shipped {})", kShippedModel)
          : "";
  command.add_option(
      "-m,--model", load.model,
      "GGUF file, Hugging Face directory, or a name that 'banyan model list' shows" + by_default);
  command.add_option("--device", load.device, "What computes")
      ->type_name("cpu|reference|cuda")
      ->capture_default_str();
  command
      .add_option("--precision", load.precision,
                  "f32: everything in float32; mixed: 16-bit KV, compact weights")
      ->type_name("f32|mixed")
      ->capture_default_str();
  command.add_option("--threads", load.threads, "Threads; 0: as many as the process may use")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
}

void RunOptions::AddTo(CLI::App& command, const std::string& default_precision) {
  AddLoadingTo(command, default_precision);
  command.add_option("--kv-type", load.kv_type, "KV elements in mixed precision (default: f16)")
      ->type_name("f16|bf16|q8|f32");
  command.add_flag("--fast", load.fast,
                   "cuda, mixed: the fastest products, whatever their bits; answers may then "
                   "depend on what is computed beside them");
  command
      .add_option("--keep-weights", load.weights,
                  "Quantised weights on a GPU: converted (16 bits), compact (as stored), or auto: "
                  "converted while that takes at most half of the free memory")
      ->type_name("auto|converted|compact")
      ->capture_default_str();
  command
      .add_option("--adapter", adapters,
                  "Directory of a LoRA adapter (PEFT), or a shipped one's name, merged into the "
                  "weights; NAME=DIR keeps it apart for requests that name it, and may come again")
      ->type_name("[NAME=]DIR")
      ->allow_extra_args(false);
  command.add_option("--yarn-factor", load.yarn_factor,
                     "Stretch the model's context by this factor with YaRN");
  command
      .add_option("--strategy", strategy,
                  "How shared text is read; answers are the same. The last two are for comparison")
      ->type_name("auto|tree|stacked|paged|flat|sequential|no-attention")
      ->capture_default_str();
  command
      .add_option("--share-levels", engine.share_levels,
                  "tree: share only the first N levels of the forest; 0: all")
      ->check(CLI::NonNegativeNumber);
  command
      .add_option("--contexts-per-stack", engine.contexts_per_stack, "stacked: contexts in a stack")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command
      .add_option("--questions-per-stack", engine.questions_per_stack,
                  "stacked: questions of a context in a stack; 0: all")
      ->check(CLI::NonNegativeNumber);
  command.add_option("--stacks", engine.stacks, "stacked: stacks at a time")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command
      .add_option("--batch-rows", engine.batch_rows, "Rows of one step; 0: chosen by the backend")
      ->check(CLI::NonNegativeNumber);
  command
      .add_option(
          "--mixed-rows", engine.mixed_rows,
          "Rows of a step that computes prompts beside streams that write; 0: chosen by the "
          "backend; -1: as many as fit, prompts in order")
      ->check(CLI::Range(-1, 1 << 24));
  command
      .add_option("--max-streams", engine.max_streams,
                  "Answers written at once; 0: chosen by the backend")
      ->check(CLI::NonNegativeNumber);
  command
      .add_option("--kv-memory", kv_memory,
                  "Memory for KV, such as 512M or 4G (default: a quarter of the machine's, or "
                  "what is free on the device)")
      ->type_name("SIZE");
  command
      .add_option("--steps-ahead", engine.steps_ahead,
                  "Steps launched before the last tokens are known: 0 or 1; -1: by the backend")
      ->check(CLI::Range(-1, 1));
  command.add_flag("!--no-replay", engine.replay,
                   "Launch the operations of every step one by one, for comparison");
  command.add_flag("--explain", explain,
                   "Print to stderr what is shared, what was chosen and why, the predicted cost");
  command.add_flag("--one-by-one", engine.one_by_one,
                   "Run every stream alone with an empty cache, for comparison");
}

void RunOptions::Resolve() {
  if (model_by_default && load.model.empty()) load.model = DefaultModel();
  engine.strategy = ParseStrategy(strategy);
  if (!kv_memory.empty()) engine.kv_memory = ParseBytes(kv_memory, "--kv-memory");
  ResolveAdapters();
}

// What stands before a "=" is a name, unless all of it is a path.
void RunOptions::ResolveAdapters() {
  for (const std::string& adapter : std::exchange(adapters, {})) {
    const size_t equals = adapter.find('=');
    std::error_code none;
    const bool named = equals != std::string::npos && adapter.find('/') > equals &&
                       !std::filesystem::exists(adapter, none);
    if (named) {
      load.adapters.push_back({adapter.substr(0, equals), adapter.substr(equals + 1)});
    } else if (load.adapter.empty()) {
      load.adapter = adapter;
    } else {
      throw Error(ErrorKind::kUsage, "--adapter: one adapter can be merged, found " + load.adapter +
                                         " and " + adapter +
                                         "; with NAME= before them, several are kept apart");
    }
  }
}

std::vector<std::string> RunOptions::AdapterFolders() const {
  std::vector<std::string> folders;
  if (!load.adapter.empty()) folders.push_back(load.adapter);
  for (const LoadOptions::NamedAdapter& adapter : load.adapters) {
    folders.push_back(adapter.directory);
  }
  return folders;
}

namespace {

// Loads what T is, with progress on a line of stderr unless `quiet`.
template <typename T>
std::shared_ptr<T> LoadWithProgress(LoadOptions options, bool quiet) {
  LoadLine line(::isatty(STDERR_FILENO) == 1);
  if (!quiet) {
    options.progress = [&](std::int64_t done, std::int64_t total) { line.Show(done, total); };
  }
  return T::Load(options);
}

}  // namespace

std::shared_ptr<Model> RunOptions::LoadModel(bool quiet) const {
  return LoadWithProgress<Model>(load, quiet);
}

std::shared_ptr<Encoder> RunOptions::LoadEncoder(bool quiet) const {
  return LoadWithProgress<Encoder>(load, quiet);
}

}  // namespace banyan::app
