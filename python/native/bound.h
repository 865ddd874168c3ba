// What Python objects hold, and how they behave around fork, threads and Ctrl-C.
#pragma once

#include <unistd.h>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "banyan/constrain.h"
#include "banyan/encoder.h"
#include "banyan/engine.h"
#include "banyan/error.h"
#include "banyan/model.h"
#include "banyan/retrieval.h"
#include "program/rag.h"

namespace banyan::python {

namespace nb = nanobind;

// A library object that belongs to the process that made it: its threads do not survive a fork. A
// child that uses it gets an Error; a child that drops it leaks it, because joining threads that
// are not there would never end.
template <typename T>
class ProcessBound {
 public:
  explicit ProcessBound(std::shared_ptr<T> value)
      : value_(std::move(value)), process_(::getpid()) {}
  ~ProcessBound() { Drop(); }
  ProcessBound(const ProcessBound&) = delete;
  ProcessBound& operator=(const ProcessBound&) = delete;

  // Throws kUsage in a forked child, and after Drop.
  const std::shared_ptr<T>& get(const char* what) const {
    if (process_ != ::getpid()) {
      throw Error(ErrorKind::kUsage, std::string(what) +
                                         ": was made before this process was forked, and its "
                                         "threads are not here; make another one in the child, or "
                                         "start processes with 'spawn'");
    }
    if (!value_) throw Error(ErrorKind::kUsage, std::string(what) + ": is closed");
    return value_;
  }
  bool closed() const { return !value_; }
  void Drop() {
    if (value_ && process_ != ::getpid()) new std::shared_ptr<T>(std::move(value_));
    value_.reset();
  }

 private:
  std::shared_ptr<T> value_;
  pid_t process_;
};

// Ctrl-C, and an end that somebody else wants, while the library works: looks some times a second
// whether Python has something to raise. Called by the thread that holds no GIL.
class Interruption {
 public:
  // `look`, which may be None, raises what the work is to end with.
  explicit Interruption(nb::object look = nb::none()) : look_(std::move(look)) {}
  // True when Python wants to raise something; from then on always.
  bool Pending();
  // Raises it. REQUIRES: the GIL is held.
  void Raise() const;
  // Both. REQUIRES: the GIL is not held.
  void Check();

 private:
  nb::object look_;
  std::exception_ptr raised_;
  double last_look_ = 0.0;
};

// Who computes with a model: its threads serve one at a time.
class ComputeLock {
 public:
  // Waits until no job computes; throws kUsage while an Engine holds the model, and what
  // `interruption` has to raise. REQUIRES: the GIL is not held.
  void BeginJob(Interruption& interruption);
  // Throws kUsage while a job or an Engine computes.
  void BeginEngine();
  void End();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  enum class Holder { kNone, kJob, kEngine } holder_ = Holder::kNone;
};

struct BoundModel {
  explicit BoundModel(std::shared_ptr<Model> loaded) : model(std::move(loaded)) {}

  // Throws kUnsupported when the model's files have no tokenizer.
  std::shared_ptr<const Text> text() const;
  std::shared_ptr<const Constraint> ConstraintOf(const std::string& regex,
                                                 const std::string& json_schema);

  ProcessBound<Model> model;
  std::shared_ptr<ComputeLock> compute_lock = std::make_shared<ComputeLock>();
  std::mutex trie_mutex;  // guards `trie`
  std::shared_ptr<const TokenTrie> trie;
};

struct BoundEncoder {
  BoundEncoder(std::shared_ptr<Encoder> loaded, std::string model)
      : encoder(std::move(loaded)), name(std::move(model)) {}
  ProcessBound<Encoder> encoder;
  std::string name;  // as it was asked for
};

struct BoundIndex {
  std::shared_ptr<const DocumentIndex> index;
};

// Seconds of a clock that only goes forward.
double Now();

void AddErrors(nb::module_& module);
void AddModel(nb::module_& module);
void AddEngine(nb::module_& module);
void AddJobs(nb::module_& module);
void AddEncoder(nb::module_& module);
void AddRetrieval(nb::module_& module);
void AddRows(nb::module_& module);
void AddCommand(nb::module_& module);

// Numbers for numpy without a copy: the array owns the vector.
template <typename Number>
nanobind::object ArrayOf(std::vector<Number>&& numbers, std::vector<size_t> shape) {
  auto* kept = new std::vector<Number>(std::move(numbers));
  const nanobind::capsule owner(
      kept, [](void* vector) noexcept { delete static_cast<std::vector<Number>*>(vector); });
  return nanobind::cast(
      nanobind::ndarray<nanobind::numpy, Number>(kept->data(), shape.size(), shape.data(), owner));
}

template <typename Number>
nanobind::object ArrayOf(std::vector<Number>&& numbers) {
  const size_t size = numbers.size();
  return ArrayOf(std::move(numbers), {size});
}

}  // namespace banyan::python
