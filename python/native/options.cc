#include "options.h"

#include <map>
#include <utility>

#include "banyan/bytes.h"
#include "banyan/kv_use.h"

namespace banyan::python {
namespace {

// Bytes as a number, or a text such as 512M, 2G, 1.5GiB.
std::int64_t BytesOf(const char* name, const nb::object& value) {
  std::int64_t bytes = 0;
  if (nb::try_cast<std::int64_t>(value, bytes)) return bytes;
  return ParseBytes(nb::cast<std::string>(nb::str(value)), name);
}

// What is said while options are read; the package's logger has it.
void Log(const std::string& text) {
  nb::module_::import_("logging").attr("getLogger")("banyan").attr("warning")(text);
}

}  // namespace

void AtLeast(const char* name, double value, double least) {
  if (value >= least) return;
  std::string bound = std::to_string(static_cast<long long>(least));
  throw Error(ErrorKind::kUsage, std::string(name) + ": expected a number from " + bound +
                                     " on, found " + std::to_string(static_cast<long long>(value)));
}

void ReadPanel(OptionReader& reader, PanelOptions& panel) {
  reader.ReadText("rule", [&](const std::string& name) { panel.rule = ParseFusionRule(name); });
  reader.Read("gamma", panel.gamma);
  reader.ReadText("scores",
                  [&](const std::string& name) { panel.scores = ParsePanelScores(name); });
  reader.Read("plausibility", panel.plausibility);
  reader.Read("abstention", panel.abstention);
  reader.ReadText("abstention_scope", [&](const std::string& name) {
    panel.abstention_scope = ParseAbstentionScope(name);
  });
  reader.Read("null_tokens", panel.null_tokens);
  reader.ReadText("beta", [&](const std::string& text) { ParseBeta(text, "beta", panel); });
}

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

LoadOptions LoadOptionsOf(OptionReader& reader) {
  LoadOptions options;
  reader.Read("model", options.model);
  reader.Read("device", options.device);
  reader.Read("precision", options.precision);
  reader.Read("kv_type", options.kv_type);
  reader.Read("threads", options.threads);
  reader.Read("fast", options.fast);
  reader.Read("keep_weights", options.weights);
  reader.Read("adapter", options.adapter);
  std::map<std::string, std::string> apart;
  reader.Read("adapters", apart);
  for (const auto& [name, directory] : apart) options.adapters.push_back({name, directory});
  reader.Read("yarn_factor", options.yarn_factor);
  AtLeast("threads", options.threads, 0);
  return options;
}

EngineOptions EngineOptionsOf(OptionReader& reader) {
  EngineOptions options;
  reader.ReadText("strategy",
                  [&](const std::string& name) { options.strategy = ParseStrategy(name); });
  reader.Read("share_levels", options.share_levels);
  reader.Read("contexts_per_stack", options.contexts_per_stack);
  reader.Read("questions_per_stack", options.questions_per_stack);
  reader.Read("stacks", options.stacks);
  reader.Read("batch_rows", options.batch_rows);
  reader.Read("max_streams", options.max_streams);
  reader.Read("mixed_rows", options.mixed_rows);
  reader.Read("steps_ahead", options.steps_ahead);
  reader.Read("max_waiting", options.max_waiting);
  reader.Read("replay", options.replay);
  reader.Read("one_by_one", options.one_by_one);
  const nb::object memory = reader.Find("kv_memory");
  if (memory.is_valid()) options.kv_memory = BytesOf("kv_memory", memory);
  KvStoreUse store;
  reader.Read("kv_store", store.directory);
  reader.Read("kv_save", store.save);
  reader.Read("kv_bits", store.bits);
  if (store.bits != 0 && store.bits != 8) {
    throw Error(ErrorKind::kUsage, "kv_bits: expected 0 or 8, found " + std::to_string(store.bits));
  }
  UseKvStore(store, options, Log);
  AtLeast("share_levels", options.share_levels, 0);
  AtLeast("contexts_per_stack", options.contexts_per_stack, 1);
  AtLeast("questions_per_stack", options.questions_per_stack, 0);
  AtLeast("stacks", options.stacks, 1);
  AtLeast("batch_rows", options.batch_rows, 0);
  AtLeast("max_streams", options.max_streams, 0);
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

JobOptions JobOptionsOf(OptionReader& reader) {
  JobOptions options;
  reader.Read("inputs", options.inputs);
  reader.Read("input_format", options.input_format);
  reader.Read("fields", options.fields);
  reader.Read("output", options.output);
  reader.Read("output_format", options.output_format);
  reader.Read("columns", options.columns);
  reader.ReadText("delimiter", [&](const std::string& text) {
    options.delimiter = ParseDelimiter(text, "delimiter");
  });
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
  CheckShard(options, std::to_string(options.shard) + "/" + std::to_string(options.shards),
             "shard");
  return options;
}

std::vector<std::string> OptionNamesOf(const std::string& kind) {
  OptionReader reader((nb::dict()));
  if (kind == "model") LoadOptionsOf(reader);
  if (kind == "engine") EngineOptionsOf(reader);
  if (kind == "ask") AskOptionsOf(reader);
  if (kind == "extract") ExtractOptionsOf(reader);
  if (kind == "rag") RagOptionsOf(reader);
  if (kind == "job") JobOptionsOf(reader);
  return {reader.known().begin(), reader.known().end()};
}

}  // namespace banyan::python
