// Options that commands share: the model and its device, input and output, the KV store.
#include "job/job_options.h"

#include <unistd.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <filesystem>
#include <utility>

#include "banyan/error.h"
#include "program/hub.h"
#include "program/models.h"
#include "program/near_names.h"
#include "program/options.h"
#include "shell/help.h"
#include "shell/parse_message.h"
#include "shell/table_options.h"
#include "terminal/terminal.h"

namespace banyan::app {
namespace {

// "; did you mean 'smollm2-135m-instruct'?", and how to get it; empty: no model has such a name.
std::string DidYouMeanModel(const std::string& name) {
  std::error_code none;
  if (name.find('/') != std::string::npos || std::filesystem::exists(name, none)) return {};
  const std::vector<KnownModel> models = ListModels();
  std::vector<std::string> names;
  for (const KnownModel& model : models) names.push_back(model.name);
  const std::string nearest = NearestName(name, names);
  if (nearest.empty()) return "; 'banyan model list' shows those that there are";
  for (const KnownModel& model : models) {
    if (model.name != nearest) continue;
    const bool fetchable = model.place == ModelPlace::kFetchable;
    if (nearest == name) return fetchable ? "; 'banyan model get " + name + "' fetches it" : "";
    return fmt::format("; did you mean '{}'?{}", nearest,
                       fetchable ? " ('banyan model get " + nearest + "' fetches it)" : "");
  }
  return {};
}

// Runs what looks for the model; when there is none, says which one may be meant.
template <typename Body>
auto FindingModel(const std::string& name, const Body& body) {
  try {
    return body();
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::kNotFound) throw;
    throw Error(e.kind(), e.what() + DidYouMeanModel(name));
  }
}

// Fetches what the hub has under a name and this machine does not, with messages and a bar.
template <typename Bring>
void BringForPerson(const std::string& name, const Bring& bring, bool quiet) {
  FetchLine line(::isatty(STDERR_FILENO) == 1);
  const auto say = [&](const std::string& text) {
    line.Leave();
    SayLine(text);
  };
  if (quiet) return bring(name, nullptr, nullptr);
  bring(name, say, [&](std::int64_t done, std::int64_t total) { line.Show(done, total); });
}

// Loads what T is, with progress on a line of stderr unless `quiet`.
template <typename T>
std::shared_ptr<T> LoadWithProgress(LoadOptions options, bool quiet) {
  BringForPerson(options.model, BringModel, quiet);
  if (!options.adapter.empty()) BringForPerson(options.adapter, BringAdapter, quiet);
  for (const LoadOptions::NamedAdapter& adapter : options.adapters) {
    BringForPerson(adapter.directory, BringAdapter, quiet);
  }
  LoadLine line(::isatty(STDERR_FILENO) == 1);
  if (!quiet) {
    options.progress = [&](std::int64_t done, std::int64_t total) { line.Show(done, total); };
  }
  return FindingModel(options.model, [&] { return T::Load(options); });
}

}  // namespace

void RunOptions::AddLoadingTo(CLI::App& command, const std::string& default_precision,
                              const std::string& group) {
  load.precision = default_precision;
  TableOptions().AddTo(command, Bind(load), {"Loading"}, group);
  CLI::Option* model = command.get_option("--model")->group("Options");
  if (model_by_default) {
    model->description(fmt::format(
        "{} (default: $BANYAN_MODEL, else what 'banyan model better' chose, else the shipped {})",
        model->get_description(), kShippedModel));
  }
}

void RunOptions::AddTo(CLI::App& command, const std::string& default_precision,
                       const std::string& group) {
  AddLoadingTo(command, default_precision, group);
  TableOptions().AddTo(command, Bind(load), {"Machine"}, group);
  TableOptions().AddTo(command, Bind(engine), {}, group);
  for (const OptionFacts& facts : EngineTable()) {
    if (facts.for_comparison && !comparisons) {
      command.get_option(CommandName(facts))->group(kHiddenGroup);
    }
  }
  command
      .add_flag("--explain", explain,
                "Print to stderr what is shared, what was chosen, and the predicted cost")
      ->group(group);
}

