// What an input file holds, by its name or by its first bytes.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace banyan {

enum class InputKind { kJsonLines, kJson, kCsv, kTsv, kText, kHtml, kPdf };

// "jsonl", "json", "csv", "tsv", "text", "html", "pdf"; nothing for other words.
std::optional<InputKind> InputKindNamed(std::string_view word);

// By the name's ending, a packing's (.gz, .zst) aside; nothing for one that we do not know.
std::optional<InputKind> InputKindOfFile(std::string_view path);

// By how the bytes begin, of which the first line that is not blank should be there: a PDF, a page
// of HTML, JSON, a table whose header has one column of each list in `needed` (and another one),
// else plain text. `delimiter` 0: as the header has it.
InputKind InputKindOfBytes(std::string_view head,
                           const std::vector<std::vector<std::string>>& needed = {},
                           char delimiter = 0);

// A file of the kind is one document; the others have rows.
bool IsDocument(InputKind kind);

// Throws kUsage, with what to do, for endings of formats that people have and we cannot read.
void RefuseForeignFormat(const std::string& path);

}  // namespace banyan
