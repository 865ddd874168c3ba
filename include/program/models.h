// Which models there are on this machine, and which one is meant when nobody names one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace banyan {

// The model that ships with the program; its name for `-m`.
inline constexpr const char* kShippedModel = "banyan-reader-34m";

// The model when nobody names one, for LoadOptions::model: what the environment's BANYAN_MODEL says
// (a path or a name), else the file of the shipped one. That is looked for beside the running
// program: PREFIX/share/banyan/models of PREFIX/bin/PROGRAM, models/ of a checkout for a program in
// its build/NAME/, then where the project was configured to be installed. Throws kNotFound that
// says all of these.
std::string DefaultModel();

// Where the files of a model are, that `-m` would take: the GGUF file or the directory. Throws as
// Model::Load does when there is none.
std::string PathOfModel(const std::string& model);

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

}  // namespace banyan
