#include <gtest/gtest.h>
#include <regex>
#include <string>

#include "base/hash.h"
#include "tasks/extract/extract_report.h"

namespace banyan {

namespace {

// A document's text that found its way into the page as a script would not run: the policy names
// the page's own script by its hash, and no others.
TEST(ExtractReportPage, OnlyItsOwnScriptMayRun) {
  const std::string page = std::string(ReportPageBegin()) + "{}" + std::string(ReportPageEnd());
  std::smatch policy;
  ASSERT_TRUE(std::regex_search(
      page, policy,
      std::regex(R"re(Content-Security-Policy" content="([^"]*script-src ([^;"]*)[^"]*)")re")));
  EXPECT_EQ(policy.str(1).find("unsafe-eval"), std::string::npos);
  EXPECT_EQ(policy.str(1).rfind("default-src 'none'", 0), 0u);
  const size_t begin = page.find("<script>") + 8;
  ASSERT_EQ(page.find("<script>", begin), std::string::npos);
  const Digest digest =
      Sha256()
          .Add(std::string_view(page).substr(begin, page.find("</script>", begin) - begin))
          .Finish();
  const std::string_view bytes(reinterpret_cast<const char*>(digest.data()), digest.size());
  EXPECT_EQ(policy.str(2), "'sha256-" + Base64(bytes) + "'");
  // Handlers in attributes would need 'unsafe-inline'.
  EXPECT_FALSE(std::regex_search(page.substr(0, begin), std::regex(R"re(<[^>]*\son[a-z]+=)re")));
}

// Style, script and the place of the data are each where the frame wants them.
TEST(ExtractReportPage, HasNoMarksLeft) {
  const std::string begin(ReportPageBegin()), end(ReportPageEnd());
  for (const char* mark : {"{STYLE}", "{SCRIPT}", "{SCRIPT_HASH}", "{DATA}"}) {
    EXPECT_EQ((begin + end).find(mark), std::string::npos) << mark;
  }
  EXPECT_NE(begin.find("<style>\n:root{"), std::string::npos);
  EXPECT_TRUE(begin.ends_with("<script type=\"application/json\" id=\"data\">"));
  EXPECT_TRUE(end.starts_with("</script><script>\n'use strict';"));
  EXPECT_TRUE(end.ends_with("\n</script></body></html>\n"));
}

}  // namespace

}  // namespace banyan
