// Words, their BM25 weights, and the best of scored documents.
#include "retrieve/bm25.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "text/unicode.h"

namespace banyan {

std::vector<std::string> WordsOf(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  const auto end_word = [&] {
    if (!word.empty()) words.push_back(std::exchange(word, {}));
  };
  for (size_t at = 0; at < text.size();) {
    const Utf8Character character = ReadUtf8(text, at);
    at += character.length;
    if (!character.valid || !IsWordCharacter(character.code)) {
      end_word();
      continue;
    }
    const bool alone = IsChineseCharacter(character.code);
    if (alone) end_word();
    AppendLowercase(character.code, word);
    if (alone) end_word();
  }
  end_word();
  return words;
}

Bm25::Bm25(std::span<const std::vector<std::string>> documents, const Bm25Options& options)
    : documents_(static_cast<std::int64_t>(documents.size())) {
  double all_words = 0.0;
  for (size_t d = 0; d < documents.size(); ++d) {
    all_words += static_cast<double>(documents[d].size());
    for (const std::string& word : documents[d]) {
      std::vector<Posting>& of_word = postings_[word];
      const auto number = static_cast<std::int32_t>(d);
      if (of_word.empty() || of_word.back().document != number) of_word.push_back({number, 0.0f});
      of_word.back().weight += 1.0f;  // how often, until all is counted
    }
  }
  const auto count = static_cast<double>(documents.size());
  const double mean = all_words / std::max(1.0, count);
  for (auto& [word, of_word] : postings_) {
    const auto frequency = static_cast<double>(of_word.size());
    const auto idf =
        static_cast<float>(std::log(1.0 + (count - frequency + 0.5) / (frequency + 0.5)));
    for (Posting& posting : of_word) {
      const auto length =
          static_cast<double>(documents[static_cast<size_t>(posting.document)].size());
      const double often = posting.weight;
      const double share =
          often / (options.k1 * ((1.0 - options.b) + options.b * length / mean) + often);
      posting.weight = static_cast<float>(double{idf} * share);
    }
  }
}

std::vector<float> Bm25::Scores(std::span<const std::string> query) const {
  std::vector<float> scores(static_cast<size_t>(documents_), 0.0f);
  for (const std::string& word : query) {
    const auto found = postings_.find(word);
    if (found == postings_.end()) continue;
    for (const Posting& posting : found->second) {
      scores[static_cast<size_t>(posting.document)] += posting.weight;
    }
  }
  return scores;
}

std::vector<Bm25::Word> Bm25::Words() const {
  std::vector<Word> words;
  words.reserve(postings_.size());
  for (const auto& [word, of_word] : postings_) words.push_back({word, of_word});
  std::ranges::sort(words, {}, &Word::text);
  return words;
}

Bm25 Bm25::FromWords(std::int64_t documents, std::vector<Word> words) {
  Bm25 bm25;
  bm25.documents_ = documents;
  for (Word& word : words) {
    for (const Posting& posting : word.postings) {
      BANYAN_CHECK(posting.document >= 0 && posting.document < documents);
    }
    bm25.postings_.emplace(std::move(word.text), std::move(word.postings));
  }
  return bm25;
}

std::vector<ScoredDocument> BestFirst(std::vector<ScoredDocument> scored, size_t count) {
  const size_t kept = std::min(count, scored.size());
  std::partial_sort(scored.begin(), scored.begin() + static_cast<std::ptrdiff_t>(kept),
                    scored.end(), [](const ScoredDocument& a, const ScoredDocument& b) {
                      return a.score != b.score ? a.score > b.score : a.document < b.document;
                    });
  scored.resize(kept);
  return scored;
}

std::vector<ScoredDocument> BestDocuments(std::span<const float> scores, size_t count) {
  std::vector<ScoredDocument> shared;
  for (size_t d = 0; d < scores.size(); ++d) {
    if (scores[d] > 0.0f) shared.push_back({static_cast<std::int32_t>(d), scores[d]});
  }
  return BestFirst(std::move(shared), count);
}

}  // namespace banyan
