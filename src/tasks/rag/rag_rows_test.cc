#include "tasks/rag/rag_rows.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "constrain/constraint.h"

namespace banyan {
namespace {

// A text's characters, each as its bytes.
std::vector<std::string> CharactersOf(const std::string& text) {
  std::vector<std::string> characters;
  for (const char c : text) {
    if ((static_cast<unsigned char>(c) & 0xC0) != 0x80) characters.emplace_back();
    characters.back() += c;
  }
  return characters;
}

// The citation's own words, cut out of the document by characters.
std::string Slice(const std::string& text, const nlohmann::ordered_json& citation) {
  const std::vector<std::string> characters = CharactersOf(text);
  std::string slice;
  for (size_t i = citation.at("begin"); i < citation.at("end").get<size_t>(); ++i) {
    slice += characters.at(i);
  }
  return slice;
}

TEST(RagCitation, IsTheDocumentsOwnSliceInEveryScript) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"Die Tür? Der Schlüssel liegt unter der Fußmatte.", "Der Schlüssel"},
      {"Το καράβι φεύγει στις οκτώ από τον Πειραιά.", "στις οκτώ"},
      {"切符は三百円です。船は午後二時に出ます。", "午後二時"},
      {"Party 🎉 at 8 👩‍👩‍👧, bring 🍰!", "👩‍👩‍👧"},
      {"e\u0301t\u00e9 \U0001D518", "\U0001D518"},
  };
  for (const auto& [text, words] : cases) {
    RagDocument document;
    document.id = "d";
    document.text = text;
    const nlohmann::ordered_json citation = CitationOf(document, " " + words + ";");
    ASSERT_TRUE(citation.contains("begin")) << words;
    EXPECT_EQ(citation.at("text"), words);
    EXPECT_EQ(Slice(text, citation), words);
  }
}

TEST(RagCitation, HasTheDocumentsSpacesAndCase) {
  RagDocument document;
  document.id = 3;
  document.text = "Ü: the\n  Old\tTown of Ålesund, the old town";
  document.source = "a.txt";
  document.begin = 100;
  nlohmann::ordered_json citation = CitationOf(document, "the Old Town of Ålesund");
  EXPECT_EQ(citation.at("text"), "the\n  Old\tTown of Ålesund");
  EXPECT_EQ(citation.at("begin"), 3);
  EXPECT_EQ(citation.at("source_begin"), 103);
  EXPECT_EQ(Slice(document.text, citation), citation.at("text").get<std::string>());
  citation = CitationOf(document, "The old  TOWN OF Ålesund");
  EXPECT_EQ(Slice(document.text, citation), "the\n  Old\tTown of Ålesund");
}

// "art" is cited where it is a word, not in "Bart".
TEST(RagCitation, IsOfWholeWordsAndNumbers) {
  RagDocument document;
  document.id = "d";
  document.text = "Bart came at 7:45 by the B-7 for the art of 7. Über ber";
  const auto cited = [&](const std::string& words) {
    const nlohmann::ordered_json citation = CitationOf(document, words);
    return citation.contains("begin") ? citation.at("begin").get<int>() : -1;
  };
  EXPECT_EQ(cited("art"), 37);
  EXPECT_EQ(cited("Art"), 37);
  EXPECT_EQ(cited("7"), 27);
  EXPECT_EQ(cited("7."), 44);
  EXPECT_EQ(cited("ber"), 52);
  EXPECT_EQ(cited("7:45"), 13);
  EXPECT_EQ(cited("45"), -1);
  EXPECT_EQ(cited("ar"), -1);
  RagDocument bart;
  bart.text = "Bart came.";
  EXPECT_FALSE(SpansOf("art", {bart}));
  EXPECT_FALSE(SpansOf("Bart; came; art", {bart}));
  EXPECT_EQ(SpansOf("Bart; art", {bart, document})->size(), 2u);
}

// What may be copied from a text is found in it.
TEST(RagCitation, HasAPlaceForWhateverIsCopied) {
  const std::vector<std::string> pieces = {"a",  "B", "1",  "25", " ",  ",", ".", ":", "/", "-",
                                           "; ", "é", "日", "_",  "\n", "x", "(", ")", "'"};
  std::mt19937 random(11);
  int copied = 0;
  for (int i = 0; i < 60; ++i) {
    std::string text;
    for (int n = 0; n < 14; ++n) text += pieces[random() % pieces.size()];
    const Dfa dfa = CopyAutomaton(text, {}, {});
    for (size_t begin = 0; begin < text.size(); ++begin) {
      for (size_t end = begin + 1; end <= text.size(); ++end) {
        const std::string span = text.substr(begin, end - begin);
        if (!dfa.accepting(dfa.Next(dfa.start(), span))) continue;
        ++copied;
        EXPECT_TRUE(FindWords(text, span)) << text << " has no " << span;
      }
    }
  }
  EXPECT_GT(copied, 1000);
}

TEST(RagCitation, WhatStandsNowhereHasNoPlace) {
  RagDocument document;
  document.id = "d";
  document.text = "ü und ö";
  // Half a character is none.
  EXPECT_FALSE(FindWords(document.text, "\xC3"));
  EXPECT_FALSE(FindWords(document.text, "\xBC"));
  EXPECT_FALSE(FindWords(document.text, "  "));
  const nlohmann::ordered_json citation = CitationOf(document, "(ä)");
  EXPECT_EQ(citation.at("text"), "ä");
  EXPECT_FALSE(citation.contains("begin"));
}

}  // namespace
}  // namespace banyan
