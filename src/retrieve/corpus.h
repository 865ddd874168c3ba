// What an index is made of: files and folders → documents → passages. Plain text, Markdown, HTML
// and PDF are one document per file, JSONL one per line.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/retrieval.h"
#include "documents/folder_files.h"

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
  // Inputs and folders below them that could not be read, and links that lead out of a folder.
  std::vector<FileAndReason> unreadable;
  std::vector<FileAndReason> no_documents;  // below folders: hidden ones, links to nothing, pipes
};

// The input files, and for a folder all files below it in the order of their names, without hidden
// ones. A link in a folder that leads out of it is left out: whoever may put a file there could
// show any file of this machine. Files that are inputs themselves are read, links or not. Throws
// kNotFound naming an input that does not exist.
FoundFiles FilesOf(const std::vector<std::string>& inputs);

struct DocumentVisitor {
  std::function<void(const WholeDocument&)> document;
  // A file or a line ("rows.jsonl, line 3") that is left out, and why.
  std::function<void(const std::string& place, const std::string& why)> left_out;
};

// The message without the file's name that it may begin with.
std::string WithoutName(std::string_view message, const std::string& file);

// Visits what the file holds: rows of .jsonl and .ndjson, HTML by its ending, a PDF by its ending
// or first bytes, everything else as plain text; .gz and .zst are unpacked.
void VisitDocuments(const std::string& file, const DocumentVisitor& visitor);

}  // namespace banyan
