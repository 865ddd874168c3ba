// Merges short words by scanning, long ones with a heap.
#include "text/tokenizer/bpe_model.h"

#include <algorithm>
#include <array>
#include <bit>
#include <queue>
#include <tuple>

#include "base/per_thread.h"
#include "text/unicode.h"

namespace banyan {

namespace {

// Up to this many symbols a scan for the best pair beats a heap.
constexpr size_t kShortWord = 32;
constexpr char32_t kCharacterTable = 0x800;

std::uint64_t PairOf(TokenId left, TokenId right) {
  return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32) |
         static_cast<std::uint32_t>(right);
}

struct Scratch {
  std::vector<TokenId> symbols;  // of a word
};

}  // namespace

MergeTable::MergeTable(size_t expected) {
  const size_t slots = std::bit_ceil(std::max<size_t>(16, expected * 2));
  slots_.resize(slots);
  shift_ = 64 - std::countr_zero(slots);
}

size_t MergeTable::SlotFor(std::uint64_t pair) const {
  const size_t mask = slots_.size() - 1;
  size_t slot = ((pair ^ (pair >> 29)) * 0x9E3779B97F4A7C15ull) >> shift_;
  while (slots_[slot].pair != pair && slots_[slot].pair != kFree) slot = (slot + 1) & mask;
  return slot;
}

void MergeTable::Grow() {
  std::vector<Slot> old(slots_.size() * 2);
  old.swap(slots_);
  --shift_;
  for (const Slot& slot : old) {
    if (slot.pair != kFree) slots_[SlotFor(slot.pair)] = slot;
  }
}

void MergeTable::Set(TokenId left, TokenId right, Merge merge) {
  if ((used_ + 1) * 4 > slots_.size() * 3) Grow();
  Slot& slot = slots_[SlotFor(PairOf(left, right))];
  if (slot.pair == kFree) ++used_;
  slot = {PairOf(left, right), merge};
}

MergeTable::Merge MergeTable::Find(TokenId left, TokenId right) const {
  return slots_[SlotFor(PairOf(left, right))].merge;
}

BpeModel::BpeModel(Vocabulary vocabulary, MergeTable merges, BpeOptions options)
    : TokenModel(std::move(vocabulary)),
      merges_(std::move(merges)),
      options_(std::move(options)),
      byte_tokens_(options_.byte_fallback ? FindByteTokens(this->vocabulary())
                                          : std::vector<TokenId>(256, -1)) {
  has_affixes_ = !options_.continuing_prefix.empty() || !options_.word_suffix.empty();
  if (has_affixes_) return;
  std::string character;
  for (char32_t code = 0; code < kCharacterTable; ++code) {
    character.clear();
    AppendUtf8(code, character);
    character_ids_.push_back(this->vocabulary().Find(character).value_or(-1));
  }
}

bool BpeModel::CanCutAtMetaspace() const {
  constexpr std::string_view kMetaspace = "\u2581";
  if (has_affixes_ || options_.ignore_merges || !vocabulary().Find(kMetaspace)) return false;
  bool can_cut = true;
  merges_.ForEachResult([&](TokenId id) {
    const std::string_view token = vocabulary().Text(id);
    size_t begin = 0;
    while (token.substr(begin).starts_with(kMetaspace)) begin += kMetaspace.size();
    can_cut = can_cut && token.find(kMetaspace, begin) == std::string_view::npos;
  });
  return can_cut;
}

// The character at [begin, begin + length) with the prefix and suffix of its place in the word.
std::string BpeModel::Spell(std::string_view piece, size_t begin, size_t length) const {
  std::string spelled = begin == 0 ? std::string() : options_.continuing_prefix;
  spelled += piece.substr(begin, length);
  if (begin + length == piece.size()) spelled += options_.word_suffix;
  return spelled;
}

void BpeModel::AppendCharacters(std::string_view piece, const TokenSet* forbidden,
                                std::vector<TokenId>& symbols) const {
  bool unk_pending = false;
  for (size_t i = 0; i < piece.size();) {
    const Utf8Character c = ReadUtf8(piece, i);
    const size_t begin = i;
    i += c.length;
    std::string_view bytes = piece.substr(begin, c.length);
    std::string spelled;
    if (has_affixes_) {
      spelled = Spell(piece, begin, c.length);
      bytes = spelled;
    }
    TokenId id = c.code < character_ids_.size() ? character_ids_[c.code]
                                                : vocabulary().Find(bytes).value_or(-1);
    if (forbidden != nullptr && forbidden->Contains(id)) id = -1;
    if (id >= 0) {
      if (unk_pending) symbols.push_back(*options_.unk);
      unk_pending = false;
      symbols.push_back(id);
      continue;
    }
    const auto byte_token = [&](char b) { return byte_tokens_[static_cast<unsigned char>(b)]; };
    if (options_.byte_fallback &&
        std::all_of(bytes.begin(), bytes.end(), [&](char b) { return byte_token(b) >= 0; })) {
      for (const char b : bytes) symbols.push_back(byte_token(b));
    } else if (options_.unk) {
      if (unk_pending && !options_.fuse_unk) symbols.push_back(*options_.unk);
      unk_pending = true;
    }
  }
  if (unk_pending) symbols.push_back(*options_.unk);
}

MergeTable::Merge BpeModel::FindMerge(TokenId left, TokenId right,
                                      const TokenSet* forbidden) const {
  const MergeTable::Merge merge = merges_.Find(left, right);
  if (forbidden != nullptr && forbidden->Contains(merge.id)) return {};
  return merge;
}

