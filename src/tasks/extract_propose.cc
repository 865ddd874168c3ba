// A schema proposed by the model: every sample document names attributes with their types, held to
// JSON; those that several documents name are the proposal.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "banyan/constrain.h"
#include "banyan/extract.h"
#include "base/error.h"
#include "base/json.h"
#include "tasks/extract_task.h"
#include "tasks/job.h"
#include "tasks/prompt.h"
#include "tasks/prompt_encoder.h"

namespace banyan {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr const char* kInstruction =
    "List the attributes of the thing that the text describes, as JSON: for each its name, the "
    "type of its value and the value that the text gives.";

constexpr const char* kListSchema = R"({"type": "array", "minItems": 1, "maxItems": 16, "items": {
    "type": "object", "required": ["name", "type", "value"], "properties": {
    "name": {"type": "string", "pattern": "^[A-Za-z][A-Za-z0-9 _-]{1,30}$"},
    "type": {"enum": ["text", "number", "integer", "boolean", "date"]},
    "value": {"type": "string", "minLength": 1, "maxLength": 60}}}})";

struct Proposed {
  std::string name;                   // as it was written first
  std::map<std::string, int> types;   // how often each
  std::vector<std::string> examples;  // different ones
  int documents = 0;
};

std::string NameKey(const std::string& name) {
  std::string key;
  for (const char c : name) {
    if (c == ' ' || c == '_' || c == '-') continue;
    key += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return key;
}

std::vector<std::string> SampleTexts(const JobOptions& job, int documents) {
  InputReader input(InputOf(OfDocuments(job)));
  std::vector<std::string> texts;
  InputRow row;
  while (static_cast<int>(texts.size()) < documents && input.Next(row)) {
    const auto text = row.value.find("text");
    if (row.problem || text == row.value.end() || !text->is_string()) continue;
    texts.push_back(text->get<std::string>());
  }
  if (texts.empty()) Throw(ErrorKind::kUsage, "extract schema: the input has no document");
  return texts;
}

void Collect(const std::string& written, std::map<std::string, Proposed>& proposals) {
  const OrderedJson list = OrderedJson::parse(written, nullptr, /*allow_exceptions=*/false);
  if (!list.is_array()) return;
  std::map<std::string, bool> named;
  for (const OrderedJson& entry : list) {
    const std::string name = entry.at("name").get<std::string>();
    const std::string key = NameKey(name);
    if (key.empty() || std::exchange(named[key], true)) continue;
    Proposed& proposed = proposals[key];
    if (proposed.name.empty()) proposed.name = name;
    ++proposed.documents;
    ++proposed.types[entry.at("type").get<std::string>()];
    const std::string value = entry.at("value").get<std::string>();
    if (proposed.examples.size() < 3 && std::ranges::count(proposed.examples, value) == 0) {
      proposed.examples.push_back(value);
    }
  }
}

// The most frequent type; examples are kept where they are of that type.
OrderedJson AttributeOf(const Proposed& proposed) {
  const auto type =
      std::ranges::max_element(proposed.types, {}, [](const auto& entry) { return entry.second; });
  OrderedJson attribute = {{"name", proposed.name}, {"type", type->first}};
  if (type->first == "text") attribute["examples"] = proposed.examples;
  return attribute;
}

}  // namespace

std::string ProposeSchema(std::shared_ptr<Model> model, const EngineOptions& engine_options,
                          const ProposeOptions& options, const JobOptions& job) {
  const std::shared_ptr<const Text> text = model->text();
  if (text == nullptr) {
    Throw(ErrorKind::kUnsupported, "extract schema: the model's files have no tokenizer");
  }
  const std::vector<std::string> texts = SampleTexts(job, options.documents);
  ConstraintOptions constraint_options;
  constraint_options.end_tokens = model->end_tokens();
  constraint_options.end_when_complete = true;
  const JsonSlot slot{"", kListSchema};
  const std::vector<std::string> after = {""};
  const std::shared_ptr<const Constraint> constraint =
      Constraint::FromJsonTemplate({&slot, 1}, after, MakeTokenTrie(*text), constraint_options);
  AskOptions ask;
  ask.instruction = kInstruction;
  const bool chat = text->has_chat_template();
  ask.prompt_template =
      chat ? "{context}{question}" : "{instruction}\n\n{context}\n\nAttributes:\n{question}";
  const PromptWriter writer(text, ask);
  PromptEncoder encoder(text, /*add_bos=*/!chat);
  Engine engine(model, engine_options);
  for (size_t i = 0; i < texts.size(); ++i) {
    const auto parts = writer.Write([&](const std::string& name) -> std::optional<PromptVariable> {
      if (name == "instruction") return PromptVariable{ask.instruction, PromptLevel::kShared};
      if (name == "context") return PromptVariable{texts[i], PromptLevel::kRecord};
      return PromptVariable{"", PromptLevel::kQuestion};
    });
    PromptSegment prompt;
    prompt.tokens = encoder.Encode(parts).tokens;
    AnswerRequest& answer = prompt.answers.emplace_back();
    answer.tag = i;
    answer.max_new = 400;
    answer.stop_tokens = model->end_tokens();
    answer.constraint = constraint;
    engine.Submit(std::move(prompt));
  }
  std::map<std::string, Proposed> proposals;
  std::vector<std::string> written(texts.size());
  const auto take = [&] {
    for (const Answer& answer : engine.TakeFinished()) {
      const std::string bytes = constraint->BytesOf(answer.tokens);
      written[answer.tag] = bytes + constraint->Completion(bytes).value_or("");
    }
  };
  while (engine.Step()) take();
  take();
  for (const std::string& list : written) Collect(list, proposals);

  std::vector<const Proposed*> ranked;
  for (const auto& [key, proposed] : proposals) ranked.push_back(&proposed);
  std::ranges::stable_sort(
      ranked, [](const Proposed* a, const Proposed* b) { return a->documents > b->documents; });
  OrderedJson attributes = OrderedJson::array();
  for (const Proposed* proposed : ranked) {
    const bool enough = proposed->documents > 1 || texts.size() == 1 || attributes.empty();
    if (!enough || static_cast<int>(attributes.size()) >= options.attributes) break;
    attributes.push_back(AttributeOf(*proposed));
  }
  if (attributes.empty()) Throw(ErrorKind::kInput, "extract schema: the model named no attribute");
  const OrderedJson category = {{"attributes", attributes}};
  const OrderedJson schema = options.category.empty()
                                 ? category
                                 : OrderedJson{{"categories", {{options.category, category}}}};
  return schema.dump(2);
}

}  // namespace banyan
