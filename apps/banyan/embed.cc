// banyan embed: vectors for every text. One JSON object per line in, one per line out, in the order
// of the input; a bad line gives an error row and the others go on. Or dense vectors alone, as an
// array of NumPy, which has no place for errors: the first one ends the run.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "banyan/encoder_text.h"
#include "banyan/error.h"
#include "commands.h"
#include "ids_fields.h"
#include "ids_rows.h"
#include "npy_file.h"
#include "run_options.h"

namespace banyan::app {
namespace {

struct EmbedCommand {
  RunOptions run;
  std::string input = "-", output = "-";
  int max_tokens = 0;  // 0: as many as the model's makers take
  bool sparse = false, multi_vector = false;
};

// Only what was computed.
std::string FieldsOf(const Embedding& embedding, const EmbedOptions& computed) {
  std::string text = "\"dense\":" + FloatsText(embedding.dense);
  if (computed.sparse) {
    std::vector<std::string> weights;
    for (const auto& [token, weight] : embedding.sparse) {
      weights.push_back(fmt::format("\"{}\":{}", token, FloatText(weight)));
    }
    text += fmt::format(",\"sparse\":{{{}}}", fmt::join(weights, ","));
  }
  if (computed.colbert) {
    std::vector<std::string> vectors;
    for (const std::vector<float>& vector : embedding.colbert) {
      vectors.push_back(FloatsText(vector));
    }
    text += fmt::format(",\"multi_vector\":[{}]", fmt::join(vectors, ","));
  }
  return text;
}

// Lines through tokenizer and encoder, as many at a time as keep the encoder busy.
class EmbedRun {
 public:
  // `array` (may be null): where vectors go instead of `out`.
  EmbedRun(std::shared_ptr<Encoder> encoder, const EmbedCommand& command, std::ostream& out,
           NpyFile* array)
      : encoder_(std::move(encoder)), out_(out), array_(array) {
    if (!encoder_->text()) {
      throw Error(ErrorKind::kUnsupported, "embed: the model's files have no tokenizer");
    }
    if (!encoder_->embeds()) {
      throw Error(ErrorKind::kUnsupported, "embed: the model is a reranker: it has no vectors");
    }
    max_tokens_ = command.max_tokens > 0 ? std::min(command.max_tokens, encoder_->context_length())
                                         : encoder_->usual_length();
    const auto check = [](bool asked, bool there, const char* name) {
      if (asked && !there) {
        throw Error(ErrorKind::kUnsupported, fmt::format("{}: the model has no such head", name));
      }
      return asked;
    };
    options_.sparse = check(command.sparse, encoder_->has_sparse(), "--sparse");
    options_.colbert = check(command.multi_vector, encoder_->has_colbert(), "--multi-vector");
    options_.batch_rows = command.run.engine.batch_rows;
  }

  // The exit code.
  int Run(std::istream& in) {
    std::string line;
    for (std::int64_t number = 1; std::getline(in, line); ++number) {
      if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
      rows_.emplace_back();
      Read(line, number);
      if (tokens_ >= kManyTokens || rows_.size() >= kManyRows) Write();
    }
    Write();
    return failed_ ? 1 : 0;
  }

 private:
  static constexpr size_t kManyTokens = 1 << 15, kManyRows = 1 << 12;

  struct Row {
    std::string id = "null";  // as JSON
    std::string error;        // the output line, when the row cannot be computed
    bool truncated = false;
  };

  void Read(const std::string& line, std::int64_t number) {
    Row& row = rows_.back();
    try {
      Json json;
      try {
        json = Json::parse(line);
      } catch (const Json::exception&) {
        BadInput(fmt::format("line {}: not valid JSON", number));
      }
      if (!json.is_object()) {
        BadInput(fmt::format("line {}: expected an object, found {}", number, json.type_name()));
      }
      if (json.contains("id")) {
        row.id = json.at("id").dump(-1, ' ', false, Json::error_handler_t::replace);
      }
      std::vector<TokenId> text =
          EncoderTokens(*encoder_, StringField(json, "text"), max_tokens_, &row.truncated);
      encoder_->Check(text);
      tokens_ += text.size();
      texts_.push_back(std::move(text));
    } catch (const Error& e) {
      if (array_ != nullptr) {
        throw Error(e.kind(),
                    fmt::format("line {}: {}; an array has no place for errors", number, e.what()));
      }
      row.error = ErrorLine(row.id, e.kind(), e.what());
      failed_ = true;
    }
  }

