#include "text/wordpiece_model.h"

#include <algorithm>

#include "text/utf8.h"

namespace banyan {

WordPieceModel::WordPieceModel(Vocabulary vocabulary, WordPieceOptions options)
    : TokenModel(std::move(vocabulary)), options_(std::move(options)) {
  for (size_t i = 0; i < this->vocabulary().size(); ++i) {
    longest_token_ =
        std::max(longest_token_, this->vocabulary().Text(static_cast<TokenId>(i)).size());
  }
}

void WordPieceModel::Encode(std::string_view piece, const TokenSet* forbidden,
                            std::vector<TokenId>& out) const {
  std::vector<size_t> boundaries{0};  // byte offsets of the characters, and the end
  for (size_t i = 0; i < piece.size();) {
    i += ReadUtf8(piece, i).length;
    boundaries.push_back(i);
  }
  const size_t characters = boundaries.size() - 1;
  if (characters > options_.max_characters) {
    out.push_back(options_.unk);
    return;
  }
  const size_t first_output = out.size();
  std::string candidate;
  for (size_t begin = 0; begin < characters;) {
    const std::string& prefix = begin == 0 ? options_.first_prefix : options_.continuing_prefix;
    size_t end = std::min(characters, begin + longest_token_);
    TokenId found = -1;
    for (; end > begin; --end) {
      const size_t length = boundaries[end] - boundaries[begin];
      if (prefix.size() + length > longest_token_) continue;
      candidate = prefix;
      candidate += piece.substr(boundaries[begin], length);
      found = vocabulary().Find(candidate).value_or(-1);
      if (found >= 0 && (forbidden == nullptr || !forbidden->Contains(found))) break;
      found = -1;
    }
    if (found < 0) {
      out.resize(first_output);
      out.push_back(options_.unk);
      return;
    }
    out.push_back(found);
    begin = end;
  }
}

}  // namespace banyan
