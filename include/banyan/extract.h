// Extracts attribute values from many documents: what `banyan extract` runs. A schema lists the
// attributes of a category of documents. The model copies all values of a document in parallel, and
// code converts each to its type, so that a row always fits the schema.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/ask.h"
#include "banyan/engine.h"
#include "banyan/job.h"
#include "banyan/model.h"

namespace banyan {

inline constexpr const char* kDefaultExtractInstruction =
    "Extract the attributes from the text as JSON: {names}. Use null when the text does not say.";

inline constexpr const char* kDefaultStackInstruction =
    "Extract the attributes from each document as JSON, by the document's number: {names}. Use "
    "null when the document does not say.";

// What a value is. The model writes a text that stands in the document; code turns it into the type
// (docs/extract.md).
enum class ValueKind {
  kText,
  kNumber,
  kInteger,
  kBoolean,
  kDate,
  kEnum,     // one of `allowed`
  kList,     // of parts[0]
  kObject,   // of `parts`
  kObjects,  // a list of objects of `parts`
  kSchema,   // what only the JSON Schema says: the model writes the JSON itself
};

struct ExtractAttribute {
  std::string name;
  std::string description;
  std::string type;                   // for people: "text", "number in kg", "one of red, blue"
  std::vector<std::string> examples;  // JSON
  std::string json_schema;            // that a value fits, null included where it may be null
  ValueKind kind = ValueKind::kText;
  std::string unit;                  // of a number: the value is in it; empty: as written
  std::vector<std::string> units;    // of a number: the value is a text, "2.5 kg", with one of them
  std::vector<std::string> allowed;  // of an enum
  std::vector<ExtractAttribute> parts;  // of a list: its items' type; of objects: their attributes
  int max_items = 16;                   // of a list
  bool nullable = true;
  // Of a JSON Schema that does not want it: a value that is null is left out.
  bool leave_out_null = false;
  int max_tokens = 0;      // of a value; 0: by its type
  int typical_tokens = 0;  // that a value of its type may have
};

struct ExtractCategory {
  std::string name;  // empty: the only one, without a name
  std::string description;
  std::vector<ExtractAttribute> attributes;  // one or more, their names differ
};

struct ExtractSchema {
  std::vector<ExtractCategory> categories;  // one or more, their names differ

  const ExtractCategory* Find(std::string_view category) const;
  // The values of a category as a JSON Schema.
  static std::string ToJsonSchema(const ExtractCategory& category);
};

// Reads a schema: {"categories":{NAME:{"description"?,"attributes":[…]}}}, {"attributes":[…]}, or a
// JSON Schema of an object (docs/extract.md). `name` is what messages call it. Throws kUsage with
// the place and the reason.
ExtractSchema ParseExtractSchema(std::string_view text, const std::string& name);

enum class ValueMode {
  kSkeleton,    // in parallel; a value sees the tokens of earlier values so far
  kIsolated,    // in parallel; values do not see each other
  kSequential,  // one after another, like ordinary JSON: the baseline
};

// How the values of several documents of one thing become the thing's (docs/extract.md).
enum class FuseMode {
  kValues,  // each document is read separately; the most likely value wins
  kTokens,  // all documents generate each value together, token by token (request.h)
};

struct ExtractOptions {
  std::string schema;       // the text of the schema
  std::string schema_name;  // what messages call it
  std::string category;     // of documents that do not say theirs
  // {names} and {category} are replaced. Empty: the default.
  std::string instruction;
  // The user's message in a chat, or the whole prompt without one; {document}, {details}
  // (all of {attributes} and {examples}, where names alone do not say it), {names}, {category},
  // {instruction}, {id} and the record's own fields are replaced, {{ and }}
  // are braces. Empty: the default.
  std::string prompt_template;
  std::string few_shot;  // JSONL of {"text","values","category"?}
  ChatUse chat = ChatUse::kAuto;

