// The rows of inputs, as jobs read them: for jobs in blocks, and texts to embed.
#include "bound.h"
#include "options.h"
#include "program/job.h"

namespace banyan::python {
namespace {

struct BoundRows {
  std::unique_ptr<RowReader> reader;
};

JobOptions RowsOf(const std::string& task, const nb::dict& task_values,
                  const nb::dict& job_values) {
  JobOptions job = ReadAll(job_values, JobOptionsOf);
  job.document_field = task == "extract" || task == "embed" ? "text" : "context";
  job.other_document_field = job.document_field == "text" ? "context" : "text";
  if (task == "ask") {
    job.needed_columns = NeededColumns(ReadAll(task_values, AskOptionsOf));
  } else if (task != "rag") {
    job.needed_columns = {{"text"}};
  }
  return job;
}

nb::object Decoded(const std::string& text, const char* errors) {
  return nb::steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), errors));
}

// Up to `most` rows as (file, line, JSON, whether it could not be read); none: that was all.
nb::list Take(BoundRows& self, size_t most) {
  std::vector<ReadRow> rows;
  {
    const nb::gil_scoped_release unlocked;
    for (ReadRow row; rows.size() < most && self.reader->Next(row);) rows.push_back(std::move(row));
  }
  nb::list taken;
  for (const ReadRow& row : rows) {
    taken.append(nb::make_tuple(Decoded(row.file, "surrogateescape"), row.line,
                                Decoded(row.json, "replace"), row.is_bad));
  }
  return taken;
}

}  // namespace

void AddRows(nb::module_& module) {
  nb::class_<BoundRows>(module, "RowReader")
      .def("__init__",
           [](BoundRows* self, const std::string& task, const nb::dict& task_values,
              const nb::dict& job_values) {
             const JobOptions job = RowsOf(task, task_values, job_values);
             const nb::gil_scoped_release unlocked;
             new (self) BoundRows{std::make_unique<RowReader>(job)};
           })
      .def("take", &Take);
}

}  // namespace banyan::python
