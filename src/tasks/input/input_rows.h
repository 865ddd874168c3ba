// The rows of one input file, kind by kind.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/byte_source.h"
#include "documents/document_text.h"
#include "tasks/input/input.h"

namespace banyan {

inline constexpr size_t kMaxRowBytes = 256u << 20;

class InputRows {
 public:
  virtual ~InputRows() = default;
  virtual bool Next(InputRow& row) = 0;  // fills line, content, value or problem
  virtual std::int64_t line() const = 0;
  virtual std::int64_t position() const = 0;
  // The whole file is one document; its fields have our names already.
  virtual bool is_document() const { return false; }
  // A field without any character says nothing.
  virtual bool blank_is_none() const { return false; }
  // Of a table; nothing for what is none. Reads the header. Throws as Next.
  virtual std::vector<std::string> Columns() { return {}; }
  // Between the fields of a table's rows; 0: of none.
  virtual char delimiter() const { return 0; }
};

// Lines without `mark` are passed over.
std::unique_ptr<InputRows> MakeJsonLines(std::unique_ptr<ByteSource> source, std::string mark = {});

// A JSON file: rows of an array, or one object; what is neither is read as JSONL.
std::unique_ptr<InputRows> MakeJsonRows(std::unique_ptr<ByteSource> source);

// Sets the row's value, or its problem, from its content.
void ReadJsonRow(InputRow& row);

// Sets a `delimiter` that is 0 to that of the header. The source begins where it did.
std::unique_ptr<ByteSource> FindDelimiter(std::unique_ptr<ByteSource> source, char& delimiter);

// `delimiter` 0: as the header has it. `check` hears the header's names and throws when they do not
// do.
std::unique_ptr<InputRows> MakeCsvRows(std::unique_ptr<ByteSource> source, char delimiter,
                                       std::function<void(const std::vector<std::string>&)> check);

// One row, whose `field` is the text of the whole file.
std::unique_ptr<InputRows> MakeDocument(std::unique_ptr<ByteSource> source, DocumentKind kind,
                                        std::string field, const std::atomic<bool>* cancelled);

}  // namespace banyan
