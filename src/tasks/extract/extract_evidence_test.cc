// What the words around a value say against it, and what they do not.
#include "tasks/extract/extract_evidence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace banyan {
namespace {

using nlohmann::ordered_json;
using testing::HasSubstr;

ExtractAttribute Number(std::string name, std::string unit) {
  ExtractAttribute attribute;
  attribute.name = std::move(name);
  attribute.kind = ValueKind::kNumber;
  attribute.unit = std::move(unit);
  return attribute;
}

ExtractAttribute Currency() {
  ExtractAttribute attribute;
  attribute.name = "currency";
  attribute.kind = ValueKind::kEnum;
  attribute.allowed = {"EUR", "GBP", "USD"};
  return attribute;
}

ExtractAttribute Flag(std::string name) {
  ExtractAttribute attribute;
  attribute.name = std::move(name);
  attribute.kind = ValueKind::kBoolean;
  return attribute;
}

TEST(Evidence, ACurrencyIsOneThatThePageNames) {
  const auto against = [](const char* value, const char* page) {
    return EvidenceAgainst(Currency(), value, value, page);
  };
  EXPECT_THAT(against("USD", "Invoice 12\nTOTAL GBP 114.00"), HasSubstr("names GBP, not USD"));
  EXPECT_THAT(against("USD", "Summe 49,00 €"), HasSubstr("names EUR, not USD"));
  EXPECT_THAT(against("EUR", "Total: 12.50"), HasSubstr("no currency"));
  for (const auto& [value, page] : {std::pair("GBP", "TOTAL GBP 114.00"),
                                    {"GBP", "£12"},
                                    {"GBP", "twelve pounds"},
                                    {"EUR", "49 Euro"},
                                    {"EUR", "€49"},
                                    {"USD", "$5 and £4"},
                                    {"USD", "12 US$"},
                                    {"EUR", "TEUR 5, 5 EUR"}}) {
    EXPECT_EQ(against(value, page), "") << value << " on " << page;
  }
}

TEST(Evidence, AnEnumOfOtherThingsIsLeftAlone) {
  ExtractAttribute colour = Currency();
  colour.allowed = {"black", "white"};
  EXPECT_EQ(EvidenceAgainst(colour, "black", "black", "white"), "");
}

TEST(Evidence, AShareIsNoAmount) {
  const ExtractAttribute rate = Number("VAT rate", "%");
  EXPECT_THAT(EvidenceAgainst(rate, 114, "114.00", "VAT 20 %\nTOTAL GBP 114.00"),
              HasSubstr("beside 'GBP', which is no share"));
  EXPECT_THAT(EvidenceAgainst(rate, 114, "114.00", "Tax 114.00"), HasSubstr("more than 100"));
  EXPECT_THAT(EvidenceAgainst(Number("tax rate", ""), 19, "19.00", "tax 19.00 EUR"),
              HasSubstr("beside 'EUR'"));
  EXPECT_EQ(EvidenceAgainst(rate, 20, "20", "VAT at 20 %: £20.00"), "");
  EXPECT_EQ(EvidenceAgainst(rate, 20, "20%", "VAT 20% £4.00"), "");
  EXPECT_EQ(EvidenceAgainst(rate, 20, "20", "VAT rate: 20"), "");
  EXPECT_EQ(EvidenceAgainst(rate, 120, "120 %", "growth of 120 %"), "");
  EXPECT_EQ(EvidenceAgainst(rate, 120, "120", "growth of 120 %"), "");
  // An amount that was copied with its currency.
  const ExtractAttribute percent = Number("vat_percent", "");
  const std::string bill = "VAT 19% 111.72 EUR. Net EUR 588.00";
  EXPECT_THAT(EvidenceAgainst(percent, 111.72, "111.72 EUR", bill), HasSubstr("is no share"));
  EXPECT_THAT(EvidenceAgainst(percent, 588, "EUR 588.00", bill), HasSubstr("is no share"));
  EXPECT_EQ(EvidenceAgainst(percent, 19, "VAT 19%", bill), "");
  EXPECT_EQ(EvidenceAgainst(percent, 19, "19 per cent", "VAT 19 per cent"), "");
  EXPECT_EQ(EvidenceAgainst(Number("exchange rate", ""), 114, "114", "114 JPY"), "");
}

TEST(Evidence, ANumberHasTheUnitBesideIt) {
  const ExtractAttribute weight = Number("weight", "kg");
  EXPECT_THAT(EvidenceAgainst(weight, 30, "30", "Height: 30 cm"), HasSubstr("no mass"));
  EXPECT_EQ(EvidenceAgainst(weight, 30, "30", "30 kg, and 30 cm high"), "");
  EXPECT_EQ(EvidenceAgainst(weight, 30, "30", "Height 30 cm. Weight 30"), "");
  EXPECT_EQ(EvidenceAgainst(weight, 30, "30", "weighs 30 in all"), "");
  EXPECT_EQ(EvidenceAgainst(weight, 30, "30", "130 cm"), "");  // another number
  EXPECT_THAT(EvidenceAgainst(Number("price", "EUR"), 49, "49", "only £49!"), HasSubstr("'£'"));
  EXPECT_EQ(EvidenceAgainst(Number("price", "EUR"), 49, "49", "€ 49.-"), "");
  EXPECT_EQ(EvidenceAgainst(Number("pay", "EUR"), 17.4, "17.40", "EUR 17.40 an hour"), "");
  EXPECT_EQ(EvidenceAgainst(Number("pay", "EUR"), 17.4, "EUR 17.40", "EUR 17.40 an hour"), "");
}

TEST(Evidence, ADepositIsNotAllOfIt) {
  const ExtractAttribute paid = Flag("paid in full");
  EXPECT_THAT(EvidenceAgainst(paid, true, true, "Deposit of £50 received with thanks."),
              HasSubstr("'deposit'"));
  EXPECT_EQ(EvidenceAgainst(paid, true, true, "Paid in full, deposit returned."), "");
  EXPECT_EQ(EvidenceAgainst(paid, true, true, "Thank you for your payment."), "");
  EXPECT_EQ(EvidenceAgainst(paid, false, false, "Deposit of £50 received."), "");
  EXPECT_EQ(EvidenceAgainst(Flag("furnished"), true, true, "fully furnished, deposit £50"), "");
}

}  // namespace
}  // namespace banyan
