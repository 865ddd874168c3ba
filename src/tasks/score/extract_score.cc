// Extracted values against gold values, slot by slot, with bootstrap intervals over documents.
#include <algorithm>
#include <optional>
#include <random>
#include <set>

#include "banyan/extract.h"
#include "base/error.h"
#include "base/json.h"
#include "program/score.h"
#include "tasks/score/extract_compare.h"
#include "tasks/score/score_rows.h"

namespace banyan {

namespace {

double ShareOf(double part, std::int64_t whole) {
  return whole > 0 ? part / static_cast<double>(whole) : 0.0;
}

double HarmonicMean(double a, double b) { return a + b > 0.0 ? 2.0 * a * b / (a + b) : 0.0; }

const Json& ObjectIn(const Json& row, const char* name) {
  static const Json nothing = Json::object();
  const auto found = row.find(name);
  return found != row.end() && found->is_object() ? *found : nothing;
}

const Json& MemberOrNull(const Json& object, std::string_view name) {
  static const Json null;
  const auto found = object.find(name);
  return found != object.end() ? *found : null;
}

std::string CategoryOf(const Json& row) {
  const Json& category = MemberOrNull(row, "category");
  return category.is_string() ? category.get<std::string>() : "";
}

// Types of attributes: of the schema, else of the first right value that an attribute has.
class SlotTypes {
 public:
  SlotTypes(const ExtractScoreOptions& options, const std::map<std::string, Json>& gold_rows) {
    if (!options.schema.empty()) {
      schema_ = ParseExtractSchema(options.schema, options.schema_name);
      for (const ExtractCategory& category : schema_->categories) {
        for (const ExtractAttribute& attribute : category.attributes) {
          types_[{category.name, attribute.name}] = SlotTypeOf(attribute);
        }
      }
    }
    for (const auto& [id, row] : gold_rows) {
      for (const auto& [name, gold] : ObjectIn(row, "values").items()) {
        if (!IsNothing(gold)) types_.try_emplace({SchemaCategory(row), name}, GuessSlotType(gold));
      }
    }
  }

  SlotType Of(const Json& gold_row, const std::string& attribute) const {
    const auto found = types_.find({SchemaCategory(gold_row), attribute});
    return found == types_.end() ? "text" : found->second;
  }
  // The attributes that the schema wants of a document.
  void AddWanted(const Json& gold_row, std::set<std::string>& attributes) const {
    const ExtractCategory* found = schema_ ? schema_->Find(SchemaCategory(gold_row)) : nullptr;
    if (found == nullptr) return;
    for (const ExtractAttribute& attribute : found->attributes) attributes.insert(attribute.name);
  }

 private:
  // A schema with one category is that of every row.
  std::string SchemaCategory(const Json& row) const {
    const bool only = schema_ && schema_->categories.size() == 1;
    return only ? schema_->categories.front().name : CategoryOf(row);
  }

  std::optional<ExtractSchema> schema_;
  std::map<std::pair<std::string, std::string>, SlotType> types_;  // by category and attribute
};

// A document's right values, and what was written.
struct JudgedDocument {
  const std::string& id;
  const Json& gold;    // the row
  const Json* output;  // the row; null: none, or an error
};

class Scorer {
 public:
  Scorer(const ExtractScoreOptions& options, const SlotTypes& types)
      : options_(options), types_(types) {}

  void Add(const JudgedDocument& document) {
    ++scores_.documents;
    if (document.output == nullptr) ++scores_.without_row;
    scores_.by_document.emplace_back();
    const Json none = Json::object();
    const Json& right = ObjectIn(document.gold, "values");
    const Json& given = document.output ? ObjectIn(*document.output, "values") : none;
    std::set<std::string> attributes;
    for (const auto& [name, value] : right.items()) attributes.insert(name);
    for (const auto& [name, value] : given.items()) attributes.insert(name);
    types_.AddWanted(document.gold, attributes);
    for (const std::string& attribute : attributes) {
      const bool labelled = right.contains(attribute);
      if (!labelled && !options_.unlabelled_is_null) {
        ++scores_.unlabelled;
        continue;
      }
      AddSlot(document, attribute);
    }
  }

  ExtractScores Take() {
    if (negative_confidence_) scores_.confidences.clear();
    scores_.log_probabilities = negative_confidence_;
    return std::move(scores_);
  }

 private:
  void AddSlot(const JudgedDocument& document, const std::string& attribute) {
    const Json& gold = MemberOrNull(ObjectIn(document.gold, "values"), attribute);
    const bool labelled = ObjectIn(document.gold, "values").contains(attribute);
    const SlotOutcome of_null = IsNothing(gold) ? SlotOutcome::kCorrectNull : SlotOutcome::kMissing;
    scores_.all_null.Add(of_null);
    if (labelled) scores_.all_null_labelled.Add(of_null);
    // Nothing was said of a document without a row: not even that there is no value.
    if (document.output == nullptr && IsNothing(gold)) return;
    static const Json null;
    const Json& value =
        document.output ? MemberOrNull(ObjectIn(*document.output, "values"), attribute) : null;
    const SlotType type = types_.Of(document.gold, attribute);
    const SlotJudgement judged = JudgeSlot(value, gold, type);
    const auto add = [&](SlotCounts& counts) { counts.Add(judged.outcome, judged.share); };
    add(scores_.all);
    add(scores_.by_document.back().all);
    add(scores_.by_attribute[attribute]);
    add(scores_.by_type[type]);
    const std::string category = CategoryOf(document.gold);
    if (!category.empty()) add(scores_.by_category[category]);
    if (labelled) {
      add(scores_.labelled);
      add(scores_.by_document.back().labelled);
    }
    scores_.slots[{document.id, attribute}] = judged.outcome;
    if (document.output != nullptr) AddConfidence(*document.output, attribute, judged.outcome);
  }

