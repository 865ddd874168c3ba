#include "documents/document_text.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>

#include "banyan/error.h"
#include "base/work_budget.h"
#include "support/temp_directory.h"
#include "text/unicode.h"

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
  try {
    Read("\xC4rger", DocumentKind::kPlain);
    ADD_FAILURE() << "expected what is not UTF-8 to be refused";
  } catch (const NotUtf8& e) {  // who knows the option that helps names it
    EXPECT_EQ(std::string(e.what()) + ", " + e.encoding(), "not valid UTF-8, windows-1252");
  }
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

TEST(HtmlText, WhatIsNotDisplayedIsLeftOut) {
  EXPECT_EQ(HtmlText("<p>a</p><div style='x:y;DISPLAY : None'>b<div>c</div>d</div><p>e</p>"),
            "a\n\ne\n");
  EXPECT_EQ(HtmlText("a<span hidden>b</span>c<i data-hidden>d</i>"), "acd\n");
  EXPECT_EQ(HtmlText("<img style=display:none>a<input hidden>b"), "ab\n");
  EXPECT_EQ(
      HtmlText("<style>.x,p.y{display:none}</style><p class='a x'>b<p class=y>c<div class=y>d"),
      "d\n");
  EXPECT_EQ(HtmlText("<style>@media print{.x{display:none}}</style><b class=x>a</b>"), "a\n");
  // What nobody closes ends where a browser ends it.
  EXPECT_EQ(HtmlText("<p hidden>a<p>b"), "b\n");
  EXPECT_EQ(HtmlText("<ul><li hidden>a<ul><li>b</ul>c<li>d</ul>e"), "- d\n\ne\n");
  EXPECT_EQ(HtmlText("<table><tr><td hidden>a<td>b<tr><td>c</table>d"), "b\t\nc\t\n\nd\n");
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

#ifdef BANYAN_WITH_LIBXML2
// Of a processor: the machine may have other work.
double SecondsFor(const std::string& page) {
  const std::clock_t began = std::clock();
  HtmlText(page);
  return static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC;
}

// Each of these once took from 20 seconds to more than a minute, and nobody could stop it.
TEST(HtmlText, NoPageTakesLong) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr double kPatience = 40.0;  // seconds
#else
  constexpr double kPatience = 5.0;  // seconds
#endif
  std::string attributes = "<p ";
  while (attributes.size() < 2u << 20)
    attributes += "a" + std::to_string(attributes.size()) + "=1 ";
  EXPECT_LT(SecondsFor(attributes + ">x</p>"), kPatience);
  EXPECT_LT(SecondsFor(attributes), kPatience);
  EXPECT_LT(SecondsFor(std::string(10u << 20, '&')), kPatience);
  for (const char* piece : {"<", "<!--", "</", "<a ", "<a b='", "<p>", "</p>", "&#", "&amp;", "&x;",
                            "<script>", "</script>", "<table><td>", "<svg>", "<![CDATA["}) {
    std::string page;
    while (page.size() < 2u << 20) page += piece;
    EXPECT_LT(SecondsFor(page), kPatience) << piece;
  }
}

TEST(HtmlText, TheThreadsBudgetIsHeeded) {
  std::string page;
  while (page.size() < 1u << 20) page += "<p>x";
  WorkBudget budget;
  budget.unwanted = [] { return true; };
  const BudgetScope scope(budget);
  EXPECT_THROW(HtmlText(page), WorkStopped);
}

TEST(HtmlText, TagsAreReadAsBrowsersReadThem) {
  EXPECT_EQ(HtmlText("<P CLASS='a>b' title=\"x > y\" data-z=>Seen</P><p>a < b & c</p>"),
            "Seen\n\na < b & c\n");
  EXPECT_EQ(HtmlText("<ul><li>a<li>b</ul>c</div>d"), "- a\n- b\n\ncd\n");
  EXPECT_EQ(HtmlText("<table><tr><td>1<td>2<tr><td>3<td><table><td>in</table></table>x"),
            "1\t2\t\n3\t\n\nin\t\n\n\t\n\nx\n");
  EXPECT_EQ(HtmlText("<script>if (a</b) '</scr' + \"<p>\"</SCRIPT >seen<style>p{}</style>"),
            "seen\n");
  EXPECT_EQ(HtmlText("<svg><svg>x</svg>y</svg>seen<iframe/><object>z"), "seen\n");
  EXPECT_EQ(HtmlText("&lt;&nosuch;&#xD800;&#0;&#1114112;&amp;amp; &#65 &copy"),
            "<&nosuch;&amp; A &copy\n");
  EXPECT_EQ(HtmlText(std::string_view("a\0b", 3)), "ab\n");
  EXPECT_EQ(HtmlText("<!doctype html><?xml x?><title>t</title>seen<p"), "seen\n");
}
#endif

// A converter that would run for ever is ended when nobody waits for it.
TEST(PdfText, TheConverterIsStopped) {
  const testing_support::TempDirectory folder;
  const auto program = folder.path() / "pdftotext";
  std::ofstream(program) << "#!/bin/sh\nexec sleep 600\n";
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", (folder.path().string() + ":" + path).c_str(), 1);
  WorkBudget budget;
  budget.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
  const auto began = std::chrono::steady_clock::now();
  {
    const BudgetScope scope(budget);
    EXPECT_THROW(PdfText("%PDF-1.4", 1 << 20, nullptr), WorkStopped);
  }
  const std::atomic<bool> cancelled = true;
  EXPECT_EQ(PdfText("%PDF-1.4", 1 << 20, &cancelled), "");
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(200));
  // Its memory and time have limits of their own.
  std::ofstream(program) << "#!/bin/sh\nsleep 0.2\nulimit -t\nulimit -v\nulimit -f\n";
  EXPECT_EQ(PdfText("%PDF-1.4", 1 << 20, nullptr), "60\n1048576\n0\n");
  ::setenv("PATH", path.c_str(), 1);
}

TEST(PdfText, WhatIsNoPdfIsRefusedWithAReason) {
  const std::string problem = ProblemOf("%PDF-1.4\nnothing", DocumentKind::kPdf);
  const bool known = problem.find("pdftotext") != std::string::npos;
  EXPECT_TRUE(known) << problem;
}

}  // namespace
}  // namespace banyan
