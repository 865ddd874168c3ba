// Formats that people have and that are not read here: what they are, and how to convert them. One
// sentence for every door: jobs, folders, indexes.
#pragma once

#include <string>

namespace banyan {

// "a Word document, which is not read here; convert it: pandoc …", by the file's name; empty for
// other names.
std::string ForeignAdvice(const std::string& path);

}  // namespace banyan
