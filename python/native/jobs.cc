// The tasks as jobs: the same code that the command line runs, on files.
#include <functional>
#include <list>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "banyan/row_columns.h"
#include "bound.h"
#include "options.h"

namespace banyan::python {
namespace {

// Holds the model's lock for as long as a job runs.
class JobLock {
 public:
  JobLock(ComputeLock& lock, Interruption& interruption) : lock_(lock) {
    lock_.BeginJob(interruption);
  }
  ~JobLock() { lock_.End(); }
  JobLock(const JobLock&) = delete;
  JobLock& operator=(const JobLock&) = delete;

 private:
  ComputeLock& lock_;
};

nb::dict ProgressOf(const JobProgress& progress) {
  nb::dict fields;
  fields["seconds"] = progress.seconds;
  fields["fraction"] = progress.fraction;
  fields["seconds_left"] = progress.seconds_left;
  fields["records"] = progress.records;
  fields["rows"] = progress.rows;
  fields["error_rows"] = progress.error_rows;
  fields["answered"] = progress.answered;
  fields["skipped"] = progress.skipped;
  fields["prompt_tokens"] = progress.prompt_tokens;
  fields["shared_tokens"] = progress.saved_tokens;  // as the receipt calls what sharing saved
  fields["generated_tokens"] = progress.generated_tokens;
  fields["last"] = progress.last;
  return fields;
}

// What Python wants to hear of a job, None where it does not.
struct JobListener {
  nb::object progress, notice;
  nb::object look;  // called some times a second, also while the job waits; may raise
};

// What a job tells Python while it runs. An exception of a callable ends the job and is raised.
class JobCalls {
 public:
  JobCalls(JobOptions& job, JobListener listener)
      : progress_(std::move(listener.progress)),
        notice_(std::move(listener.notice)),
        interruption_(std::move(listener.look)) {
    job.stop = [this] { return raised_ != nullptr || interruption_.Pending(); };
    if (!progress_.is_none()) {
      job.progress = [this](const JobProgress& now) { Call([&] { progress_(ProgressOf(now)); }); };
    }
    if (!notice_.is_none()) {
      job.notice = [this](const std::string& text) { Call([&] { notice_(text); }); };
    }
  }
  Interruption& interruption() { return interruption_; }
  // REQUIRES: the GIL is held.
  void Raise() const {
    if (raised_) std::rethrow_exception(raised_);
    interruption_.Raise();
  }

 private:
  void Call(const std::function<void()>& call) {
    const nb::gil_scoped_acquire gil;
    if (raised_) return;
    try {
      call();
    } catch (...) {
      raised_ = std::current_exception();
    }
  }

