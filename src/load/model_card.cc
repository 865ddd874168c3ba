#include "load/model_card.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "load/calibration.h"
#include "model/json_fields.h"

namespace banyan {
namespace {

constexpr size_t kMostCardBytes = 1u << 20;
constexpr size_t kMostNullBytes = 64;

}  // namespace

const Calibration* ModelCard::CalibrationOf(std::string_view task, std::string_view kind) const {
  const auto kinds = confidence.find(task);
  if (kinds == confidence.end()) return nullptr;
  auto found = kinds->second.find(kind);
  if (found == kinds->second.end()) found = kinds->second.find("");
  return found == kinds->second.end() ? nullptr : &found->second;
}

std::string ModelCard::ToJson() const {
  Json json = {{"copies", copies}, {"null_text", null_text}};
  if (null_bias) json["null_bias"] = *null_bias;
  for (const auto& [task, kinds] : confidence) {
    json["confidence"][task] = JsonOf(kinds);
  }
  return json.dump();
}

ModelCard ReadModelCard(std::string_view json, const std::string& where) {
  if (json.size() > kMostCardBytes) {
    Throw(ErrorKind::kLimit, "{}: expected a card of at most {} bytes, found {}", where,
          kMostCardBytes, json.size());
  }
  const Json object = ParseJson(json, where);
  const JsonFields fields(object, where);
  ModelCard card;
  card.copies = fields.FindBool("copies").value_or(false);
  card.null_text = fields.FindString("null_text").value_or(card.null_text);
  if (card.null_text.empty() || card.null_text.size() > kMostNullBytes ||
      card.null_text.find_first_of("\r\n") != std::string::npos) {
    Throw(ErrorKind::kFormat, "{}: 'null_text': expected one line of 1 to {} bytes, found '{}'",
          where, kMostNullBytes, card.null_text);
  }
  card.null_bias = fields.FindNumber("null_bias");
  const Json* confidence = fields.Find("confidence");
  if (confidence == nullptr) return card;
  if (!confidence->is_object()) fields.WrongType("confidence", *confidence, "an object");
  for (const auto& [task, value] : confidence->items()) {
    if (value.is_null()) continue;
    card.confidence[task] =
        ReadCalibrations(value, fmt::format("{}: 'confidence': '{}'", where, task));
  }
  return card;
}

std::optional<ModelCard> ModelCardOfFolder(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / kModelCardFile;
  std::error_code none;
  if (!std::filesystem::is_regular_file(file, none)) return std::nullopt;
  return ReadModelCard(ReadTextFile(file, kMostCardBytes), file.string());
}

std::optional<ModelCard> ModelCardOfGguf(const GgufFile& gguf) {
  const std::optional<std::string> card = gguf.metadata().FindString(kModelCardKey);
  if (!card) return std::nullopt;
  return ReadModelCard(*card, fmt::format("{}: '{}'", gguf.path(), kModelCardKey));
}

ModelCard CardWithAdapter(const ModelCard& model, const std::optional<ModelCard>& adapter) {
  if (adapter) return *adapter;
  ModelCard habits;
  habits.copies = model.copies;
  habits.null_text = model.null_text;
  return habits;
}

}  // namespace banyan
