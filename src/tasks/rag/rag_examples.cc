#include "tasks/rag/rag_examples.h"

#include "base/byte_source.h"
#include "base/error.h"
#include "base/json_row.h"
#include "base/line_reader.h"
#include "text/utf8.h"

namespace banyan {
namespace {

struct ScoredExample {
  FewShotExample example;
  std::optional<double> score;
};

std::string TextIn(const Json& value, const char* name, const std::string& where) {
  const auto it = value.find(name);
  if (it == value.end() || !it->is_string() || it->get_ref<const std::string&>().empty()) {
    Throw(ErrorKind::kInput, "{}: expected a text '{}' that is not empty", where, name);
  }
  return it->get<std::string>();
}

ScoredExample ReadExample(const Json& value, const std::string& where) {
  if (!value.is_object()) {
    Throw(ErrorKind::kInput, "{}: expected an object, found {}", where, TypeName(value));
  }
  ScoredExample read{{TextIn(value, "question", where), TextIn(value, "answer", where)}, {}};
  const auto score = value.find("score");
  if (score == value.end() || score->is_null()) return read;
  if (!score->is_number()) {
    Throw(ErrorKind::kInput, "{}: 'score': expected a number, found {}", where, TypeName(*score));
  }
  read.score = score->get<double>();
  return read;
}

RagDocument Block(const std::vector<ScoredExample>& examples, size_t number) {
  RagDocument block;
  block.id = number;
  block.score = examples.front().score;
  for (const auto& [example, score] : examples) {
    if (!block.text.empty()) block.text += "\n\n";
    block.text += "Question: " + example.question + "\nAnswer: " + example.answer;
    if (score != block.score) block.score.reset();
  }
  return block;
}

}  // namespace

std::vector<RagDocument> ExampleBlocks(const Json& value, const RagOptions& options) {
  std::vector<RagDocument> blocks;
  std::vector<ScoredExample> together;
  const auto finish = [&] {
    if (!together.empty()) blocks.push_back(Block(together, blocks.size() + 1));
    together.clear();
  };
  const auto add = [&](ScoredExample example) {
    together.push_back(std::move(example));
    if (together.size() == static_cast<size_t>(options.examples_per_expert)) finish();
  };
  if (value.is_null()) {
    for (const FewShotExample& example : options.examples) add({example, {}});
    finish();
    if (!blocks.empty()) return blocks;
    Throw(ErrorKind::kInput,
          "expected the field 'examples', found none, and --examples gives none");
  }
  if (!value.is_array() || value.empty()) {
    Throw(ErrorKind::kInput, "'examples': expected a list that is not empty");
  }
  for (size_t i = 0; i < value.size(); ++i) {
    const std::string where = fmt::format("example {}", i + 1);
    if (!value[i].is_array()) {
      add(ReadExample(value[i], where));
      continue;
    }
    finish();
    for (const Json& one : value[i]) together.push_back(ReadExample(one, where));
    if (together.empty()) Throw(ErrorKind::kInput, "{}: the block is empty", where);
    finish();
  }
  finish();
  return blocks;
}

std::vector<FewShotExample> ReadExamples(const std::string& path) {
  constexpr size_t kMaxBytes = 64u << 20;
  LineReader reader(OpenByteSource(path), kMaxBytes);
  std::vector<FewShotExample> examples;
  for (std::string line; reader.Next(line);) {
    if (line.find_first_not_of(" \t\r\n") == std::string::npos) continue;
    const std::string where = fmt::format("{}, line {}", path, reader.number());
    if (reader.too_long() || !IsValidUtf8(line)) {
      Throw(ErrorKind::kInput, "{}: too long, or not valid UTF-8", where);
    }
    Json row;
    try {
      row = ParseJsonRow(line);
    } catch (const Error& e) {
      Throw(ErrorKind::kInput, "{}: {}", where, e.what());
    }
    examples.push_back(ReadExample(row, where).example);
  }
  if (examples.empty()) Throw(ErrorKind::kInput, "{}: no example in it", path);
  return examples;
}

}  // namespace banyan
