// `filter` and `map --choices` with --label: every row is judged first, in OUTPUT.rows.jsonl; the
// labelled ones calibrate the probabilities, and the output is written from both.
#pragma once

#include <string>

#include "banyan/job.h"
#include "banyan/table.h"

namespace banyan {

// Writes the rows of `rows_file`, which has all rows of the table, with `calibrated`: of a filter a
// number, by which rows are kept; otherwise one for every option. The receipt tells the calibration
// error before and after, of labelled rows by a calibration of four fifths that they are not among.
// Throws kInput where the labels are too few.
void WriteCalibrated(const TableAskOptions& table, const std::string& rows_file,
                     const JobOptions& job, JobReceipt& receipt);

}  // namespace banyan
