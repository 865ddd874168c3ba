// What an index is made of: files and folders → documents → passages. Plain text, Markdown, HTML
// and PDF are one document per file, JSONL one per line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "banyan/retrieval.h"

namespace banyan {

// A document that is not divided yet.
struct WholeDocument {
  std::string id, title, text;
};

// The document in passages of at most so many words, divided after paragraphs where that leaves
// half full ones, else after sentences, else after words. A document that fits is one passage with
// its own id; the passages of others are called id#1, id#2 …. Space around passages is left out.
void AppendPassages(const WholeDocument& document, int most_words, std::vector<Passage>& passages);

// The file of an index, which is not a document.
inline constexpr char kIndexFileName[] = "index.banyan";

struct FoundFiles {
  std::vector<std::string> files;
  // Inputs and folders below them that could not be read, each with why.
  std::vector<std::pair<std::string, std::string>> unreadable;
};

// The input files, and for a folder all files below it in the order of their names, without hidden
// ones. A link in a folder that leads out of it is left out: whoever may put a file there could
// show any file of this machine. Files that are inputs themselves are read, links or not. Throws
// kNotFound naming an input that does not exist.
FoundFiles FilesOf(const std::vector<std::string>& inputs);

// Whether a link in a folder, or below it, is to something outside of the folder.
bool LeadsOut(const std::filesystem::path& link, const std::filesystem::path& folder);

struct DocumentVisitor {
  std::function<void(const WholeDocument&)> document;
  // A file or a line that is left out, and why, as a sentence.
  std::function<void(const std::string&)> left_out;
};

// Visits what the file holds: rows of .jsonl and .ndjson, HTML by its ending, a PDF by its ending
// or first bytes, everything else as plain text; .gz and .zst are unpacked.
void VisitDocuments(const std::string& file, const DocumentVisitor& visitor);

}  // namespace banyan