  void Write() {
    const std::vector<Embedding> embeddings = encoder_->Embed(texts_, options_);
    size_t next = 0;
    if (array_ != nullptr) {
      for (const Embedding& embedding : embeddings) array_->Add(embedding.dense);
      rows_.clear();
    }
    for (const Row& row : rows_) {
      if (!row.error.empty()) {
        out_ << row.error << '\n';
        continue;
      }
      std::string fields = FieldsOf(embeddings[next++], options_);
      if (row.truncated) fields += ",\"truncated\":true";
      out_ << FieldsLine(row.id, fields) << '\n';
    }
    out_.flush();
    if (!out_) throw Error(ErrorKind::kIo, "embed: cannot write the output");
    rows_.clear();
    texts_.clear();
    tokens_ = 0;
  }

  std::shared_ptr<Encoder> encoder_;
  std::ostream& out_;
  NpyFile* array_;
  EmbedOptions options_;
  int max_tokens_ = 0;
  std::vector<Row> rows_;                    // read and not written
  std::vector<std::vector<TokenId>> texts_;  // of the rows without error
  size_t tokens_ = 0;                        // of all texts_
  bool failed_ = false;
};

int RunEmbed(EmbedCommand& command) {
  if (command.run.load.model.empty()) {
    throw Error(ErrorKind::kUsage, "embed: expected a model (-m)");
  }
  std::ifstream in_file;
  if (command.input != "-") {
    in_file.open(command.input);
    if (!in_file) {
      throw Error(ErrorKind::kNotFound,
                  fmt::format("{}: cannot open the input file", command.input));
    }
  }
  const std::shared_ptr<Encoder> encoder = command.run.LoadEncoder(false);
  std::ofstream out_file;
  std::optional<NpyFile> array;
  if (command.output.ends_with(".npy")) {
    if (command.sparse || command.multi_vector) {
      throw Error(ErrorKind::kUsage, "embed: an array (.npy) has dense vectors alone");
    }
    array.emplace(command.output, encoder->dimensions());
  } else if (command.output != "-") {
    out_file.open(command.output);
    if (!out_file) {
      throw Error(ErrorKind::kIo, fmt::format("{}: cannot write the output", command.output));
    }
  }
  std::ios::sync_with_stdio(false);
  EmbedRun run(encoder, command, command.output == "-" ? std::cout : out_file,
               array ? &*array : nullptr);
  const int code = run.Run(command.input == "-" ? std::cin : in_file);
  if (array) array->Finish();
  return code;
}

}  // namespace

Command AddEmbed(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "embed", "Vectors of texts by an encoder (BERT, MiniLM, XLM-R, BGE-M3), JSONL to JSONL");
  command->footer(
      R"(Input lines: {"id":…,"text":"…"}. Output lines, in the same order: {"id":…,"dense":[…]}, of length 1;
"truncated":true where the text had more tokens than the model or --max-tokens takes; or
{"id":…,"error":{"kind","message"}}. A text's vector is the same alone and among others.
With -o FILE.npy: dense vectors as an array of float32 for numpy.load; a bad line ends the run.
Exit code 0: all lines answered, 1: some were bad, 2: none were read.)");
  auto options = std::make_shared<EmbedCommand>();
  options->run.AddLoadingTo(*command, "f32");
  command
      ->add_option("--max-tokens", options->max_tokens,
                   "Longer texts end there; 0: where the model's files say, else at its context")
      ->check(CLI::NonNegativeNumber);
  command
      ->add_option("--batch-rows", options->run.engine.batch_rows,
                   "Tokens of one pass; 0: chosen by the backend")
      ->check(CLI::NonNegativeNumber);
  command->add_flag("--sparse", options->sparse,
                    "Learned weights of tokens too: \"sparse\":{\"TOKEN ID\":WEIGHT} (BGE-M3)");
  command->add_flag("--multi-vector", options->multi_vector,
                    "A vector of every token but the first too: \"multi_vector\":[[…]] (BGE-M3)");
  command
      ->add_option("-o,--output", options->output,
                   "JSONL file, or an array of NumPy (.npy); - for standard output")
      ->capture_default_str();
  command->add_option("input", options->input, "JSONL file; - for standard input")
      ->capture_default_str();
  return [options] { return RunEmbed(*options); };
}

}  // namespace banyan::app
