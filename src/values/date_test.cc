#include "values/date.h"

#include <fmt/format.h>

#include <random>

#include "values/conversion_fixture.h"

namespace banyan {
namespace {

const ValueWish kDayFirst{ValueType::kDate, "", {}};
const ValueWish kMonthFirst{ValueType::kDate, "", {}, true};

std::vector<ConversionCase> AllAre(std::string_view json, std::vector<std::string_view> texts) {
  std::vector<ConversionCase> cases;
  for (const std::string_view text : texts) cases.push_back({text, json, ""});
  return cases;
}

TEST(Date, Notations) {
  ExpectConversions(kDayFirst, AllAre("\"2024-05-31\"", {"2024-05-31",
                                                         "2024/05/31",
                                                         "2024.05.31",
                                                         "2024-5-31",
                                                         "20240531",
                                                         "31.05.2024",
                                                         "31.5.2024",
                                                         "31.5.24",
                                                         "31.05.24",
                                                         "31. 5. 2024",
                                                         "31/05/2024",
                                                         "31/5/24",
                                                         "31-05-2024",
                                                         "05/31/2024",
                                                         "5/31/24",
                                                         "31 05 2024",
                                                         "31 May 2024",
                                                         "31st May 2024",
                                                         "31st of May 2024",
                                                         "the 31st of May, 2024",
                                                         "May 31, 2024",
                                                         "May 31st, 2024",
                                                         "May 31 2024",
                                                         "31-May-2024",
                                                         "31-May-24",
                                                         "31/May/2024",
                                                         "2024 May 31",
                                                         "31. Mai 2024",
                                                         "31.Mai 2024",
                                                         "31 mai 2024",
                                                         "le 31 mai 2024",
                                                         "31 MAI 2024",
                                                         "31 May '24",
                                                         "Friday, 31 May 2024",
                                                         "Fri 31 May 2024",
                                                         "Fri., May 31, 2024",
                                                         "Freitag, 31. Mai 2024",
                                                         "Fr. 31.05.2024",
                                                         "Fr, 31.5.24",
                                                         "vendredi 31 mai 2024",
                                                         "ven. 31 mai 2024",
                                                         "am 31. Mai 2024",
                                                         "2024-05-31T10:00",
                                                         "2024-05-31T10:00:00Z",
                                                         "2024-05-31T10:00:00.123+02:00",
                                                         "2024-05-31 10:00:00",
                                                         "31 May 2024, 10:00",
                                                         "31 May 2024 at 10 am",
                                                         "31 May 2024 10:30 pm",
                                                         "31.05.2024 um 10 Uhr",
                                                         "31.05.2024, 10:00 Uhr",
                                                         "31 mai 2024 à 10h",
                                                         "31 mai 2024 à 10h30",
                                                         "10:00, 31 May 2024",
                                                         "31/05/2024 10:00",
                                                         "Date: 31 May 2024",
                                                         "Berlin, 31. Mai 2024",
                                                         "due on 31 May 2024",
                                                         "(31.05.2024)",
                                                         "31\u00a0May\u00a02024",
                                                         "31 May 2024 (Friday)",
                                                         "31.05.2024.",
                                                         "bis 31.05.2024",
                                                         "31.05.2024 (31 May 2024)"}));
}

TEST(Date, MonthsOfThreeLanguages) {
  const std::vector<std::vector<std::string>> names = {
      {"January", "Jan", "Jan.", "Januar", "Jänner", "janvier", "janv."},
      {"February", "Feb", "Feb.", "Februar", "février", "févr.", "fevrier"},
      {"March", "Mar", "Mar.", "März", "Mrz.", "Maerz", "mars"},
      {"April", "Apr", "Apr.", "avril", "avr."},
      {"May", "Mai", "mai"},
      {"June", "Jun", "Juni", "juin"},
      {"July", "Jul", "Juli", "juillet", "juil."},
      {"August", "Aug", "Aug.", "août", "aout", "AOÛT"},
      {"September", "Sep", "Sept.", "septembre"},
      {"October", "Oct.", "Oktober", "Okt.", "octobre"},
      {"November", "Nov.", "novembre"},
      {"December", "Dec", "Dezember", "Dez.", "décembre", "déc."}};
  for (size_t month = 0; month < names.size(); ++month) {
    const std::string expected = fmt::format("\"2023-{:02}-09\"", month + 1);
    for (const std::string& name : names[month]) {
      for (const std::string& text :
           {"9 " + name + " 2023", "9. " + name + " 2023", name + " 9, 2023", "09 " + name + " 23",
            "9 de " + name + " 2023"}) {
        EXPECT_EQ(ConvertValue(text, kDayFirst).value.dump(), expected) << text;
      }
    }
  }
}

TEST(Date, DayOrMonthFirst) {
  ExpectConversions(kDayFirst, {{"03/04/2024", "\"2024-04-03\""},
                                {"13/04/2024", "\"2024-04-13\""},
                                {"04/13/2024", "\"2024-04-13\""},
                                {"03-04-2024", "\"2024-04-03\""},
                                {"03.04.2024", "\"2024-04-03\""},
                                {"1er mars 2024", "\"2024-03-01\""}});
  ExpectConversions(kMonthFirst, {{"03/04/2024", "\"2024-03-04\""},
                                  {"13/04/2024", "\"2024-04-13\""},
                                  {"04/13/2024", "\"2024-04-13\""},
                                  {"03-04-2024", "\"2024-03-04\""},
                                  {"03.04.2024", "\"2024-04-03\""},
                                  {"2024-03-04", "\"2024-03-04\""},
                                  {"3 April 2024", "\"2024-04-03\""}});
}

TEST(Date, TwoDigitYears) {
  ExpectConversions(kDayFirst, {{"1.1.00", "\"2000-01-01\""},
                                {"1.1.69", "\"2069-01-01\""},
                                {"1.1.70", "\"1970-01-01\""},
                                {"1.1.99", "\"1999-01-01\""},
                                {"1 May 85", "\"1985-05-01\""}});
}

TEST(Date, TheYearOfTheDocument) {
  ValueWish wish;
  wish.type = ValueType::kDate;
  wish.year = 2024;
  ExpectConversions(wish, {{"31 May", "\"2024-05-31\""},
                           {"Friday, 31. Mai", "\"2024-05-31\""},
                           {"May 31st", "\"2024-05-31\""},
                           {"1er mars", "\"2024-03-01\""},
                           {"31.05.", "\"2024-05-31\""},
                           {"31 May 2023", "\"2023-05-31\""},
                           {"29 Feb", "\"2024-02-29\""},
                           {"31 June", "null"},
                           {"May", "null", "no day"},
                           {"3 or 4 May", "null"},
                           {"Chapter 3.", "null"},
                           {"1.5", "null"},
                           {"tomorrow", "null", "relative"}});
}

TEST(Date, NotOneDay) {
  ExpectConversions(kDayFirst, {{"", "null", "empty"},
                                {"May 2024", "null", "no day"},
                                {"Mai 2024", "null", "no day"},
                                {"2024", "null", "no day"},
                                {"31 May", "null", "no year"},
                                {"31. Mai", "null", "no year"},
                                {"31.05.", "null"},
                                {"05/2024", "null"},
                                {"tomorrow", "null", "relative"},
                                {"morgen", "null", "relative"},
                                {"demain", "null", "relative"},
                                {"next Monday", "null", "relative"},
                                {"Monday", "null", "not a date"},
                                {"soon", "null", "relative"},
                                {"30 February 2023", "null", "calendar"},
                                {"29.02.2023", "null", "calendar"},
                                {"31.04.2024", "null", "calendar"},
                                {"2024-13-01", "null", "calendar"},
                                {"2024-00-10", "null", "calendar"},
                                {"32/13/2024", "null", "calendar"},
                                {"00.05.2024", "null", "calendar"},
                                {"29 February 1900", "null", "calendar"},
                                {"0000-01-01", "null"},
                                {"31 May 2024 - 2 June 2024", "null", "several"},
                                {"31.05.2024–02.06.2024", "null"},
                                {"28-31 May 2024", "null"},
                                {"28.–31. Mai 2024", "null"},
                                {"28 to 31 May 2024", "null", "numbers"},
                                {"3 days before 31 May 2024", "null"},
                                {"before 31 May 2024", "null", "before"},
                                {"nach dem 31.05.2024", "null", "before"},
                                {"day", "null", "not a date"},
                                {"10:00", "null"},
                                {"60 EUR", "null"},
                                {"1.2.3.4", "null"},
                                {"123456789", "null"},
                                {"31 May 824", "null"},
                                {"Q1 2024", "null"},
                                {"\xff\xff", "null"},
                                {"2024-05-3112", "null"}});
  ExpectConversions(kDayFirst,
                    {{"29 February 2024", "\"2024-02-29\""}, {"29.02.2000", "\"2000-02-29\""}});
}

TEST(Date, RandomDaysInEveryNotation) {
  const std::string english[] = {"January",   "February", "March",    "April",
                                 "May",       "June",     "July",     "August",
                                 "September", "October",  "November", "December"};
  const std::string german[] = {"Januar",    "Februar", "März",     "April",
                                "Mai",       "Juni",    "Juli",     "August",
                                "September", "Oktober", "November", "Dezember"};
  const std::string french[] = {"janvier",   "février", "mars",     "avril",
                                "mai",       "juin",    "juillet",  "août",
                                "septembre", "octobre", "novembre", "décembre"};
  std::mt19937 random(3);
  int days = 0;
  for (int round = 0; round < 3000; ++round) {
    const int y = 1 + static_cast<int>(random() % 9999);
    const int m = 1 + static_cast<int>(random() % 12);
    const int d = 1 + static_cast<int>(random() % 31);
    const auto name = [&](const std::string* names) { return names[m - 1]; };
    const std::string expected =
        IsDay(y, m, d) ? fmt::format("\"{:04}-{:02}-{:02}\"", y, m, d) : "null";
    days += IsDay(y, m, d) ? 1 : 0;
    std::vector<std::string> texts = {fmt::format("{:04}-{:02}-{:02}", y, m, d),
                                      fmt::format("{:02}.{:02}.{:04}", d, m, y),
                                      fmt::format("{}.{}.{:04}", d, m, y),
                                      fmt::format("{}/{}/{:04}", d, m, y),
                                      fmt::format("{} {} {:04}", d, name(english), y),
                                      fmt::format("{} {}, {:04}", name(english), d, y),
                                      fmt::format("{}. {} {:04}", d, name(german), y),
                                      fmt::format("{} {} {:04}", d, name(french), y),
                                      fmt::format("{:04}-{:02}-{:02}T12:30:00Z", y, m, d),
                                      fmt::format("{} {} {:04}, 12:30", d, name(english), y)};
    for (const std::string& text : texts) {
      EXPECT_EQ(ConvertValue(text, kDayFirst).value.dump(), expected) << text;
    }
    if (d <= 12 && IsDay(y, m, d)) {
      EXPECT_EQ(ConvertValue(fmt::format("{}/{}/{:04}", m, d, y), kMonthFirst).value.dump(),
                expected);
    }
  }
  EXPECT_GT(days, 2500);
}

}  // namespace
}  // namespace banyan
