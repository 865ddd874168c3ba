// Files and folders → documents for an index, each with its text: plain text, Markdown, HTML and
// PDF are one document a file, JSONL one a line.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "retrieve/passages.h"

namespace banyan {

// The file of an index, which is no document.
inline constexpr char kIndexFileName[] = "index.banyan";

struct FoundFiles {
  std::vector<std::string> files;
  // Inputs and folders below them that could not be read, each with why.
  std::vector<std::pair<std::string, std::string>> unreadable;
};

// The files that are meant: a folder's own and those of folders in it in order of their names,
// hidden ones aside. Throws kNotFound naming an input that is not there.
FoundFiles FilesOf(const std::vector<std::string>& inputs);

struct DocumentVisitor {
  std::function<void(const WholeDocument&)> document;
  // A file or a line that is left out, and why, as a sentence.
  std::function<void(const std::string&)> left_out;
};

// The files that are meant: a folder's own and those of folders in it in order of their names,
// hidden ones aside. A link in a folder that leads out of it is left out: whoever may put a file
// there could show any file of this machine. Files that are named themselves are read, links or
// not. Throws kNotFound naming an input that is not there.
std::vector<std::string> FilesOf(const std::vector<std::string>& inputs,
                                 const DocumentVisitor& visitor);

// Visits what the file holds: rows of .jsonl and .ndjson, HTML by its ending, a PDF by its ending
// or first bytes, everything else as plain text; .gz and .zst are unpacked.
void VisitDocuments(const std::string& file, const DocumentVisitor& visitor);

}  // namespace banyan
