// Options from Python dictionaries: the tables, and those of the tasks.
#include "options.h"

#include <map>
#include <utility>

#include "bound.h"
#include "program/kv.h"

namespace banyan::python {
namespace {

// What is said while options are read; the package's logger has it.
void Log(const std::string& text) {
  nb::module_::import_("logging").attr("getLogger")("banyan").attr("warning")(text);
}

void ReadKind(const std::string& kind, OptionReader& reader) {
  if (kind == "model") LoadOptionsOf(reader);
  if (kind == "engine") EngineOptionsOf(reader);
  if (kind == "ask") AskOptionsOf(reader);
  if (kind == "extract") ExtractOptionsOf(reader);
  if (kind == "rag") RagOptionsOf(reader);
  if (kind == "table") TableCallOf(reader);
  if (kind == "job") JobOptionsOf(reader);
}

// An index that is open, or its folder.
std::shared_ptr<const DocumentIndex> IndexOf(const nb::object& value) {
  BoundIndex* open = nullptr;
  if (nb::try_cast<BoundIndex*>(value, open) && open != nullptr) return open->index;
  return DocumentIndex::Open(nb::cast<std::string>(nb::str(value)));
}

NamedEncoder NamedEncoderOf(const char* name, const nb::object& value) {
  BoundEncoder* loaded = nullptr;
  if (!nb::try_cast<BoundEncoder*>(value, loaded) || loaded == nullptr) {
    throw Error(ErrorKind::kUsage, std::string(name) + ": expected an Encoder");
  }
  return NameEncoder(loaded->encoder.get(name), loaded->name);
}

}  // namespace

void AtLeast(const char* name, double value, double least) {
  if (value >= least) return;
  std::string bound = std::to_string(static_cast<long long>(least));
  throw Error(ErrorKind::kUsage, std::string(name) + ": expected a number from " + bound +
                                     " on, found " + std::to_string(static_cast<long long>(value)));
}

// Those of rag, with its ranges.
void ReadPanel(OptionReader& reader, PanelOptions& panel) {
  RagOptions rag;
  rag.panel = panel;
  reader.ReadTable(OnlyNamed(
      Bind(rag), {"rule", "switch", "gamma", "scores", "plausibility", "abstention", "beta"}));
  panel = rag.panel;
  if (rag.gamma) panel.gamma = *rag.gamma;
  reader.Read("null_tokens", panel.null_tokens);
}

nb::object OptionReader::Find(const char* name) {
  known_.insert(name);
  if (!values_.contains(name)) return {};
  nb::object value = nb::borrow<nb::object>(values_[name]);
  return value.is_none() ? nb::object() : value;
}

void OptionReader::ReadTable(const BoundOptions& options) {
  for (const BoundOption& option : options) {
    const OptionFacts& facts = *option.facts;
    if ((facts.interfaces & kPython) == 0) continue;
    const nb::object value = Find(facts.name.c_str());
    if (!value.is_valid()) continue;
    const OptionData data = DataOf(facts, value);
    const auto* name = facts.kind == OptionKind::kName ? &std::get<std::string>(data) : nullptr;
    if (name != nullptr && name->empty()) continue;  // as not given
    if (name != nullptr) CheckName(facts, *name);
    option.set(data, facts.name);
  }
}

// Throws kUsage for a value of another type, or out of range.
OptionData OptionReader::DataOf(const OptionFacts& facts, const nb::object& value) {
  const auto in_range = [&](auto number) {
    if (InRange(facts, number)) return;
    throw Error(ErrorKind::kUsage, facts.name + ": expected a number " + RangeWords(facts) +
                                       (facts.bounded ? "" : " on") + ", found " +
                                       DataText(OptionData(number)));
  };
  switch (facts.kind) {
    case OptionKind::kFlag:
      return Cast<bool>(facts.name.c_str(), value);
    case OptionKind::kWhole: {
      const auto number = Cast<std::int64_t>(facts.name.c_str(), value);
      in_range(number);
      return number;
    }
    case OptionKind::kNumber: {
      const auto number = Cast<double>(facts.name.c_str(), value);
      in_range(number);
      return number;
    }
    case OptionKind::kBytes: {
      std::int64_t bytes = 0;
      if (nb::try_cast<std::int64_t>(value, bytes)) return bytes;
      return nb::cast<std::string>(nb::str(value));
    }
    case OptionKind::kName:
    case OptionKind::kNameOrNumber:
      return nb::cast<std::string>(nb::str(value));
    case OptionKind::kTexts: {
      std::string one;
      if (nb::try_cast<std::string>(value, one)) return std::vector<std::string>{one};
      return Cast<std::vector<std::string>>(facts.name.c_str(), value);
    }
    default:
      return Cast<std::string>(facts.name.c_str(), value);
  }
}

void OptionReader::CheckName(const OptionFacts& facts, const std::string& name) {
  std::string known;
  for (const std::string& one : facts.names) {
    if (one == name) return;
    known += (known.empty() ? "" : ", ") + one;
  }
  throw Error(ErrorKind::kUsage,
              facts.name + ": expected one of " + known + "; found '" + name + "'");
}

void OptionReader::Finish() const {
  for (const auto& [key, value] : values_) {
    const std::string name = nb::cast<std::string>(nb::str(key));
    if (known_.contains(name)) continue;
    throw Error(ErrorKind::kUsage, name + ": there is no such option");
  }
}

void OptionReader::Refuse(const char* name, const nb::object& value) {
  throw Error(ErrorKind::kUsage, std::string(name) + ": a value of type " +
                                     nb::cast<std::string>(nb::str(value.type().attr("__name__"))) +
                                     " does not do: " + nb::cast<std::string>(nb::repr(value)));
}

LoadOptions LoadOptionsOf(OptionReader& reader) {
  LoadOptions options;
  reader.ReadTable(Bind(options));
  std::map<std::string, std::string> apart;
  reader.Read("adapters", apart);
  for (const auto& [name, directory] : apart) options.adapters.push_back({name, directory});
  return options;
}

EngineOptions EngineOptionsOf(OptionReader& reader) {
  EngineOptions options;
  reader.ReadTable(Bind(options));
  KvStoreUse store;
  reader.ReadTable(Bind(store));
  UseKvStore(store, options, Log);
  return options;
}

// Those of ask, with its ranges.
void ReadSampling(OptionReader& reader, SamplingOptions& sampling) {
  AskOptions ask;
  ask.sampling = sampling;
  reader.ReadTable(OnlyNamed(
      Bind(ask), {"temperature", "top_k", "top_p", "min_p", "seed", "repetition_penalty"}));
  sampling = ask.sampling;
}

JobOptions JobOptionsOf(OptionReader& reader) {
  JobOptions options;
  reader.Read("inputs", options.inputs);
  reader.Read("fields", options.fields);
  reader.Read("input_names", options.input_names);
  if (!options.input_names.empty()) options.problem_field = kProblemField;
  reader.Read("other_files", options.other_files);
  reader.Read("rows_copy", options.rows_copy);
  // The package has (i, n), and hands both over.
  BoundOptions rows = Bind(options);
  std::erase_if(rows, [](const BoundOption& row) { return row.facts->name == "shard"; });
  reader.ReadTable(rows);
  reader.Read("shard", options.shard);
  reader.Read("shards", options.shards);
  CheckShard(options, std::to_string(options.shard) + "/" + std::to_string(options.shards),
             "shard");
  return options;
}

std::vector<std::string> OptionNamesOf(const std::string& kind) {
  OptionReader reader((nb::dict()));
  ReadKind(kind, reader);
  return {reader.known().begin(), reader.known().end()};
}

void CheckOptionsOf(const std::string& kind, const nb::dict& values) {
  OptionReader reader(values);
  ReadKind(kind, reader);
  reader.Finish();
}

// The options of the tasks.

AskOptions AskOptionsOf(OptionReader& reader) {
  AskOptions options;
  reader.ReadTable(Bind(options));
  reader.Read("questions", options.question_list);
  reader.Read("questions_text", options.questions);
  if (!options.questions.empty()) options.questions_name = "questions";
  return options;
}

ExtractOptions ExtractOptionsOf(OptionReader& reader) {
  ExtractOptions options;
  reader.ReadTable(Bind(options));
  options.schema_name = "schema";
  return options;
}

TableCall TableCallOf(OptionReader& reader) {
  static const OptionNames<TableOperator> operators = {{"map", TableOperator::kMap},
                                                       {"filter", TableOperator::kFilter},
                                                       {"rank", TableOperator::kRank},
                                                       {"group", TableOperator::kGroup}};
  TableCall call;
  std::string name = "map";
  reader.Read("operator", name);
  call.table.op = NamedValue(name, "operator", operators);
  reader.Read("prompt", call.table.prompt);
  reader.ReadTable(Bind(call.table));
  // The prompt is all that is asked, and `labels` are the choices.
  BoundOptions asks = Bind(call.table.ask);
  std::erase_if(asks, [](const BoundOption& option) {
    return option.facts->name == "template" || option.facts->name == "choices";
  });
  reader.ReadTable(asks);
  call.large = reader.Find("large");
  JoinOptions join;
  reader.Read("right", join.right);
  reader.Read("candidates", join.candidates);
  const nb::object encoder = reader.Find("encoder");
  if (encoder.is_valid()) {
    BoundEncoder* loaded = nullptr;
    if (!nb::try_cast<BoundEncoder*>(encoder, loaded) || loaded == nullptr) {
      throw Error(ErrorKind::kUsage, "encoder: expected an Encoder");
    }
    join.encoder = loaded->encoder.get("encoder");
  }
  if (!join.right.empty()) call.join = join;
  return call;
}

RagOptions RagOptionsOf(OptionReader& reader) {
  RagOptions options;
  reader.ReadTable(Bind(options));
  const nb::object index = reader.Find("index");
  if (index.is_valid()) options.index = IndexOf(index);
  const nb::object encoder = reader.Find("encoder"), reranker = reader.Find("reranker");
  if (encoder.is_valid()) options.encoder = NamedEncoderOf("encoder", encoder);
  if (reranker.is_valid()) options.reranker = NamedEncoderOf("reranker", reranker);
  std::vector<std::pair<std::string, std::string>> examples;
  reader.Read("examples", examples);
  for (auto& [question, answer] : examples) options.examples.push_back({question, answer});
  if (!examples.empty() && options.experts != ExpertsAre::kExamples) {
    throw Error(ErrorKind::kUsage, "examples: expected with experts='examples'");
  }
  return options;
}

}  // namespace banyan::python
