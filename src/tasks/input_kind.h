// What an input file holds, by its name or by its first bytes.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace banyan {

enum class InputKind { kJsonLines, kCsv, kTsv, kText, kHtml, kPdf };

// "jsonl", "csv", "tsv", "text", "html", "pdf"; nothing for other words.
std::optional<InputKind> InputKindNamed(std::string_view word);

// By the name's ending, a packing's (.gz, .zst) aside; nothing for one that we do not know.
std::optional<InputKind> InputKindOfFile(std::string_view path);

// By how the bytes begin: a brace is JSONL, everything else that is no PDF is plain text.
InputKind InputKindOfBytes(std::string_view head);

// A file of the kind is one document; the others have rows.
bool IsDocument(InputKind kind);

// Throws kUsage, with what to do, for endings of formats that people have and we cannot read.
void RefuseForeignFormat(const std::string& path);

}  // namespace banyan
