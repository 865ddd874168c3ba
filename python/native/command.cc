// The program's commands, for the `banyan` command of the package.
#include "bound.h"
#include "options.h"
#include "program.h"

namespace banyan::python {

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
