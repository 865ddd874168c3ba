// The models of this machine: the default one, the list, a better reader, fetching; and its
// devices.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
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

enum class ModelPlace {
  kShipped,
  kFetched,
  kHuggingFaceCache,
  kOllama,
  kLmStudio,
  kLlamaCpp,
  kFetchable
};
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

// The shipped model, those in the model cache, in the local Hugging Face cache and in the stores of
// Ollama, LM Studio and llama.cpp, and those that FetchModel can get. Reads headers, configurations
// and tokenizers, no weights; what cannot be read is listed with the reason.
std::vector<KnownModel> ListModels();

enum class ReaderTask { kAsk, kExtract, kRag };

// What does a task.
struct DefaultReader {
  std::string model;    // for LoadOptions
  std::string adapter;  // of `model`, by the name under which it ships; empty: none
};

// The value of --adapter with which a model is used as it is.
inline constexpr const char* kNoAdapter = "none";

// The one place that decides what does a task. Where no model is named (`model` is empty):
// $BANYAN_MODEL, else the reader that was chosen on this machine, else the shipped model. A model
// that is named without an adapter has the one that ships for it and the task, if any (the
// adapter's card says so); kNoAdapter is none. An adapter that is named alone brings the model of
// its card. Throws kNotFound as DefaultModel does.
DefaultReader ReaderFor(ReaderTask task, const std::string& model = "",
                        const std::string& adapter = "");

// A reader that is better than the shipped model and can be fetched.
struct ReaderOffer {
  std::string size;                            // "small", "medium" or "large"
  std::string model;                           // for FetchModel and -m
  std::map<ReaderTask, std::string> adapters;  // which ship with the program
  std::string licence;
  std::string sha256;         // of the weights
  std::int64_t bytes = 0;     // of the weights
  std::int64_t download = 0;  // bytes
  std::int64_t memory = 0;    // bytes that it takes once it is loaded, about
  std::int64_t parameters = 0;
  int right = 0, questions = 0;  // of everyday questions, as its card says; 0: it does not
  bool fits = true;              // `memory` is not more than the process may use
};

// Smallest first; those alone whose adapters came with the program.
std::vector<ReaderOffer> ReaderOffers();
// As the shipped model's card would say it: nothing to fetch, no adapters.
ReaderOffer ShippedReader();

// The 95 % interval of a share of which `right` of `questions` are known (Wilson's).
std::pair<double, double> ShareInterval(int right, int questions);

// Answers a second that a model of so many parameters should give on this machine, five questions
// to a page of 400 tokens. Measures the machine for about a second at the first call.
double PredictedAnswersPerSecond(std::int64_t parameters);

// What was chosen on this machine, kept in the cache directory: the size of an offer, "shipped", or
// empty when nothing was chosen, or the files of what was are gone.
std::string ChosenReader();
void ChooseReader(const std::string& size);

// Hears a few times a second how many bytes of the package are there, and at last that all are.
using FetchProgress = std::function<void(std::int64_t done, std::int64_t total)>;

// FetchModel (banyan/model.h) with its progress.
std::string FetchModel(const std::string& name, const std::function<void(const std::string&)>& say,
                       const FetchProgress& progress);

// The devices that this build can compute on, for --version: "cpu (dotprod), cuda, reference". Asks
// no GPU.
std::string DescribeDevices();

}  // namespace banyan
