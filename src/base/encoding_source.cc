#include "base/encoding_source.h"

#include <iconv.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <span>

#include "base/error.h"

namespace banyan {
namespace {

// As iconv calls it: people write "latin-1", "Latin1" and "cp1252".
std::string SystemName(const std::string& encoding) {
  std::string name;
  for (const char c : encoding) {
    if (c != '-' && c != '_' && c != ' ') {
      name += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    }
  }
  if (name == "LATIN1" || name == "ISO88591") return "ISO-8859-1";
  if (name == "CP1252" || name == "WINDOWS1252" || name == "ANSI") return "WINDOWS-1252";
  if (name == "UTF8") return "UTF-8";
  return encoding;
}

class Decoder : public ByteSource {
 public:
  Decoder(std::unique_ptr<ByteSource> source, const std::string& encoding)
      : source_(std::move(source)), name_(encoding) {
    CheckEncoding(encoding);
    converter_ = ::iconv_open("UTF-8", SystemName(encoding).c_str());
  }
  ~Decoder() override { ::iconv_close(converter_); }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  size_t Read(std::span<char> out) override {
    while (given_ == decoded_.size() && !ended_) Decode();
    const size_t count = std::min(out.size(), decoded_.size() - given_);
    std::memcpy(out.data(), decoded_.data() + given_, count);
    given_ += count;
    return count;
  }
  std::int64_t position() const override { return source_->position(); }

 private:
  // The next bytes of the source; a character that they cut waits for its rest.
  void Decode() {
    constexpr size_t kChunkBytes = 1 << 14;
    const size_t kept = waiting_.size();
    waiting_.resize(kept + kChunkBytes);
    const size_t got = source_->Read(std::span(waiting_.data() + kept, kChunkBytes));
    waiting_.resize(kept + got);
    ended_ = got == 0;
    // No character of any encoding takes more than four times its bytes in UTF-8.
    decoded_.resize(4 * waiting_.size() + 16);
    char* in = waiting_.data();
    char* to = decoded_.data();
    size_t left = waiting_.size(), room = decoded_.size();
    const size_t result = ::iconv(converter_, &in, &left, &to, &room);
    const int reason = result == static_cast<size_t>(-1) ? errno : 0;
    const size_t taken = waiting_.size() - left;
    if (reason == EILSEQ || (reason == EINVAL && ended_) || reason == E2BIG) {
      Throw(ErrorKind::kInput, "not valid {} at byte {}", name_, taken_ + taken + 1);
    }
    decoded_.resize(decoded_.size() - room);
    given_ = 0;
    taken_ += taken;
    waiting_.erase(0, taken);
  }

  std::unique_ptr<ByteSource> source_;
  std::string name_;
  iconv_t converter_;
  std::string waiting_;  // read and not decoded
  std::string decoded_;
  size_t given_ = 0;  // of `decoded_`
  size_t taken_ = 0;  // bytes decoded
  bool ended_ = false;
};

}  // namespace

void CheckEncoding(const std::string& encoding) {
  const iconv_t converter = ::iconv_open("UTF-8", SystemName(encoding).c_str());
  if (converter == reinterpret_cast<iconv_t>(-1)) {
    Throw(ErrorKind::kUsage,
          "--encoding: expected the name of an encoding, such as latin-1, windows-1252 or UTF-16; "
          "found '{}'",
          encoding);
  }
  ::iconv_close(converter);
}

std::unique_ptr<ByteSource> DecodedSource(std::unique_ptr<ByteSource> source,
                                          const std::string& encoding) {
  return std::make_unique<Decoder>(std::move(source), encoding);
}

}  // namespace banyan
