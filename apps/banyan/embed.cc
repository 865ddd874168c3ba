// banyan embed: a vector for every text. One JSON object per line in, one per line out, in the
// order of the input; a bad line gives an error row and the others go on.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "banyan/encoder.h"
#include "banyan/error.h"
#include "commands.h"
#include "ids_fields.h"
#include "ids_rows.h"
#include "run_options.h"

namespace banyan::app {
namespace {

struct EmbedCommand {
  RunOptions run;
  std::string input = "-", output = "-";
  int max_tokens = 0;  // 0: as many as the model's makers take
};

// Lines through tokenizer and encoder, as many at a time as keep the encoder busy.
class EmbedRun {
 public:
  EmbedRun(std::shared_ptr<Encoder> encoder, const EmbedCommand& command, std::ostream& out)
      : encoder_(std::move(encoder)), out_(out) {
    if (!encoder_->text()) {
      throw Error(ErrorKind::kUnsupported, "embed: the model's files have no tokenizer");
    }
    if (!encoder_->embeds()) {
      throw Error(ErrorKind::kUnsupported, "embed: the model is a reranker: it has no vectors");
    }
    max_tokens_ = command.max_tokens > 0 ? std::min(command.max_tokens, encoder_->context_length())
                                         : encoder_->usual_length();
    options_.sparse = options_.colbert = false;
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
          encoder_->text()->Encode(StringField(json, "text"), true, /*parse_special=*/false);
      row.truncated = text.size() > static_cast<size_t>(max_tokens_);
      if (row.truncated) Truncate(text);
      encoder_->Check(text);
      tokens_ += text.size();
      texts_.push_back(std::move(text));
    } catch (const Error& e) {
      row.error = ErrorLine(row.id, e.kind(), e.what());
      failed_ = true;
    }
  }

  // The text ends earlier; a special token at its end stays there.
  void Truncate(std::vector<TokenId>& text) const {
    const TokenId last = text.back();
    text.resize(static_cast<size_t>(max_tokens_));
    if (encoder_->text()->IsSpecial(last)) text.back() = last;
  }

  void Write() {
    const std::vector<Embedding> embeddings = encoder_->Embed(texts_, options_);
    size_t next = 0;
    for (const Row& row : rows_) {
      if (!row.error.empty()) {
        out_ << row.error << '\n';
        continue;
      }
      std::string fields = "\"dense\":" + FloatsText(embeddings[next++].dense);
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
  if (command.output != "-") {
    out_file.open(command.output);
    if (!out_file) {
      throw Error(ErrorKind::kIo, fmt::format("{}: cannot write the output", command.output));
    }
  }
  std::ios::sync_with_stdio(false);
  EmbedRun run(encoder, command, command.output == "-" ? std::cout : out_file);
  return run.Run(command.input == "-" ? std::cin : in_file);
}

}  // namespace

Command AddEmbed(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "embed", "Vectors of texts by an encoder (BERT, MiniLM, XLM-R, BGE-M3), JSONL to JSONL");
  command->footer(
      R"(Input lines: {"id":…,"text":"…"}. Output lines, in the same order: {"id":…,"dense":[…]}, of length 1;
"truncated":true where the text had more tokens than the model or --max-tokens takes; or
{"id":…,"error":{"kind","message"}}. A text's vector is the same alone and among others.
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
  command->add_option("-o,--output", options->output, "JSONL file; - for standard output")
      ->capture_default_str();
  command->add_option("input", options->input, "JSONL file; - for standard input")
      ->capture_default_str();
  return [options] { return RunEmbed(*options); };
}

}  // namespace banyan::app
