// banyan._native: the library for Python. What people use is the package around it (python/banyan),
// which has the types, defaults and documentation.
#include "banyan/version.h"
#include "bound.h"

NB_MODULE(_native, module) {
  nanobind::set_leak_warnings(false);  // a forked child leaks on purpose
  module.attr("version") = BANYAN_VERSION;
  banyan::python::AddErrors(module);
  banyan::python::AddModel(module);
  banyan::python::AddEngine(module);
  banyan::python::AddJobs(module);
  banyan::python::AddEncoder(module);
  banyan::python::AddRetrieval(module);
  banyan::python::AddCommand(module);
}
