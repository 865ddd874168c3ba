// `rank --pairwise`: rows are scored first, and that order is sorted again by comparing rows, two
// in a prompt.
//
// Every pair is asked in both orders, and the difference of their log-odds decides, so that a
// preference for a place in the prompt cancels out. Pairs of which it is exactly zero (equal texts)
// and pairs that could not be asked are ties: they keep the order by score. Each round is a
// resumable job whose rows stand in OUTPUT.pairs.jsonl.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "banyan/engine.h"
#include "banyan/job.h"
#include "banyan/model.h"
#include "banyan/table.h"
#include "base/json.h"
#include "tasks/table/table_finish.h"
#include "tasks/table/table_template.h"

namespace banyan {

// Sorts `places` of the rows in `rows_file` (PlacesByScore), as far as `table.top` needs it.
// `receipt` is that of the scores, and gets what this takes. Not all were compared if its end is
// not kComplete. Throws as RunTable.
void SortByPairs(const std::shared_ptr<Model>& model, const EngineOptions& engine_options,
                 const TableAskOptions& table, const JobOptions& job, const std::string& rows_file,
                 RankedPlaces& places, JobReceipt& receipt);

// Adds to `estimate`, which is that of the scores, what the comparisons will take: as in a first
// round of `texts`, of all rounds.
void EstimatePairs(const std::shared_ptr<Model>& model, const EngineOptions& engine_options,
                   const TableAskOptions& table, const JobOptions& job,
                   const std::vector<std::string>& texts, JobEstimate& estimate);

// A row as it stands in such a prompt. `row`: by our names of the columns, as InputRow::value.
std::string ComparedText(const TableTemplate& prompt, const Json& row);

}  // namespace banyan
