#include "options.h"

#include "banyan/bytes.h"

namespace banyan::python {
namespace {

const std::vector<std::pair<const char*, ChatUse>> kChatNames = {
    {"auto", ChatUse::kAuto}, {"on", ChatUse::kOn}, {"off", ChatUse::kOff}};

// Bytes as a number, or a text such as 512M, 2G, 1.5GiB.
std::int64_t BytesOf(const char* name, const nb::object& value) {
  std::int64_t bytes = 0;
  if (nb::try_cast<std::int64_t>(value, bytes)) return bytes;
  return ParseBytes(nb::cast<std::string>(nb::str(value)), name);
}

void AtLeast(const char* name, double value, double least) {
  if (value >= least) return;
  std::string bound = std::to_string(static_cast<long long>(least));
  throw Error(ErrorKind::kUsage, std::string(name) + ": expected a number from " + bound +
                                     " on, found " + std::to_string(static_cast<long long>(value)));
}

void ReadPanel(OptionReader& reader, PanelOptions& panel) {
  std::string rule, beta;
  reader.Read("rule", rule);
  if (!rule.empty()) panel.rule = ParseFusionRule(rule);
  reader.Read("gamma", panel.gamma);
  const nb::object value = reader.Find("beta");
  if (!value.is_valid()) return;
  if (nb::try_cast<double>(value, panel.beta)) {
    panel.beta_rule = BetaRule::kFixed;
  } else if (nb::try_cast<std::string>(value, beta) && (beta == "expert" || beta == "shared")) {
    panel.beta_rule = beta == "shared" ? BetaRule::kShared : BetaRule::kExpert;
    return;
  }
  if (panel.beta_rule != BetaRule::kFixed || !(panel.beta >= 0.0 && panel.beta < 1e6)) {
    throw Error(ErrorKind::kUsage, "beta: expected expert, shared or a number from 0, found '" +
                                       nb::cast<std::string>(nb::str(value)) + "'");
  }
}

}  // namespace

nb::object OptionReader::Find(const char* name) {
  known_.insert(name);
  if (!values_.contains(name)) return {};
  nb::object value = nb::borrow<nb::object>(values_[name]);
  return value.is_none() ? nb::object() : value;
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

LoadOptions LoadOptionsOf(const nb::dict& values) {
  LoadOptions options;
  OptionReader reader(values);
  reader.Read("model", options.model);
  reader.Read("device", options.device);
  reader.Read("precision", options.precision);
  reader.Read("kv_type", options.kv_type);
  reader.Read("threads", options.threads);
  reader.Read("fast", options.fast);
  reader.Read("keep_weights", options.weights);
  reader.Read("adapter", options.adapter);
  reader.Read("yarn_factor", options.yarn_factor);
  AtLeast("threads", options.threads, 0);
  reader.Finish();
  return options;
}

EngineOptions EngineOptionsOf(const nb::dict& values) {
  EngineOptions options;
  OptionReader reader(values);
  std::string strategy;
  reader.Read("strategy", strategy);
  if (!strategy.empty()) options.strategy = ParseStrategy(strategy);
  reader.Read("share_levels", options.share_levels);
  reader.Read("batch_rows", options.batch_rows);
  reader.Read("max_streams", options.max_streams);
  reader.Read("mixed_rows", options.mixed_rows);
  reader.Read("steps_ahead", options.steps_ahead);
  reader.Read("max_waiting", options.max_waiting);
  reader.Read("replay", options.replay);
  reader.Read("one_by_one", options.one_by_one);
  const nb::object memory = reader.Find("kv_memory");
  if (memory.is_valid()) options.kv_memory = BytesOf("kv_memory", memory);
  AtLeast("share_levels", options.share_levels, 0);
  AtLeast("batch_rows", options.batch_rows, 0);
  AtLeast("max_streams", options.max_streams, 0);
  reader.Finish();
  return options;
}

void ReadSampling(OptionReader& reader, SamplingOptions& sampling) {
  reader.Read("temperature", sampling.temperature);
  reader.Read("top_k", sampling.top_k);
  reader.Read("top_p", sampling.top_p);
  reader.Read("min_p", sampling.min_p);
  reader.Read("repetition_penalty", sampling.repetition_penalty);
  reader.Read("seed", sampling.seed);
  AtLeast("temperature", sampling.temperature, 0);
  AtLeast("top_k", sampling.top_k, 0);
}

AskOptions AskOptionsOf(const nb::dict& values) {
  AskOptions options;
  OptionReader reader(values);
  reader.Read("instruction", options.instruction);
  reader.Read("template", options.prompt_template);
  reader.Read("few_shot", options.few_shot);
  reader.ReadName("chat", options.chat, kChatNames);
  reader.Read("thinking", options.thinking);
  reader.Read("questions", options.question_list);
  reader.Read("questions_text", options.questions);
  if (!options.questions.empty()) options.questions_name = "questions";
  reader.Read("max_new", options.max_new);
  reader.Read("stop", options.stop);
  reader.Read("regex", options.regex);
  reader.Read("json_schema", options.json_schema);
  ReadSampling(reader, options.sampling);
  reader.Read("samples", options.samples);
  reader.Read("vote", options.vote);
  reader.ReadName<ChoiceMode>("choices", options.choices,
                              {{"score", ChoiceMode::kScore}, {"letter", ChoiceMode::kLetter}});
  reader.ReadName<ChoiceScore>("choice_score", options.choice_score,
                               {{"mean", ChoiceScore::kMean}, {"sum", ChoiceScore::kSum}});
  reader.ReadName<TooLong>(
      "too_long", options.too_long,
      {{"fail", TooLong::kFail}, {"truncate", TooLong::kTruncate}, {"split", TooLong::kSplit}});
  reader.Read("logprobs", options.logprobs);
  reader.Read("top_logprobs", options.top_logprobs);
  reader.Read("token_ids", options.token_ids);
  AtLeast("max_new", options.max_new, 1);
  AtLeast("samples", options.samples, 1);
  AtLeast("top_logprobs", options.top_logprobs, 0);
  reader.Finish();
  return options;
}

ExtractOptions ExtractOptionsOf(const nb::dict& values) {
  ExtractOptions options;
  OptionReader reader(values);
  reader.Read("schema", options.schema);
  options.schema_name = "schema";
  reader.Read("category", options.category);
  reader.Read("instruction", options.instruction);
  reader.Read("template", options.prompt_template);
  reader.Read("few_shot", options.few_shot);
  reader.ReadName("chat", options.chat, kChatNames);
  reader.ReadName<ValueMode>("values", options.values,
                             {{"skeleton", ValueMode::kSkeleton},
                              {"isolated", ValueMode::kIsolated},
                              {"sequential", ValueMode::kSequential}});
  reader.Read("gaps", options.gaps);
  reader.Read("max_tokens", options.max_tokens);
  reader.ReadName<TooLong>("too_long", options.too_long,
                           {{"fail", TooLong::kFail}, {"truncate", TooLong::kTruncate}});
  reader.Read("flat", options.flat);
  reader.Finish();
  if (options.schema.empty()) throw Error(ErrorKind::kUsage, "extract: expected a schema");
  ParseExtractSchema(options.schema, options.schema_name);  // refused before anything is read
  return options;
}

RagOptions RagOptionsOf(const nb::dict& values) {
  RagOptions options;
  OptionReader reader(values);
  std::string method, relevance, index;
  reader.Read("method", method);
  if (!method.empty()) options.method = ParseRagMethod(method);
  reader.Read("relevance", relevance);
  if (!relevance.empty()) options.relevance = ParseRelevanceFrom(relevance);
  reader.Read("min_relevance", options.min_relevance);
  reader.Read("index", index);
  if (!index.empty()) options.index = DocumentIndex::Open(index);
  reader.Read("top", options.top);
  ReadPanel(reader, options.panel);
  reader.Read("instruction", options.instruction);
  reader.Read("map_instruction", options.map_instruction);
  reader.ReadName("chat", options.chat, kChatNames);
  reader.Read("max_new", options.max_new);
  reader.Read("stop", options.stop);
  reader.ReadName<TooLong>("too_long", options.too_long,
                           {{"fail", TooLong::kFail}, {"truncate", TooLong::kTruncate}});
  reader.Read("trace", options.trace);
  AtLeast("max_new", options.max_new, 1);
  AtLeast("top", options.top, 1);
  reader.Finish();
  return options;
}

JobOptions JobOptionsOf(const nb::dict& values) {
  JobOptions options;
  OptionReader reader(values);
  std::string delimiter;
  reader.Read("inputs", options.inputs);
  reader.Read("input_format", options.input_format);
  reader.Read("fields", options.fields);
  reader.Read("output", options.output);
  reader.Read("output_format", options.output_format);
  reader.Read("columns", options.columns);
  reader.Read("delimiter", delimiter);
  if (delimiter.size() > 1) {
    throw Error(ErrorKind::kUsage, "delimiter: expected , ; | or a tab; found '" + delimiter + "'");
  }
  if (!delimiter.empty()) options.delimiter = delimiter.front();
  reader.Read("csv_safe", options.csv_safe);
  reader.Read("other_files", options.other_files);
  reader.Read("ordered", options.ordered);
  reader.Read("resume", options.resume);
  reader.Read("retry_errors", options.retry_errors);
  reader.Read("overwrite", options.overwrite);
  reader.Read("checkpoint", options.checkpoint_seconds);
  reader.Read("limit", options.limit);
  reader.Read("shard", options.shard);
  reader.Read("shards", options.shards);
  reader.Read("max_errors", options.max_errors);
  if (options.shard < 1 || options.shard > options.shards) {
    throw Error(ErrorKind::kUsage, "shard: expected i/n with 1 <= i <= n, such as 2/8; found '" +
                                       std::to_string(options.shard) + "/" +
                                       std::to_string(options.shards) + "'");
  }
  reader.Finish();
  return options;
}

}  // namespace banyan::python
