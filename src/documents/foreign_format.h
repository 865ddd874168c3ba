// Formats that people have and that are not read here: what they are, and how to convert them. One
// sentence for every door: jobs, folders, indexes.
#pragma once

#include <string>
#include <string_view>

namespace banyan {

// Between what a file is and the command that converts it.
inline constexpr std::string_view kConvertIt = "; convert it: ";

// "a Word document, which is not read here; convert it: pandoc …", by the file's name; empty for
// other names.
std::string ForeignAdvice(const std::string& path);

// The text as one word of a shell.
std::string ShellWord(const std::string& text);

}  // namespace banyan
