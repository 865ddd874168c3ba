// Unigram by Viterbi, WordPiece by longest match.
#include "text/tokenizer/token_model.h"

#include <algorithm>

#include "base/error.h"
#include "text/unicode.h"

namespace banyan {

namespace {

constexpr double kUnknownPenalty = 10.0;

struct BestPath {  // the best segmentation that ends at a byte
  double score = 0;
  std::int64_t begin = -1;  // of its last piece; -1: not reached
  TokenId id = -1;          // -1: unknown character
};

}  // namespace

UnigramModel::UnigramModel(Vocabulary vocabulary, std::vector<double> scores,
                           UnigramOptions options, const TokenSet& unmatched)
    : TokenModel(std::move(vocabulary)),
      scores_(std::move(scores)),
      options_(options),
      byte_tokens_(options.byte_fallback ? FindByteTokens(this->vocabulary())
                                         : std::vector<TokenId>(256, -1)) {
  std::vector<std::pair<std::string_view, std::int32_t>> keys;
  double minimum = 0;
  for (size_t i = 0; i < scores_.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    minimum = i == 0 ? scores_[i] : std::min(minimum, scores_[i]);
    const std::string_view text = this->vocabulary().Text(id);
    if (!unmatched.Contains(id) && this->vocabulary().Find(text) == id) keys.emplace_back(text, id);
  }
  trie_ = ByteTrie(std::move(keys));
  unk_score_ = minimum - kUnknownPenalty;
}

void UnigramModel::Encode(std::string_view piece, const TokenSet* forbidden,
                          std::vector<TokenId>& out) const {
  std::vector<BestPath> best(piece.size() + 1);
  const auto offer = [&](size_t begin, size_t end, double score, TokenId id) {
    BestPath& target = best[end];
    if (target.begin < 0 || score > target.score) {
      target = {score, static_cast<std::int64_t>(begin), id};
    }
  };
  for (size_t begin = 0; begin < piece.size();) {
    const double score = best[begin].score;
    const size_t length = ReadUtf8(piece, begin).length;
    bool has_single = false;
    trie_.ForEachPrefix(piece, begin, [&](size_t matched, TokenId id) {
      if (forbidden != nullptr && forbidden->Contains(id)) return;
      offer(begin, begin + matched, score + scores_[static_cast<size_t>(id)], id);
      has_single = has_single || matched == length;
    });
    if (!has_single) offer(begin, begin + length, score + unk_score_, -1);
    begin += length;
  }

  struct Piece {
    size_t begin, end;
    TokenId id;
  };
  std::vector<Piece> path;  // last piece first
  const auto is_unknown = [&](TokenId id) { return id < 0 || id == options_.unk; };
  for (size_t end = piece.size(); end > 0;) {
    const auto begin = static_cast<size_t>(best[end].begin);
    const TokenId id = best[end].id;
    if (is_unknown(id) && !path.empty() && is_unknown(path.back().id)) {
      path.back().begin = begin;  // neighbouring unknown characters are one unknown token
    } else {
      path.push_back({begin, end, id});
    }
    end = begin;
  }
  for (auto p = path.rbegin(); p != path.rend(); ++p) {
    if (!is_unknown(p->id)) {
      out.push_back(p->id);
      continue;
    }
    const std::string_view bytes = piece.substr(p->begin, p->end - p->begin);
    const auto byte_token = [&](char b) { return byte_tokens_[static_cast<unsigned char>(b)]; };
    if (options_.byte_fallback &&
        std::all_of(bytes.begin(), bytes.end(), [&](char b) { return byte_token(b) >= 0; })) {
      for (const char b : bytes) out.push_back(byte_token(b));
    } else if (options_.unk) {
      out.push_back(*options_.unk);
    } else {
      Throw(ErrorKind::kInput, "the tokenizer has neither a token for '{}' nor an unknown token",
            bytes.substr(0, 64));
    }
  }
}

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
    const std::string_view prefix = begin == 0 ? std::string_view() : options_.continuing_prefix;
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
