// The text of a mention: one spelling for characters that are written in several ways, words
// without case and accents, and lists of words.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace banyan {

// Longer mentions are refused as numbers, dates, booleans and enums.
inline constexpr size_t kMaxMentionBytes = 4096;

// Spaces that people put between groups of digits (U+00A0, U+2009, U+202F and similar ones) become
// this one; tabs and line ends become '\n', the space character stays.
inline constexpr char32_t kGroupSpace = 0xA0;

// One spelling for what is written in several ways: every dash and minus sign is '-', every
// apostrophe and prime '\'', every double quotation mark and double prime '"', every fraction slash
// '/', full-width digits and signs are ASCII, the two micro signs are U+00B5. Invisible characters
// (zero width, soft hyphen) are dropped; ill-formed UTF-8 becomes U+FFFD. Ends are trimmed.
std::u32string UniformText(std::string_view raw);

std::string Utf8Of(std::u32string_view text);

// Lower case, without accents; ß is ss, œ is oe, æ is ae. For comparing words.
std::string FoldedText(std::string_view text);

// FoldedText cut into words: runs of letters and digits. Check marks and crosses are words too.
std::vector<std::string> FoldedWords(std::string_view text);

// Trimmed, runs of white space as one space, ill-formed UTF-8 as U+FFFD.
std::string PlainText(std::string_view raw);

// 'the mention' in quotation marks for a message, cut after 60 characters.
std::string QuotedMention(std::string_view raw);

// Whether a sorted or unsorted list of words, separated by spaces, has `word`.
bool ListHasWord(std::string_view list, std::string_view word);

// Whether the word negates a statement: not, without, kein, ohne, sans, pas …
bool IsNegation(std::string_view folded_word);

}  // namespace banyan
