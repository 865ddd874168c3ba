// What the cache gives is what was kept for exactly that word and owner, however full it is.
#include "text/tokenizer/word_encoder.h"

#include <gtest/gtest.h>
#include <map>
#include <random>
#include <string>

namespace banyan {

namespace {

using Ids = std::vector<TokenId>;

// Words of few letters: many differ in one byte alone, at any place.
std::string RandomWord(std::mt19937& random) {
  std::string word(1 + random() % WordCache::kMostBytes, 'a');
  for (size_t i = random() % 3; i > 0; --i) {
    word[random() % word.size()] = static_cast<char>(random() % 4 * 85);
  }
  return word;
}

TEST(WordCache, GivesWhatWasKept) {
  std::mt19937 random(1);
  WordCache cache;
  std::map<std::pair<std::uint64_t, std::string>, Ids> kept;
  int found = 0;
  for (int round = 0; round < 200000; ++round) {
    const std::uint64_t owner = 1 + random() % 3;
    const std::string word = RandomWord(random);
    size_t place = 0;
    Ids ids = {-7};  // what stands there stays
    if (cache.Find(owner, word, place, ids)) {
      ++found;
      const auto known = kept.find({owner, word});
      ASSERT_NE(known, kept.end()) << word;
      ASSERT_EQ(ids.front(), -7);
      ASSERT_EQ(Ids(ids.begin() + 1, ids.end()), known->second) << word;
      continue;
    }
    ASSERT_EQ(ids, Ids{-7});
    Ids& wanted = kept[{owner, word}];
    wanted.clear();
    for (size_t i = random() % (WordCache::kMostIds + 1); i > 0; --i) {
      wanted.push_back(static_cast<TokenId>(random() % 1000));
    }
    cache.Keep(owner, word, place, wanted);
    Ids again;
    ASSERT_TRUE(cache.Find(owner, word, place, again));
    ASSERT_EQ(again, wanted);
  }
  EXPECT_GT(found, 50000);
}

TEST(WordCache, LeavesOutWordsOfManyIds) {
  WordCache cache;
  size_t place = 0;
  Ids ids;
  ASSERT_FALSE(cache.Find(1, "word", place, ids));
  cache.Keep(1, "word", place, Ids(WordCache::kMostIds + 1, 3));
  EXPECT_FALSE(cache.Find(1, "word", place, ids));
}

TEST(WordCache, OwnersAreNew) {
  const std::uint64_t first = WordCache::NewOwner();
  EXPECT_NE(first, 0u);
  EXPECT_NE(WordCache::NewOwner(), first);
}

}  // namespace

}  // namespace banyan
