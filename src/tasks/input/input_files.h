// Which files a job reads: names, folders and patterns expanded.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace banyan {

// Files as they are given, "-" as it is; the files of a folder, and of those in it, that have an
// ending we read, without hidden ones; the files that match a pattern. Each folder's and pattern's
// files are sorted. A folder that cannot be listed stands for itself: opening it says why. Neither
// a folder nor a pattern ever means the job's own output, nor any journal. `notice`, which may be
// empty, hears what was left out of folders. Throws kNotFound for what matches nothing.
std::vector<std::string> ExpandInputs(const std::vector<std::string>& inputs,
                                      const std::string& output,
                                      const std::function<void(const std::string&)>& notice = {});

}  // namespace banyan
