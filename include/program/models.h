// The models of this machine: the default one, the list, a better reader, fetching; and its
// devices.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace banyan {

// The model that ships with the program; its name for `-m`.
inline constexpr const char* kShippedModel = "banyan-reader-34m";

// The model where none is named, for LoadOptions::model: what the environment's BANYAN_MODEL says
// (a path or a name), else the file of the shipped one. That is looked for beside the running
// program: PREFIX/share/banyan/models of PREFIX/bin/PROGRAM, models/ of a checkout for a program in
// its build/NAME/, then where the project was configured to be installed. Throws kNotFound that
// says all of these.
std::string DefaultModel();

// Says where shipped models and adapters are looked for first: Python packages, whose program is
// Python, have them in folders of their own. Call it before anything else of this header.
void ShipModelsFrom(const std::vector<std::string>& folders);

// Where the files of a model are, that `-m` would take: the GGUF file or the directory. Throws as
// Model::Load does when there is none.
std::string PathOfModel(const std::string& model);

// The folder of an adapter that `--adapter` would take: a shipped one's for its name, else
// `adapter` itself.
std::string PathOfAdapter(const std::string& adapter);

enum class ModelPlace { kShipped, kFetched, kHuggingFaceCache, kFetchable };
enum class ModelUse { kNone, kAsk, kEmbed, kRerank };

struct KnownModel {
  std::string name;  // for -m; before it is fetched, for FetchModel
  ModelPlace place = ModelPlace::kShipped;
  std::string path;        // empty for kFetchable
  std::string family;      // empty: not known
  std::string licence;     // as its makers name it, e.g. "apache-2.0"; empty: not said
  std::int64_t bytes = 0;  // of the files; for kFetchable of the weights
  ModelUse use = ModelUse::kNone;
  std::string refusal;  // why this program cannot run it; empty: it can
};

// What a model's files say of it, whether this program can run it or not: `model` as for `-m`.
// Throws kNotFound as Model::Load does when there is none.
KnownModel ExamineModel(const std::string& model);

// The shipped model, those in the model cache and in the local Hugging Face cache, and those that
// FetchModel can get. Reads headers, configurations and tokenizers, no weights; what cannot be read
// is listed with the reason.
std::vector<KnownModel> ListModels();

// A better reader than the shipped model, which can be fetched.
struct ReaderOffer {
  std::string model;    // for FetchModel and -m
  std::string adapter;  // ships with the program
  std::string licence;
  std::string sha256;      // of the weights
  std::int64_t bytes = 0;  // of the weights
};

// Nothing where the adapter did not come with the program.
std::optional<ReaderOffer> BetterReader();

enum class ReaderChoice { kNone, kBetter, kShipped };

// What was chosen on this machine, kept in the cache directory. A better reader that was chosen and
// whose files are gone counts as not chosen.
ReaderChoice ChosenReader();
void ChooseReader(ReaderChoice choice);

enum class ReaderTask { kAsk, kExtract, kRag };

struct DefaultReader {
  std::string model;    // for LoadOptions
  std::string adapter;  // of `model`, by the name under which it ships; empty: none
};

// What does a task where no model is named: $BANYAN_MODEL; else, where it was chosen, the better
// reader with the adapter that is trained for the task; else the shipped model. The one place where
// that is decided. Throws kNotFound as DefaultModel does.
DefaultReader DefaultReaderFor(ReaderTask task);

// Hears a few times a second how many bytes of the package are there, and at last that all are.
using FetchProgress = std::function<void(std::int64_t done, std::int64_t total)>;

// FetchModel (banyan/model.h) with its progress.
std::string FetchModel(const std::string& name, const std::function<void(const std::string&)>& say,
                       const FetchProgress& progress);

// The devices that this build can compute on, for --version: "cpu (dotprod), cuda, reference". Asks
// no GPU.
std::string DescribeDevices();

}  // namespace banyan
