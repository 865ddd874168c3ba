// Which files a job reads, and what each of them holds.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
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

// What an input file holds, by its name or by its first bytes.
enum class InputKind { kJsonLines, kJson, kCsv, kTsv, kText, kHtml, kPdf };

// "jsonl", "json", "csv", "tsv", "text", "html", "pdf"; nothing for other words.
std::optional<InputKind> InputKindNamed(std::string_view word);

// By the name's ending, a packing's (.gz, .zst) aside; nothing for one that we do not know.
std::optional<InputKind> InputKindOfFile(std::string_view path);

// By how the bytes begin, of which the first line that is not blank should be there: a PDF, a page
// of HTML, JSON, a table whose header has one column of each list in `needed`, or nearly its name
// where a document has none (and another one), else plain text. `delimiter` 0: as the header says.
InputKind InputKindOfBytes(std::string_view head,
                           const std::vector<std::vector<std::string>>& needed = {},
                           char delimiter = 0);

// A file of the kind is one document; the others have rows.
bool IsDocument(InputKind kind);

// Throws kUsage, with what to do, for endings of formats that people have and we cannot read.
void RefuseForeignFormat(const std::string& path);

}  // namespace banyan
