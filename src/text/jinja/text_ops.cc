#include "text/jinja/text_ops.h"

#include "text/jinja/print.h"

namespace banyan::jinja {

Text Trim(Runtime& runtime, const Text& text, const std::string* chars, TrimSides sides) {
  runtime.Bytes(text.size());
  if (chars != nullptr) runtime.Step(static_cast<int64_t>(chars->size()));
  // A long set of characters costs time for each one dropped.
  if (chars != nullptr && chars->size() > 64) {
    runtime.Step(static_cast<int64_t>(text.size() * (chars->size() / 64)));
  }
  const ByteRange range = TrimmedRange(text.bytes(), chars, sides);
  return text.Slice(range.begin, range.end);
}

Text Replace(Runtime& runtime, const Text& text, const Text& from, const Text& to, int64_t count) {
  const std::string& bytes = text.bytes();
  Text out;
  const auto add = [&](const Text& part, size_t begin, size_t end) {
    runtime.Bytes(end - begin);
    if (out.size() + end - begin > runtime.limits.output_bytes) runtime.Bytes(out.size() + end);
    out.AppendSlice(part, begin, end);
  };
  runtime.Bytes(text.size());
  size_t done = 0;
  for (size_t search = 0; count != 0; --count) {
    runtime.Step();
    size_t at = bytes.find(from.bytes(), search);
    if (at == std::string::npos) break;
    add(text, done, at);
    add(to, 0, to.size());
    done = at + from.size();
    search = done;
    if (from.empty()) {  // between every two characters
      if (done >= bytes.size()) break;
      search = done + CharLength(bytes, done);
    }
  }
  add(text, done, bytes.size());
  return out;
}

Text JoinTexts(Runtime& runtime, const std::vector<Value>& items, const Text& separator) {
  Text out;
  for (size_t i = 0; i < items.size(); ++i) {
    const Text part = Str(runtime, items[i]);
    const size_t size = out.size() + separator.size() + part.size();
    if (size > runtime.limits.output_bytes) runtime.Bytes(size);
    runtime.Bytes(separator.size() + part.size());
    if (i > 0) out.Append(separator);
    out.Append(part);
  }
  return out;
}

}  // namespace banyan::jinja
