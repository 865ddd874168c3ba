// Files that people have, as text for a model: plain text, HTML, PDF. One file is one document.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "banyan/error.h"
#include "base/byte_source.h"

namespace banyan {

enum class DocumentKind { kPlain, kHtml, kPdf };

// A text in another encoding than UTF-8; every door adds what can be done there.
class NotUtf8 : public Error {
 public:
  // `encoding`: what it probably is.
  NotUtf8(const std::string& what, std::string encoding)
      : Error(ErrorKind::kInput, what), encoding_(std::move(encoding)) {}
  const std::string& encoding() const { return encoding_; }

 private:
  std::string encoding_;
};

// The whole text of a source, in UTF-8 without a byte order mark. Throws kLimit beyond `max_bytes`,
// NotUtf8, kInput for what holds zero bytes (no text at all), kUnsupported where the machine
// has no program for the kind. Heeds the thread's budget (base/work_budget.h). Takes memory for
// about three times what it reads, unpacked.
std::string ReadDocument(ByteSource& source, DocumentKind kind, size_t max_bytes,
                         const std::atomic<bool>* cancelled);

// What a browser would show as text: no scripts and styles, blocks on lines of their own, runs of
// spaces as one. Any bytes give some text, in time linear in their number; kUnsupported when
// this build has no table of HTML's characters.
std::string HtmlText(std::string_view html);

// The text that poppler's `pdftotext` finds. Throws kUnsupported when the program is not installed,
// kInput when it finds nothing or refuses the file, kLimit when it takes more than 60 s of a
// processor or 1 GiB. Empty when `cancelled`.
std::string PdfText(std::string_view pdf, size_t max_bytes, const std::atomic<bool>* cancelled);

}  // namespace banyan