  void AddConfidence(const Json& row, const std::string& attribute, SlotOutcome outcome) {
    const Json& confidence = MemberOrNull(ObjectIn(row, "confidence"), attribute);
    if (!confidence.is_number()) return;
    const double number = confidence.get<double>();
    if (number < 0.0) negative_confidence_ = true;
    if (number < 0.0 || number > 1.0) return;
    const bool right = outcome == SlotOutcome::kCorrect || outcome == SlotOutcome::kCorrectNull;
    scores_.confidences.push_back({number, right});
  }

  const ExtractScoreOptions& options_;
  const SlotTypes& types_;
  ExtractScores scores_;
  bool negative_confidence_ = false;
};

}  // namespace

void SlotCounts::Add(SlotOutcome outcome, double share) {
  correct += outcome == SlotOutcome::kCorrect ? 1 : 0;
  correct_null += outcome == SlotOutcome::kCorrectNull ? 1 : 0;
  incorrect += outcome == SlotOutcome::kIncorrect ? 1 : 0;
  missing += outcome == SlotOutcome::kMissing ? 1 : 0;
  hallucinated += outcome == SlotOutcome::kHallucinated ? 1 : 0;
  credit += outcome == SlotOutcome::kCorrect ? 1.0 : share;
}

SlotCounts& SlotCounts::operator+=(const SlotCounts& other) {
  correct += other.correct;
  correct_null += other.correct_null;
  incorrect += other.incorrect;
  missing += other.missing;
  hallucinated += other.hallucinated;
  credit += other.credit;
  return *this;
}

double SlotCounts::accuracy() const { return ShareOf(static_cast<double>(right()), slots()); }

double SlotCounts::precision() const {
  return ShareOf(static_cast<double>(right()), right() + hallucinated + incorrect);
}

double SlotCounts::recall() const {
  return ShareOf(static_cast<double>(right()), right() + missing + incorrect);
}

double SlotCounts::f1() const { return HarmonicMean(precision(), recall()); }

double SlotCounts::strict_precision() const {
  return ShareOf(static_cast<double>(correct), correct + incorrect + hallucinated);
}

double SlotCounts::strict_recall() const {
  return ShareOf(static_cast<double>(correct), correct + incorrect + missing);
}

double SlotCounts::strict_f1() const { return HarmonicMean(strict_precision(), strict_recall()); }

double SlotCounts::partial_f1() const {
  return HarmonicMean(ShareOf(credit, correct + incorrect + hallucinated),
                      ShareOf(credit, correct + incorrect + missing));
}

ExtractScores ScoreExtract(const ExtractScoreOptions& options) {
  const std::map<std::string, Json> gold_rows = RowsById(options.gold);
  const std::map<std::string, Json> output_rows = RowsById(options.output);
  const SlotTypes types(options, gold_rows);
  Scorer scorer(options, types);
  for (const auto& [id, gold] : gold_rows) {
    const auto found = output_rows.find(id);
    const bool has_row = found != output_rows.end() && !found->second.contains("error");
    scorer.Add({id, gold, has_row ? &found->second : nullptr});
  }
  return scorer.Take();
}

// Confidence intervals of scores: the documents are resampled, since slots of one document succeed
// and fail together.

namespace {

constexpr std::uint64_t kSeed = 20240531;

// The same draws for everybody: runs over the same documents can be compared draw by draw.
class Resamples {
 public:
  explicit Resamples(size_t documents) : documents_(documents), random_(kSeed) {}

  template <typename Visit>
  void Next(const Visit& visit) {
    for (size_t i = 0; i < documents_; ++i) visit(random_() % documents_);
  }

 private:
  size_t documents_;
  std::mt19937_64 random_;
};

// The 2.5th and the 97.5th percentile.
ScoreInterval Middle(std::vector<double> values) {
  std::ranges::sort(values);
  const auto at = [&](double share) {
    return values[static_cast<size_t>(share * static_cast<double>(values.size() - 1) + 0.5)];
  };
  return {at(0.025), at(0.975)};
}

}  // namespace

ScoreIntervals BootstrapIntervals(const std::vector<DocumentCounts>& documents, int resamples) {
  if (documents.empty()) return {};
  Resamples draws(documents.size());
  std::vector<double> strict, partial, labelled, with_nulls, accuracy;
  for (int i = 0; i < resamples; ++i) {
    DocumentCounts sum;
    draws.Next([&](size_t drawn) {
      sum.all += documents[drawn].all;
      sum.labelled += documents[drawn].labelled;
    });
    strict.push_back(sum.all.strict_f1());
    partial.push_back(sum.all.partial_f1());
    labelled.push_back(sum.labelled.f1());
    with_nulls.push_back(sum.all.f1());
    accuracy.push_back(sum.all.accuracy());
  }
  return {Middle(std::move(strict)), Middle(std::move(partial)), Middle(std::move(labelled)),
          Middle(std::move(with_nulls)), Middle(std::move(accuracy))};
}

ScoreInterval BootstrapDifference(const std::vector<DocumentCounts>& one,
                                  const std::vector<DocumentCounts>& other, int resamples) {
  if (one.empty()) return {};
  Resamples draws(one.size());
  std::vector<double> differences;
  for (int i = 0; i < resamples; ++i) {
    SlotCounts a, b;
    draws.Next([&](size_t drawn) {
      a += one[drawn].all;
      b += other[drawn].all;
    });
    differences.push_back(a.strict_f1() - b.strict_f1());
  }
  return Middle(std::move(differences));
}

}  // namespace banyan
