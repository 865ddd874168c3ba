#include "tasks/input/id_column.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/temp_directory.h"

namespace banyan {
namespace {

using testing_support::TempDirectory;

TEST(IdColumn, NamesSayHowMuchTheyAreIds) {
  for (const char* name :
       {"id", "ID", "ticket_id", "TicketID", "ticket id", "uuid", "Key", "id_no"}) {
    EXPECT_EQ(IdNameRank(name), 3) << name;
  }
  for (const char* name :
       {"Ticketnummer", "Beleg-Nr.", "Belegnr", "order number", "número", "No."}) {
    EXPECT_EQ(IdNameRank(name), 2) << name;
  }
  EXPECT_EQ(IdNameRank("Reference"), 1);
  for (const char* name : {"paid", "valid", "note", "text", "body", "monkey", "idea", "", "123"}) {
    EXPECT_EQ(IdNameRank(name), 0) << name;
  }
}

std::optional<std::string> GuessOf(const std::string& table, const char* name = "t.csv") {
  const TempDirectory folder;
  InputOptions input;
  input.files = {folder.Write(name, table).string()};
  return GuessIdColumn(input);
}

TEST(IdColumn, ValuesAreAllThereAndAllDifferent) {
  EXPECT_EQ(GuessOf("Ticketnummer;Text\nT-1;a\nT-2;b\n"), "Ticketnummer");
  EXPECT_EQ(GuessOf("Ticketnummer;Text\nT-1;a\nT-1;b\n"), std::nullopt);
  EXPECT_EQ(GuessOf("Ticketnummer;Text\nT-1;a\n;b\n"), std::nullopt);
  EXPECT_EQ(GuessOf("Name;Text\nAnna;a\nTom;b\n"), std::nullopt);
  EXPECT_EQ(GuessOf("Ticketnummer;Text\n"), std::nullopt);  // no rows
  EXPECT_EQ(GuessOf("order number,ticket_id\n1,2\n3,4\n"), "ticket_id");
  EXPECT_EQ(GuessOf("order number,ticket_id\n1,2\n3,2\n"), "order number");
  EXPECT_EQ(GuessOf("a\tserial number\nx\t1\ny\t2\n", "t.tsv"), "serial number");
}

TEST(IdColumn, NothingIsGuessedWhereItIsSaid) {
  EXPECT_EQ(GuessOf("id;Ticketnummer\n1;T-1\n1;T-2\n"), std::nullopt);
  EXPECT_EQ(GuessOf("{\"ticket_id\":1}\n", "t.jsonl"), std::nullopt);
  const TempDirectory folder;
  InputOptions input;
  input.files = {folder.Write("a.csv", "nr;x\n1;a\n").string()};
  input.fields = {{"id", "x"}};
  EXPECT_EQ(GuessIdColumn(input), std::nullopt);
  input.fields.clear();
  input.files.push_back(folder.Write("b.csv", "nr;x\n1;a\n").string());
  EXPECT_EQ(GuessIdColumn(input), std::nullopt);  // numbers of one may be numbers of the other
}

TEST(IdColumn, RowsThatAreErrorsCountForNothing) {
  EXPECT_EQ(GuessOf("nr;x\n1;a\nbroken\n2;b\n"), "nr");
}

}  // namespace
}  // namespace banyan
