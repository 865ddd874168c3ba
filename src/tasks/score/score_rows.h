// What the scores of `banyan eval` share: rows by their ids, and when an answer is right.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "program/score.h"

namespace banyan {

// The rows of a JSONL file by the JSON of their ids; the last one of an id counts. Throws kInput
// with file and line for a line that is no row.
std::map<std::string, Json> RowsById(const std::string& file);

// The rows of `ask`, by KeyOfAnswer; error rows of a whole record are under its id and null.
std::map<std::string, Json> RowsByAnswer(const std::string& file);
std::string KeyOfAnswer(const Json& id, const Json& question_id);

// --- When an answer is right: SQuAD's rule for texts, and letters that stand for choices. Training
// has the same in Python (eval/metrics.py), where there is no program to ask yet; both pass
// eval/tests/score_cases.json.

// F1 of the words of two answers, normalised; 1 where neither has any.
double AnswerF1(const std::string& answer, const std::string& gold);

// A question's right answers: of {"choices","right"} that choice, else its "answers", where a
// letter stands for a choice; none: null is right. Throws kInput, with `where` in front.
std::vector<std::string> RightAnswers(const Json& question, const std::string& where);

// An answer as a text to compare with the right ones: of a question with "choices" the one that the
// answer is, or that its letter stands for (A, b), (C). A choice's own text comes before a letter.
std::string ChosenText(const Json& question, const std::string& answer);

}  // namespace banyan