  nb::object progress_, notice_;
  Interruption interruption_;
  std::exception_ptr raised_;
};

struct JobShape {
  const char* document_field;
  std::vector<std::vector<std::string>> needed_columns;
  bool staged = false;           // the output is written at the end: it need not be there to go on
  BoundModel* second = nullptr;  // which the job computes with as well
};

// Returns the receipt as JSON. `run` holds the models' locks and not the GIL.
std::string RunJob(
    BoundModel& model, const nb::dict& job_values, JobListener listener, JobShape shape,
    const std::function<JobReceipt(std::shared_ptr<Model>, const JobOptions&)>& run) {
  const std::shared_ptr<Model> loaded = model.model.get("model");
  JobOptions job = ReadAll(job_values, JobOptionsOf);
  job.document_field = shape.document_field;
  job.other_document_field = job.document_field == "text" ? "context" : "text";
  job.needed_columns = std::move(shape.needed_columns);
  JobCalls calls(job, std::move(listener));
  // In one order, whoever asks for them.
  std::set<ComputeLock*> locks = {model.compute_lock.get()};
  if (shape.second != nullptr) locks.insert(shape.second->compute_lock.get());
  JobReceipt receipt;
  {
    const nb::gil_scoped_release unlocked;
    JobOptions checked = job;
    if (shape.staged) {
      checked.overwrite |= job.resume;
      checked.resume = checked.retry_errors = false;
    }
    CheckJob(checked);
    std::list<JobLock> held;
    for (ComputeLock* lock : locks) held.emplace_back(*lock, calls.interruption());
    receipt = run(loaded, job);
  }
  calls.Raise();
  if (receipt.end == JobEnd::kUnreadable) throw Error(ErrorKind::kInput, receipt.stopped_at);
  return receipt.ToJson();
}

// A task of tables, with one model or two.
std::string RunTableCall(BoundModel& model, const EngineOptions& engine, const TableCall& call,
                         const nb::dict& job, JobListener listener) {
  BoundModel* large = nullptr;
  if (call.large.is_valid() && !nb::try_cast<BoundModel*>(call.large, large)) {
    throw Error(ErrorKind::kUsage, "large: expected a Model");
  }
  const std::shared_ptr<Model> second = large == nullptr ? nullptr : large->model.get("large");
  const JobOptions read = ReadAll(job, JobOptionsOf);
  CheckTable(engine, call.table, read);
  JobShape shape{"text", {}};
  if (!call.join) shape.needed_columns = NeededColumns(call.table, read);
  const TableOperator op = call.table.op;
  shape.staged = second || op == TableOperator::kRank || op == TableOperator::kGroup;
  shape.second = large;
  return RunJob(
      model, job, std::move(listener), std::move(shape),
      [&](std::shared_ptr<Model> loaded, const JobOptions& options) {
        if (second) {
          return RunPromisedFilter(std::move(loaded), second, engine, call.table, options);
        }
        if (!call.join) return RunTable(std::move(loaded), engine, call.table, options);
        JobReceipt receipt = RunJoin(std::move(loaded), engine, call.table, *call.join, options);
        receipt.task = "join";
        return receipt;
      });
}

// What a job would do, as JSON. `estimate` holds the model's lock and not the GIL.
template <typename Options, typename Call>
std::string Estimate(BoundModel& model, const nb::dict& engine, const nb::dict& job_values,
                     const char* document_field, const Options& options, const Call& estimate) {
  const EngineOptions engine_options = ReadAll(engine, EngineOptionsOf);
  JobOptions job = ReadAll(job_values, JobOptionsOf);
  job.document_field = document_field;
  job.other_document_field = job.document_field == "text" ? "context" : "text";
  const std::shared_ptr<Model> loaded = model.model.get("model");
  Interruption interruption;
  const nb::gil_scoped_release unlocked;
  const JobLock lock(*model.compute_lock, interruption);
  return estimate(loaded, engine_options, options, job).ToJson();
}

// What a value of a flat row is, for the types of tables.
const char* FlatTypeOf(ValueKind kind) {
  switch (kind) {
    case ValueKind::kText:
    case ValueKind::kDate:
    case ValueKind::kEnum:
      return "string";
    case ValueKind::kNumber:
      return "double";
    case ValueKind::kInteger:
      return "int64";
    case ValueKind::kBoolean:
      return "bool";
    default:
      return "json";
  }
}

}  // namespace

void AddJobs(nb::module_& module) {
  module.def(
      "run_ask",
      [](BoundModel& model, const nb::dict& engine, const nb::dict& task, const nb::dict& job,
         nb::object progress, nb::object notice, nb::object look) {
        const EngineOptions engine_options = ReadAll(engine, EngineOptionsOf);
        const AskOptions options = ReadAll(task, AskOptionsOf);
        return RunJob(model, job, {progress, notice, look}, {"context", NeededColumns(options)},
                      [&](std::shared_ptr<Model> loaded, const JobOptions& j) {
                        return RunAsk(std::move(loaded), engine_options, options, j);
                      });
      },
      nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg().none(), nb::arg().none(),
      nb::arg().none());
  module.def(
      "run_extract",
      [](BoundModel& model, const nb::dict& engine, const nb::dict& task, const nb::dict& job,
         nb::object progress, nb::object notice, nb::object look) {
        const EngineOptions engine_options = ReadAll(engine, EngineOptionsOf);
        const ExtractOptions options = ReadAll(task, ExtractOptionsOf);
        ParseExtractSchema(options.schema, options.schema_name);  // refused before anything is read
        return RunJob(model, job, {progress, notice, look}, {"text", {{"text"}}},
                      [&](std::shared_ptr<Model> loaded, const JobOptions& j) {
                        return RunExtract(std::move(loaded), engine_options, options, j);
                      });
      },
      nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg().none(), nb::arg().none(),
      nb::arg().none());
  module.def(
      "run_rag",
      [](BoundModel& model, const nb::dict& engine, const nb::dict& task, const nb::dict& job,
         nb::object progress, nb::object notice, nb::object look) {
        const EngineOptions engine_options = ReadAll(engine, EngineOptionsOf);
        const RagOptions options = ReadAll(task, RagOptionsOf);
        return RunJob(model, job, {progress, notice, look}, {"context", {}},
                      [&](std::shared_ptr<Model> loaded, const JobOptions& j) {
                        return RunRag(std::move(loaded), engine_options, options, j);
                      });
      },
      nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg().none(), nb::arg().none(),
      nb::arg().none());
  module.def(
      "run_table",
      [](BoundModel& model, const nb::dict& engine, const nb::dict& task, const nb::dict& job,
         nb::object progress, nb::object notice, nb::object look) {
        const EngineOptions engine_options = ReadAll(engine, EngineOptionsOf);
        const TableCall call = ReadAll(task, TableCallOf);
        return RunTableCall(model, engine_options, call, job, {progress, notice, look});
      },
      nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg().none(), nb::arg().none(),
      nb::arg().none());
  // The columns that a prompt is made of.
  module.def("table_columns", [](const std::string& prompt, std::vector<std::string> columns) {
    TableAskOptions table;
    table.prompt = prompt;
    table.columns = std::move(columns);
    return TableColumnsOf(table);
  });
  module.def("carried_names", CarriedFieldNames);
  module.def("flat_columns", [](const std::string& schema) {
    std::vector<std::pair<std::string, std::string>> columns;
    for (FlatColumn& column : FlatColumns(ParseExtractSchema(schema, "schema"))) {
      columns.emplace_back(std::move(column.name), FlatTypeOf(column.kind));
    }
    return columns;
  });
  module.def("show_prompts", [](BoundModel& model, const nb::dict& task, const nb::dict& job) {
    const AskOptions options = ReadAll(task, AskOptionsOf);
    const JobOptions read = ReadAll(job, JobOptionsOf);
    const std::shared_ptr<Model> loaded = model.model.get("model");
    const nb::gil_scoped_release unlocked;
    return ShowPrompts(loaded, options, read);
  });
  module.def("estimate_ask", [](BoundModel& model, const nb::dict& engine, const nb::dict& task,
                                const nb::dict& job) {
    const AskOptions options = ReadAll(task, AskOptionsOf);
    return Estimate(model, engine, job, "context", options, EstimateAsk);
  });
  module.def("show_table_prompts",
             [](BoundModel& model, const nb::dict& task, const nb::dict& job) {
               const TableCall call = ReadAll(task, TableCallOf);
               const JobOptions read = ReadAll(job, JobOptionsOf);
               const std::shared_ptr<Model> loaded = model.model.get("model");
               const nb::gil_scoped_release unlocked;
               return ShowTablePrompts(loaded, call.table, read);
             });
  // The estimate, and the plan of columns and rows.
  module.def("estimate_table", [](BoundModel& model, const nb::dict& engine, const nb::dict& task,
                                  const nb::dict& job) {
    const TableCall call = ReadAll(task, TableCallOf);
    std::string plan;
    std::string found =
        Estimate(model, engine, job, "text", call.table,
                 [&](std::shared_ptr<Model> loaded, const EngineOptions& engine_options,
                     const TableAskOptions& table, JobOptions read) {
                   read.needed_columns = NeededColumns(table, read);
                   read.explain = [&](const std::string& text) { plan += text; };
                   return EstimateTable(std::move(loaded), engine_options, table, read);
                 });
    return std::make_pair(std::move(found), std::move(plan));
  });
  module.def("estimate_extract", [](BoundModel& model, const nb::dict& engine, const nb::dict& task,
                                    const nb::dict& job) {
    const ExtractOptions options = ReadAll(task, ExtractOptionsOf);
    ParseExtractSchema(options.schema, options.schema_name);
    return Estimate(model, engine, job, "text", options, EstimateExtract);
  });
  module.def("estimate_rag", [](BoundModel& model, const nb::dict& engine, const nb::dict& task,
                                const nb::dict& job) {
    const RagOptions options = ReadAll(task, RagOptionsOf);
    return Estimate(model, engine, job, "context", options, EstimateRag);
  });
}

}  // namespace banyan::python
