// The bytes of a source as text, by the kind of document.
#include "documents/document_text.h"

#include "base/error.h"
#include "base/work_budget.h"
#include "text/unicode.h"

namespace banyan {
namespace {

std::string ReadAll(ByteSource& source, size_t max_bytes) {
  std::string bytes;
  constexpr size_t kChunkBytes = 1 << 16;
  while (true) {
    const size_t before = bytes.size();
    bytes.resize(before + kChunkBytes);
    const size_t got = source.Read(std::span(bytes.data() + before, kChunkBytes));
    bytes.resize(before + got);
    if (got == 0) return bytes;
    if (bytes.size() > max_bytes) Throw(ErrorKind::kLimit, "longer than {} bytes", max_bytes);
    CheckBudget();
    ChargeBudget(got);
  }
}

}  // namespace

std::string ReadDocument(ByteSource& source, DocumentKind kind, size_t max_bytes,
                         const std::atomic<bool>* cancelled) {
  std::string text = ReadAll(source, max_bytes);
  if (kind == DocumentKind::kPdf) text = PdfText(text, max_bytes, cancelled);
  if (text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF")) {
    throw NotUtf8("UTF-16, and UTF-8 is expected", "UTF-16");
  }
  if (kind == DocumentKind::kHtml) return HtmlText(text);
  if (text.find('\0') != std::string::npos) {
    Throw(ErrorKind::kInput, "holds zero bytes: no text");
  }
  if (!IsValidUtf8(text)) throw NotUtf8("not valid UTF-8", "windows-1252");
  return text;
}

}  // namespace banyan
