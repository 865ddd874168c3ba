// The prompt of a row of a table: a text with {column} fields, or columns in a list and a text
// after them.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/table.h"
#include "base/json.h"
#include "tasks/prompt/prompt.h"
#include "tasks/table/column_order.h"

namespace banyan {

class TableTemplate {
 public:
  // `renamed`: our names of columns that the input calls otherwise (JobOptions::fields). Throws
  // kUsage for a prompt that is none, or names no column at all.
  TableTemplate(const TableAskOptions& options, std::map<std::string, std::string> renamed);

  // What the columns are called in the input: those that stand in the list (or, without one, in
  // the prompt), each once, as given.
  const std::vector<std::string>& columns() const { return columns_; }
  // Fields of the prompt that are not among them.
  const std::vector<std::string>& more_fields() const { return more_fields_; }
  // The columns may stand in another order.
  bool may_reorder() const { return listed_; }
  // Columns that every row needs, as JobOptions::needed_columns has them.
  std::vector<std::vector<std::string>> Needed() const;

  // What a row has in the columns, and then in the further fields. Throws kInput when it lacks one,
  // or when all are empty.
  std::vector<std::string> ValuesOf(const Json& row) const;
  // As it stands in a prompt, for counting its tokens.
  std::string CellText(size_t column, const std::string& value) const;

  struct Written {
    std::string context;  // what answers may be copied from
    std::string text;     // the question, or the whole prompt where no columns are listed
  };
  // `values`: as ValuesOf; `order`: of the columns, and of further fields, which it passes over.
  Written Write(std::span<const std::string> values, const ColumnOrder& order) const;

 private:
  const std::string& OurName(const std::string& column) const;

  std::vector<TemplatePiece> pieces_;
  std::vector<std::string> columns_, more_fields_;
  bool listed_ = false;
  std::map<std::string, std::string> ours_;  // the input's name → ours
};

}  // namespace banyan