void BpeModel::MergeShort(std::vector<TokenId>& symbols, const TokenSet* forbidden) const {
  std::array<MergeTable::Merge, kShortWord + 1> pairs;  // pairs[i] joins symbols i and i + 1
  size_t count = symbols.size();
  for (size_t i = 0; i + 1 < count; ++i) {
    pairs[i] = FindMerge(symbols[i], symbols[i + 1], forbidden);
  }
  while (count > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; ++i) {
      if (pairs[i].rank < pairs[best].rank) best = i;
    }
    if (pairs[best].rank == MergeTable::kNone) break;
    symbols[best] = pairs[best].id;
    for (size_t i = best + 1; i + 1 < count; ++i) {
      symbols[i] = symbols[i + 1];
      pairs[i] = pairs[i + 1];  // the last one is not read again
    }
    --count;
    if (best + 1 < count) pairs[best] = FindMerge(symbols[best], symbols[best + 1], forbidden);
    if (best > 0) pairs[best - 1] = FindMerge(symbols[best - 1], symbols[best], forbidden);
  }
  symbols.resize(count);
}

struct BpeModel::Symbol {
  TokenId id;  // -1: swallowed by its left neighbour
  std::int32_t previous, next;
};

void BpeModel::MergeLong(std::vector<TokenId>& symbols, const TokenSet* forbidden) const {
  struct Candidate {
    std::uint32_t rank;
    std::int32_t position;
    TokenId id;
    bool operator>(const Candidate& o) const {
      return std::tie(rank, position) > std::tie(o.rank, o.position);
    }
  };
  const auto count = static_cast<std::int32_t>(symbols.size());
  std::vector<Symbol> list(symbols.size());
  std::vector<Candidate> initial;
  const auto at = [&](std::int32_t i) -> Symbol& { return list[static_cast<size_t>(i)]; };
  for (std::int32_t i = 0; i < count; ++i) {
    at(i) = {symbols[static_cast<size_t>(i)], i - 1, i + 1 < count ? i + 1 : -1};
  }
  for (std::int32_t i = 0; i + 1 < count; ++i) {
    const MergeTable::Merge merge = FindMerge(at(i).id, at(i + 1).id, forbidden);
    if (merge.rank != MergeTable::kNone) initial.push_back({merge.rank, i, merge.id});
  }
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue(std::greater<>{},
                                                                               std::move(initial));
  const auto offer = [&](std::int32_t left) {
    if (left < 0 || at(left).next < 0) return;
    const MergeTable::Merge merge = FindMerge(at(left).id, at(at(left).next).id, forbidden);
    if (merge.rank != MergeTable::kNone) queue.push({merge.rank, left, merge.id});
  };
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    Symbol& left = at(best.position);
    if (left.id < 0 || left.next < 0) continue;
    Symbol& right = at(left.next);
    // Symbols only grow, so a pair at this place that makes the same token is the same pair.
    if (FindMerge(left.id, right.id, forbidden).id != best.id) continue;
    left.id = best.id;
    left.next = right.next;
    right.id = -1;
    if (left.next >= 0) at(left.next).previous = best.position;
    offer(left.previous);
    offer(best.position);
  }
  symbols.clear();
  for (const Symbol& symbol : list) {
    if (symbol.id >= 0) symbols.push_back(symbol.id);
  }
}

void BpeModel::Encode(std::string_view piece, const TokenSet* forbidden,
                      std::vector<TokenId>& out) const {
  if (options_.ignore_merges) {
    const std::optional<TokenId> whole = vocabulary().Find(piece);
    if (whole && (forbidden == nullptr || !forbidden->Contains(*whole))) {
      out.push_back(*whole);
      return;
    }
  }
  std::vector<TokenId>& symbols = PerThread<Scratch>::Get().symbols;
  symbols.clear();
  AppendCharacters(piece, forbidden, symbols);
  if (symbols.size() <= kShortWord) {
    MergeShort(symbols, forbidden);
  } else {
    MergeLong(symbols, forbidden);
  }
  out.insert(out.end(), symbols.begin(), symbols.end());
  if (symbols.capacity() > (1u << 16)) std::vector<TokenId>().swap(symbols);
}

MergeTable MergesFromScores(const Vocabulary& vocabulary, const std::vector<float>& scores,
                            const TokenSet& excluded) {
  std::vector<float> ordered(scores);
  std::sort(ordered.begin(), ordered.end(), std::greater<>());
  ordered.erase(std::unique(ordered.begin(), ordered.end()), ordered.end());
  const auto rank_of = [&](float score) {
    return static_cast<std::uint32_t>(
        std::lower_bound(ordered.begin(), ordered.end(), score, std::greater<>()) -
        ordered.begin());
  };
  MergeTable merges(vocabulary.size() * 2);
  for (size_t i = 0; i < vocabulary.size() && i < scores.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    const std::string_view text = vocabulary.Text(id);
    if (text.size() < 2 || excluded.Contains(id) || vocabulary.Find(text) != id) continue;
    const std::uint32_t rank = rank_of(scores[i]);
    for (size_t cut = ReadUtf8(text, 0).length; cut < text.size();
         cut += ReadUtf8(text, cut).length) {
      const std::optional<TokenId> left = vocabulary.Find(text.substr(0, cut));
      const std::optional<TokenId> right = vocabulary.Find(text.substr(cut));
      if (!left || !right || excluded.Contains(*left) || excluded.Contains(*right)) continue;
      merges.Set(*left, *right, {rank, id});
    }
  }
  return merges;
}

}  // namespace banyan
