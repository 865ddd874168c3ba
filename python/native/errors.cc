#include "bound.h"

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

}  // namespace banyan::python
