// A row of `ask` input as a record: a context and the questions about it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tasks/input/input.h"

namespace banyan {

struct AskQuestion {
  Json id;  // null, until the record has numbered it, when the input gives none
  std::string question;
  std::vector<std::string> choices;   // empty: the answer is free text
  Json carried = Json::object();      // its other fields
  std::optional<RowProblem> problem;  // it cannot be asked
};

struct AskRecord {
  Json id;
  std::string context;
  std::optional<std::string> instruction;  // its own
  std::vector<AskQuestion> questions;
  Json carried = Json::object();  // its other fields
};

// The questions of a file that is asked of every document: JSONL (objects, or texts in quotes), or
// plain text with one question a line. Throws kUsage with the line.
std::vector<AskQuestion> ReadQuestions(std::string_view text, const std::string& name);

// English questions that yes or no answers: "Is it high?", and not "Is it high or low?".
bool IsYesNoQuestion(std::string_view question);

// Gives a question without an id its place in the list, from 1, or the next number that no other
// has; and a problem to those whose own id comes twice.
void NumberQuestions(std::vector<AskQuestion>& questions);

// A field that a record is read from; all others are carried.
bool IsAskField(const std::string& name);

// Throws kInput when the row is no record: `id`, `context` or questions are missing or wrong. A bad
// question has its own problem; the others are asked. `common` comes before the record's own
// questions, so it has the same numbers in every record whose own ids do not take them.
AskRecord ReadAskRecord(const Json& row, const std::vector<AskQuestion>& common);

}  // namespace banyan
