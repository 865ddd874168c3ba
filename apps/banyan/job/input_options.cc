#include "job/input_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "banyan/error.h"
#include "program/option_table.h"
#include "shell/table_options.h"

namespace banyan::app {

void InputWords::AddTo(CLI::App& command, JobOptions& job, const std::string& example) {
  TableOptions().AddTo(command, Bind(job), {"Input"});
  command
      .add_option("--field", fields,
                  fmt::format("Map a field to the input's name for it, e.g. {}; "
                              "PATTERN:OURS=THEIRS: only in files with such a name",
                              example))
      ->type_name("OURS=THEIRS")
      ->allow_extra_args(false)
      ->group("Input");
}

void InputWords::AddRecordsTo(CLI::App& command, JobOptions& job) {
  TableOptions().AddTo(command, Bind(job), {"Records"}, "Input");
}

void InputWords::AddOutputTo(CLI::App& command, JobOptions& job) {
  TableOptions().AddTo(command, Bind(job), {"Output"});
}

void InputWords::Resolve(const std::vector<std::string>& known, JobOptions& job) const {
  for (const std::string& field : fields) {
    const size_t equals = field.find('=');
    const std::string left = field.substr(0, equals);
    const size_t colon = left.rfind(':');
    const bool of_files = colon != std::string::npos;
    std::string ours = of_files ? left.substr(colon + 1) : left;
    if (std::ranges::find(known, ours) == known.end()) {  // one name of the document for the other
      if (ours == "text")
        ours = "context";
      else if (ours == "context")
        ours = "text";
    }
    const bool valid = equals != std::string::npos && equals + 1 < field.size() && colon != 0 &&
                       std::ranges::find(known, ours) != known.end();
    if (!valid) {
      throw Error(ErrorKind::kUsage,
                  fmt::format("--field: expected OURS=THEIRS or PATTERN:OURS=THEIRS with OURS one "
                              "of {}; found '{}'",
                              fmt::join(known, ", "), field));
    }
    const std::string theirs = field.substr(equals + 1);
    if (of_files) {
      job.file_fields.push_back({left.substr(0, colon), ours, theirs});
    } else {
      job.fields[ours] = theirs;
    }
  }
}

}  // namespace banyan::app