  ValueMode values = ValueMode::kSkeleton;
  // Reads up to this many consecutive documents of one category in one prompt and generates
  // all their values in parallel. A document's values may then depend on the other
  // documents.
  int stack = 1;
  FuseMode fuse = FuseMode::kValues;  // of records with several documents
  bool gaps = true;    // isolated values stand where a skeleton's would; false: close together
  int max_tokens = 0;  // of a value whose attribute does not say; 0: by its type
  // Texts, numbers and dates are spans of the document, or null. Enums and booleans never are.
  bool copy = true;
  // A value that is less likely right becomes null, and the row says so. 0: none does. Nothing:
  // 0.05 where the model's card has a calibration for extraction, else 0.
  std::optional<double> min_confidence;
  TooLong too_long = TooLong::kSplit;
  bool flat = false;  // a field for every attribute, for CSV
};

// Throws kUsage for what can be refused of options, schema and output before a model is loaded, as
// RunExtract does.
void CheckExtract(const ExtractOptions& extract, const JobOptions& job);

// Throws Error for what stops the whole job: options, schema, files, the disk, changed parameters.
// Documents that cannot be read become error rows.
JobReceipt RunExtract(std::shared_ptr<Model> model, const EngineOptions& engine_options,
                      const ExtractOptions& extract, const JobOptions& job);

// What RunExtract would do and about how long it would take, from a few documents of the input.
JobEstimate EstimateExtract(std::shared_ptr<Model> model, const EngineOptions& engine_options,
                            const ExtractOptions& extract, const JobOptions& job);

// The prompt of the first document, with the template and a mark where every value would stand.
std::string ShowExtractPrompt(std::shared_ptr<Model> model, const ExtractOptions& extract,
                              const JobOptions& job);

// Every document as the engine is given it, a line of JSON each, without an answer being written:
// {"id","prompt":[token],"slots":[{"tokens","position","max_tokens"}],"together","pieces":[{"name",
// "text","rest"}]}. A stack is one line, with "ids" of all its documents and each piece's
// "document". The prompt begins at position 0; a slot's tokens stand at `position` and on,
// its value after them; `rest` is what of the piece's text the value's tokens begin with. Throws at
// the first document that cannot be read.
void WriteExtractLayouts(std::shared_ptr<Model> model, const ExtractOptions& extract,
                         const JobOptions& job,
                         const std::function<void(const std::string&)>& write);

inline constexpr int kLeastSamples = 3, kMostSamples = 20;

struct ProposeOptions {
  int documents = kMostSamples;    // of the input, from the first on: kLeastSamples to kMostSamples
  int attributes = 24;             // at most
  int least_documents = 2;         // that must have an attribute
  std::string category;            // its name; empty: none
  std::string kind;                // one of SchemaKinds(); empty: by the documents' words
  std::vector<std::string> names;  // that are tried too, and kept if any document has a value
};

struct ProposedAttribute {
  struct Example {
    std::string value;
    std::string document;  // its id
  };
  std::string name;
  std::string type;               // for people: "number in kg"
  int documents = 0;              // that have a value
  int label_documents = 0;        // of these, with the name as a label
  double confidence = 0.0;        // mean of its values
  std::vector<Example> examples;  // every document's, surest first
};

struct SchemaProposal {
  int documents = 0;
  std::vector<std::string> kinds;             // of documents, whose names were tried
  std::vector<ProposedAttribute> attributes;  // most frequent first
  std::string schema;                         // for ParseExtractSchema

  std::string ToText() const;  // a table
  std::string ToJson() const;  // one line: all of it
};

// Kinds of documents of which common names are known: product, invoice, mail …
std::vector<std::string> SchemaKinds();

// A schema for documents like these (docs/extract.md). Throws kUsage for options and for fewer
// than kLeastSamples documents, kInput when there is no attribute.
SchemaProposal ProposeSchema(std::shared_ptr<Model> model, const EngineOptions& engine_options,
                             const ProposeOptions& options, const JobOptions& job);

// A page for the browser with the job's documents (at most 10 000), their values and where they
// stand. REQUIRES: the job is over and its output a JSONL file. Throws kUsage, kIo.
void WriteExtractReport(const JobOptions& job, const std::string& file);

}  // namespace banyan
