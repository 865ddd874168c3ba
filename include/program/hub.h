// Models that are not on this machine: fetched by name, described from headers, removed again.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "banyan/model.h"
#include "program/models.h"

namespace banyan {

// Fetches what `-m`, `--encoder` or `--reranker` names from the Hugging Face hub, if it is a name
// of the hub that this machine does not have; does nothing otherwise. `say` and `progress` may be
// empty and may throw, which stops the transfer; the next call goes on with what came. Throws
// kNotFound, kIo, kFormat and kLimit with one sentence that says what to do.
void BringModel(const std::string& model, const std::function<void(const std::string&)>& say,
                const FetchProgress& progress);
// The same of what `--adapter` names.
void BringAdapter(const std::string& adapter, const std::function<void(const std::string&)>& say,
                  const FetchProgress& progress);

// Whether BringModel would ask the hub.
bool MustBring(const std::string& model);

// What the headers of a model's files on the hub say, fetched without the weights. While the object
// lives, `path` may be given to DescribeModel and ExamineModel.
struct ModelHeaders {
  // `name` as for BringModel, which is not on this machine. Throws as BringModel.
  ModelHeaders(const std::string& name, const std::function<void(const std::string&)>& say);
  ~ModelHeaders();
  ModelHeaders(const ModelHeaders&) = delete;
  ModelHeaders& operator=(const ModelHeaders&) = delete;

  std::string path;
  std::string folder;                 // that of `path`, or itself: temporary, nothing to show
  std::string licence, licence_link;  // as its card names them
  std::string choice;                 // why these files; empty: there was no choice
  std::string others;                 // all quantisations with their sizes; empty: one at most

 private:
  void Remove() const;
};

// How a decoder would run here, on the CPU with --precision mixed: limits by arithmetic and memory
// that were measured just now, which a run comes near and does not reach.
struct RunForecast {
  std::int64_t machine_memory = 0;  // bytes that this process may use
  std::int64_t one_context = 0;     // bytes of weights and KV of one full context
  std::int64_t job = 0;             // bytes of weights and the usual --kv-memory
  double read_per_second = 0.0, generated_per_second = 0.0;  // tokens; generated: of one answer
};
RunForecast ForecastHere(const ModelSummary& model);

// Removes a model from the model cache or the hub's cache; of a name with a quantisation or a file
// only that. Bytes that became free. Throws kNotFound when it is not there, kUsage for what other
// programs keep, what ships with the program, and paths.
std::int64_t RemoveModel(const std::string& name);

}  // namespace banyan
