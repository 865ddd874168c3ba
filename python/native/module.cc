// banyan._native: the library for Python. What people use is the package around it (python/banyan),
// which has the types, defaults and documentation.
#include "banyan/version.h"
#include "bound.h"
#include "options.h"
#include "program.h"

namespace banyan::python {

namespace {

PyObject* error_class = nullptr;  // banyan.Error, for as long as the process lives

}  // namespace

void AddErrors(nb::module_& module) {
  module.def("set_error_class", [](nb::object error) { error_class = error.release().ptr(); });
  nb::register_exception_translator(
      [](const std::exception_ptr& thrown, void*) {
        try {
          std::rethrow_exception(thrown);
        } catch (const Error& e) {
          if (error_class == nullptr) {
            PyErr_SetString(PyExc_RuntimeError, e.what());
            return;
          }
          // Messages may quote bytes of files that are no UTF-8.
          const nb::object message = nb::steal(PyUnicode_DecodeUTF8(
              e.what(), static_cast<Py_ssize_t>(std::char_traits<char>::length(e.what())),
              "backslashreplace"));
          const nb::object error = nb::handle(error_class)(message, ErrorKindName(e.kind()));
          PyErr_SetObject(error_class, error.ptr());
        }
      },
      nullptr);
}

// The program's commands, for the `banyan` command of the package.
void AddCommand(nb::module_& module) {
  // Runs in this process, which should do nothing else: signals and standard streams are the
  // program's. `input_names`: path → what rows and messages call the file.
  module.def("run_program", [](std::vector<std::string> arguments,
                               const std::map<std::string, std::string>& input_names) {
    std::vector<char*> pointers;
    for (std::string& argument : arguments) pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    app::InputNames() = input_names;
    const nb::gil_scoped_release unlocked;
    return app::RunProgram(static_cast<int>(arguments.size()), pointers.data());
  });
}

}  // namespace banyan::python

NB_MODULE(_native, module) {
  nanobind::set_leak_warnings(false);  // a forked child leaks on purpose
  module.attr("version") = BANYAN_VERSION;
  banyan::python::AddErrors(module);
  banyan::python::AddModel(module);
  banyan::python::AddEngine(module);
  banyan::python::AddJobs(module);
  banyan::python::AddEncoder(module);
  banyan::python::AddRetrieval(module);
  banyan::python::AddRows(module);
  banyan::python::AddCommand(module);
}