void RunOptions::Resolve() {
  if (load.adapter == kNoAdapter) load.adapter.clear();
  if (model_by_default && load.model.empty()) load.model = DefaultModel();
  // One of the hub is fetched when all else was checked.
  if (load.model.empty() || MustBring(load.model)) return;
  FindingModel(load.model, [&] { return PathOfModel(load.model); });
}

std::vector<std::string> RunOptions::ModelFiles() const {
  return MustBring(load.model) ? std::vector<std::string>() : FilesOfModel(load.model);
}

std::vector<std::string> RunOptions::AdapterFolders() const {
  std::vector<std::string> folders;
  if (!load.adapter.empty()) folders.push_back(load.adapter);
  for (const LoadOptions::NamedAdapter& adapter : load.adapters) {
    folders.push_back(adapter.directory);
  }
  return folders;
}

void RunOptions::Bring(bool quiet) const { BringForPerson(load.model, BringModel, quiet); }

std::shared_ptr<Model> RunOptions::LoadModel(bool quiet) const {
  return LoadWithProgress<Model>(load, quiet);
}

std::shared_ptr<Encoder> RunOptions::LoadEncoder(bool quiet) const {
  return LoadWithProgress<Encoder>(load, quiet);
}

void InputOptions::AddTo(CLI::App& command, JobOptions& job, const std::string& example) {
  TableOptions().AddTo(command, Bind(job), {"Input"});
  command
      .add_option("--field", fields,
                  fmt::format("Map a field to the input's name for it, e.g. {}; "
                              "PATTERN:OURS=THEIRS: only in files with such a name",
                              example))
      ->type_name("OURS=THEIRS")
      ->allow_extra_args(false)
      ->group("Input");
}

void InputOptions::AddRecordsTo(CLI::App& command, JobOptions& job) {
  TableOptions().AddTo(command, Bind(job), {"Records"}, "Input");
}

void InputOptions::AddOutputTo(CLI::App& command, JobOptions& job) {
  TableOptions().AddTo(command, Bind(job), {"Output"});
  command
      .add_flag("--verbose", verbose,
                "The whole receipt on stderr: tokens, waits, times, memory, a hash of the answers")
      ->group("Output");
}

void InputOptions::Resolve(const std::vector<std::string>& known, JobOptions& job) const {
  for (const std::string& field : fields) {
    const size_t equals = field.find('=');
    const std::string left = field.substr(0, equals);
    const size_t colon = left.rfind(':');
    const bool of_files = colon != std::string::npos;
    std::string ours = of_files ? left.substr(colon + 1) : left;
    if (std::ranges::find(known, ours) == known.end()) {  // one name of the document for the other
      if (ours == "text")
        ours = "context";
      else if (ours == "context")
        ours = "text";
    }
    const bool valid = equals != std::string::npos && equals + 1 < field.size() && colon != 0 &&
                       std::ranges::find(known, ours) != known.end();
    if (!valid) {
      throw Error(ErrorKind::kUsage,
                  fmt::format("--field: expected OURS=THEIRS or PATTERN:OURS=THEIRS with OURS one "
                              "of {}; found '{}'",
                              fmt::join(known, ", "), field));
    }
    const std::string theirs = field.substr(equals + 1);
    if (of_files) {
      job.file_fields.push_back({left.substr(0, colon), ours, theirs});
    } else {
      job.fields[ours] = theirs;
    }
  }
}

void KvStoreCommand::AddTo(CLI::App& command) {
  TableOptions().AddTo(command, Bind(static_cast<KvStoreUse&>(*this)));
}

void KvStoreCommand::Resolve(EngineOptions& engine) const {
  UseKvStore(*this, engine, [](const std::string& text) { SayLine(text); });
}

}  // namespace banyan::app
