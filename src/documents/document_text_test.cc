#include "documents/document_text.h"

#include <gtest/gtest.h>

#include <string>

#include "banyan/error.h"
#include "text/utf8.h"

namespace banyan {
namespace {

std::string Read(std::string_view bytes, DocumentKind kind, size_t max_bytes = 1 << 20) {
  return ReadDocument(*ByteSourceOf(bytes, "bytes"), kind, max_bytes, nullptr);
}

std::string ProblemOf(std::string_view bytes, DocumentKind kind, size_t max_bytes = 1 << 20) {
  try {
    Read(bytes, kind, max_bytes);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(DocumentText, PlainTextIsKeptAsItIs) {
  EXPECT_EQ(Read("a\r\nb  c\n", DocumentKind::kPlain), "a\r\nb  c\n");
  EXPECT_EQ(Read("\xEF\xBB\xBFÄ", DocumentKind::kPlain), "Ä");
  EXPECT_EQ(Read("", DocumentKind::kPlain), "");
}

TEST(DocumentText, WhatIsNoTextIsRefused) {
  EXPECT_NE(ProblemOf(std::string_view("a\0b", 3), DocumentKind::kPlain).find("zero"),
            std::string::npos);
  EXPECT_NE(ProblemOf("\xC4rger", DocumentKind::kPlain).find("iconv"), std::string::npos);
  EXPECT_NE(ProblemOf("\xFF\xFE"
                      "a",
                      DocumentKind::kPlain)
                .find("UTF-16"),
            std::string::npos);
  EXPECT_NE(ProblemOf("123456", DocumentKind::kPlain, 5).find("longer than 5"), std::string::npos);
}

#ifdef BANYAN_WITH_LIBXML2
TEST(HtmlText, BlocksStandOnLinesOfTheirOwn) {
  EXPECT_EQ(HtmlText("<h1>Title</h1><p>One   two\nthree</p><p>Four<br>five</p>"),
            "Title\n\nOne two three\n\nFour\nfive\n");
  EXPECT_EQ(HtmlText("<ul><li>a</li><li>b <b>c</b>d</li></ul>end"), "- a\n- b cd\n\nend\n");
  EXPECT_EQ(HtmlText("<table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>"),
            "a\tb\t\n1\t2\n");
}

TEST(HtmlText, WhatABrowserDoesNotShowIsLeftOut) {
  EXPECT_EQ(
      HtmlText("<html><head><title>t</title><style>p{}</style></head><body><script>x()</script>"
               "seen<!-- not --><noscript>n</noscript></body></html>"),
      "seen\n");
}

TEST(HtmlText, EntitiesAreCharacters) {
  EXPECT_EQ(HtmlText("<p>5 &lt; 6 &amp; &euro;7 &#x2192; &#228;</p>"), "5 < 6 & €7 → ä\n");
}

TEST(HtmlText, SpaceIsKeptWhereItIsWritten) {
  EXPECT_EQ(HtmlText("<pre>a  b\n  c</pre>"), "a  b\n  c\n");
}

TEST(HtmlText, TheEncodingOfThePageIsHeard) {
  EXPECT_EQ(HtmlText("<meta charset=\"iso-8859-1\"><p>\xE4</p>"), "ä\n");
  EXPECT_EQ(HtmlText("<meta charset=\"iso-8859-1\"><p>ä</p>"), "ä\n");  // it is UTF-8 all the same
}

TEST(HtmlText, AnyBytesGiveValidText) {
  std::uint64_t state = 1;
  for (int round = 0; round < 300; ++round) {
    std::string page;
    for (int i = 0; i < 200; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      constexpr std::string_view kPieces[] = {"<",    ">",    "<p>",  "</div>", "&",        "&#",
                                              "\xFF", "\xC3", "<!--", "-->",    "<script>", "é",
                                              " ",    "\n",   "\"",   "<li"};
      page += kPieces[state >> 60];
    }
    EXPECT_TRUE(IsValidUtf8(HtmlText(page)));
  }
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "<div>";
  EXPECT_TRUE(IsValidUtf8(HtmlText(deep + "x")));
}
#endif

TEST(PdfText, WhatIsNoPdfIsRefusedWithAReason) {
  const std::string problem = ProblemOf("%PDF-1.4\nnothing", DocumentKind::kPdf);
  const bool known = problem.find("pdftotext") != std::string::npos;
  EXPECT_TRUE(known) << problem;
}

}  // namespace
}  // namespace banyan
