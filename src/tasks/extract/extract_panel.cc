// Every document has an ExtractWork of its own; with FuseMode::kTokens their requests are linked.
#include "tasks/extract/extract_panel.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "tasks/extract/extract_fuse.h"

namespace banyan {
namespace {

std::string NameOfDocument(size_t index, const nlohmann::ordered_json& id) {
  return id.is_null() ? fmt::format("documents[{}]", index)
                      : fmt::format("document '{}'", TextOrJson(Json(id)));
}

}  // namespace

bool HasDocuments(const InputRow& row) {
  const auto documents = row.value.find("documents");
  return documents != row.value.end() && !documents->is_null();
}

ExtractEntity ReadEntity(const InputRow& row, ExtractRecord common) {
  const Json& given = row.value.at("documents");
  if (!given.is_array()) {
    Throw(ErrorKind::kInput, "'documents': expected a list of documents, found {}",
          TypeName(given));
  }
  if (given.empty() || given.size() > kMostEntityDocuments) {
    Throw(ErrorKind::kInput, "'documents': expected 1 to {} documents, found {}",
          kMostEntityDocuments, given.size());
  }
  ExtractEntity entity;
  entity.record = std::move(common);
  std::set<std::string> ids;
  for (size_t i = 0; i < given.size(); ++i) {
    ExtractEntity::Document& document = entity.documents.emplace_back();
    document.record = entity.record;
    const Json entry = given[i].is_string() ? Json{{"text", given[i]}} : given[i];
    if (!entry.is_object()) {
      Throw(ErrorKind::kInput, "documents[{}]: expected a text or an object, found {}", i,
            TypeName(entry));
    }
    document.id = i + 1;
    if (const auto id = entry.find("id"); id != entry.end() && !id->is_null()) {
      if (!id->is_string() && !IsNumber(*id)) {
        Throw(ErrorKind::kInput, "documents[{}]: 'id': expected text or a number, found {}", i,
              TypeName(*id));
      }
      document.id = *id;
    }
    const std::string name = TextOrJson(Json(document.id));
    if (!ids.insert(name).second) {
      Throw(ErrorKind::kInput, "'documents': two have the id '{}'; expected different ids", name);
    }
    const auto text = entry.find("text");
    if (text == entry.end() || !text->is_string()) {
      Throw(ErrorKind::kInput, "{}: 'text': expected text, found {}",
            NameOfDocument(i, document.id), text == entry.end() ? "none" : TypeName(*text));
    }
    document.record.text = text->get<std::string>();
    for (const auto& [field, value] : entry.items()) {
      if (field != "id" && field != "text") document.record.carried[field] = value;
    }
  }
  return entity;
}

ExtractPanel::ExtractPanel(const ExtractSettings& settings, ExtractEntity entity)
    : settings_(settings), record_(std::move(entity.record)) {
  ReadingOptions reading;
  reading.keep_unsure = true;
  if (together()) reading.together = std::make_shared<CopySource>();
  for (const ExtractEntity::Document& document : entity.documents) {
    if (!together()) break;
    reading.together->text += document.record.text;
    reading.together->text += fmt::format("\n{}\n", kBetweenDocuments);
  }
  const bool any = std::ranges::any_of(
      entity.documents, [](const auto& document) { return HasWords(document.record.text); });
  for (ExtractEntity::Document& document : entity.documents) {
    if (any ? !HasWords(document.record.text) : !readers_.empty()) continue;
    std::vector<ExtractRecord> records;
    records.push_back(std::move(document.record));
    readers_.push_back({std::move(document.id),
                        std::make_unique<ExtractWork>(settings, std::move(records), reading)});
  }
}

void ExtractPanel::GiveTags(PromptSegment& segment, size_t reader) {
  for (AnswerRequest& answer : segment.answers) {
    targets_.push_back({{reader, answer.tag}});
    answer.tag = answer.question_key = targets_.size() - 1;
  }
  for (PromptSegment& below : segment.below) GiveTags(below, reader);
}

// What `other` asks for is written with what `lead` asks for in the same place.
void ExtractPanel::Link(PromptSegment& lead, PromptSegment& other, size_t reader) {
  BANYAN_CHECK(lead.answers.size() == other.answers.size() &&
               lead.below.size() == other.below.size());
  for (size_t i = 0; i < lead.answers.size(); ++i) {
    targets_[lead.answers[i].tag].push_back({reader, other.answers[i].tag});
    other.experts.push_back({lead.answers[i].tag, 1.0});
  }
  other.answers.clear();
  other.skeleton = false;
  for (size_t i = 0; i < lead.below.size(); ++i) Link(lead.below[i], other.below[i], reader);
}

std::vector<PromptSegment> ExtractPanel::NextPrompts() {
  std::vector<PromptSegment> prompts;
  if (problem_) return prompts;
  for (size_t r = 0; r < readers_.size(); ++r) {
    std::vector<PromptSegment> of_reader;
    try {
      of_reader = readers_[r].work->NextPrompts();
    } catch (const Error& error) {
      const std::string why =
          fmt::format("{}: {}", NameOfDocument(r, readers_[r].id), error.what());
      if (targets_.empty()) throw Error(error.kind(), why);
      problem_ = {error.kind(), why};
      return {};
    }
    for (PromptSegment& prompt : of_reader) {
      const bool joins = together() && !prompts.empty();
      joins ? Link(prompts.front(), prompt, r) : GiveTags(prompt, r);
      prompts.push_back(std::move(prompt));
    }
  }
  if (!together() || prompts.size() < 2) return prompts;
  // One request: experts are found in the tree of the answer that they write.
  PromptSegment all;
  const std::vector<TokenId> shared = prompts.front().tokens;
  const bool same = std::ranges::all_of(
      prompts, [&](const PromptSegment& prompt) { return prompt.tokens == shared; });
  if (same) all.tokens = shared;
  for (PromptSegment& prompt : prompts) {
    if (!same) {
      all.below.push_back(std::move(prompt));
      continue;
    }
    for (PromptSegment& below : prompt.below) all.below.push_back(std::move(below));
  }
  std::vector<PromptSegment> one;
  one.push_back(std::move(all));
  return one;
}

void ExtractPanel::Take(Answer answer) {
  const std::vector<Target>& targets = targets_[answer.tag];
  for (const Target& target : targets) {
    Answer copy = answer;
    copy.tag = target.tag;
    readers_[target.reader].work->Take(std::move(copy));
  }
}

void ExtractPanel::Refuse(const Error& error) {
  if (!problem_) problem_ = {error.kind(), error.what()};
}

std::vector<ExtractedValue> ExtractPanel::Values() const {
  std::vector<DocumentValues> given;
  for (const Reader& reader : readers_) {
    if (!together() || reader.work->parts() == 0) {
      given.push_back({reader.id, reader.work->Values(0)});
      continue;
    }
    for (size_t part = 0; part < reader.work->parts(); ++part) {
      given.push_back({reader.id, reader.work->PartValues(part)});
    }
  }
  return together() ? FindSources(given) : FuseDocuments(record_.plan->leaves, given);
}

OutputRow ExtractPanel::Row(size_t) {
  RowFacts facts;
  for (const Reader& reader : readers_) {
    if (!problem_ && reader.work->problem()) {
      const RowProblem& problem = *reader.work->problem();
      problem_ = {problem.kind,
                  fmt::format("document '{}': {}", TextOrJson(Json(reader.id)), problem.message)};
    }
    facts.prompt_tokens += reader.work->prompt_tokens();
    facts.parts += reader.work->parts();
    facts.cut_bytes += reader.work->cut_bytes(0);
  }
  if (problem_) return ErrorRowOf(settings_, record_, *problem_);
  if (facts.parts <= readers_.size()) facts.parts = 0;  // none of them was divided
  std::vector<ExtractedValue> values = Values();
  for (ExtractedValue& value : values) {
    value.DropBelow(settings_.LeastConfidence(*value.attribute, *record_.card));
  }
  return RowOfValues(settings_, record_, values, facts);
}

std::string ExtractPanel::Show() {
  std::string shown;
  for (const Reader& reader : readers_) {
    shown += shown.empty() ? "" : "\n\n";
    shown += reader.work->Show();
  }
  return shown;
}

std::vector<std::string> ExtractPanel::Layouts() {
  std::vector<std::string> layouts;
  for (const Reader& reader : readers_) {
    nlohmann::ordered_json row = nlohmann::ordered_json::parse(reader.work->Layout());
    nlohmann::ordered_json named = {{"id", row.at("id")}, {"document", reader.id}};
    named.update(row);
    layouts.push_back(DumpJson(named));
  }
  return layouts;
}

}  // namespace banyan
