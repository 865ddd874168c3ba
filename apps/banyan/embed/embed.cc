// banyan embed: vectors for every text, a document or a row. One JSON object per line out, in the
// order of the input; what cannot be read gives an error row and the others go on. Or dense vectors
// alone, as an array of NumPy, which has no place for errors: the first one ends the run.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "banyan/encoder.h"
#include "banyan/error.h"
#include "banyan/job.h"
#include "ids/ids_lines.h"
#include "job/job_options.h"
#include "program.h"
#include "program/fresh_file.h"
#include "program/job.h"

namespace banyan::app {
namespace {

struct EmbedCommand {
  RunOptions run;
  JobOptions inputs;
  InputOptions words;
  std::string output = "-";
  bool overwrite = false, quiet = false;
  int max_tokens = 0;  // 0: as many as the model's makers take
  bool sparse = false, multi_vector = false;
};

// A file of NumPy: one array of float32, [rows, columns], read with numpy.load.
class NpyFile {
 public:
  // `file` must outlive this; nothing else writes to it.
  NpyFile(std::ofstream& file, int columns);
  void Add(const std::vector<float>& row);  // REQUIRES: so many columns
  // Writes the number of rows. The file's state says whether everything could be written.
  void Finish();

 private:
  void WriteHeader();

  std::ofstream& file_;
  int columns_;
  std::int64_t rows_ = 0;
};

NpyFile::NpyFile(std::ofstream& file, int columns) : file_(file), columns_(columns) {
  WriteHeader();
}

// Magic and version, the length of what follows, and a dictionary that is padded to 128 bytes in
// all, so that it has room for any number of rows.
void NpyFile::WriteHeader() {
  constexpr size_t kBytes = 128, kBefore = 10;
  std::string text = fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}",
                                 rows_, columns_);
  text.resize(kBytes - kBefore - 1, ' ');
  file_.seekp(0);
  const char length[2] = {static_cast<char>(kBytes - kBefore), 0};
  file_.write("\x93NUMPY\x01\x00", 8).write(length, 2) << text << '\n';
}

void NpyFile::Add(const std::vector<float>& row) {
  file_.write(reinterpret_cast<const char*>(row.data()),
              static_cast<std::streamsize>(row.size() * sizeof(float)));
  ++rows_;
}

void NpyFile::Finish() { WriteHeader(); }

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
  int Run(const JobOptions& inputs) {
    ForEachText(inputs, [this](const TextRow& row) {
      Read(row);
      if (tokens_ >= kManyTokens || rows_.size() >= kManyRows) Write();
    });
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

  void Read(const TextRow& given) {
    Row& row = rows_.emplace_back();
    row.id = given.id;
    try {
      if (!given.problem.empty()) throw Error(given.kind, given.problem);
      std::vector<TokenId> text = EncoderTokens(*encoder_, given.text, max_tokens_, &row.truncated);
      encoder_->Check(text);
      tokens_ += text.size();
      texts_.push_back(std::move(text));
    } catch (const Error& e) {
      if (array_ != nullptr) {
        throw Error(e.kind(), fmt::format("{}; an array has no place for errors, and none was "
                                          "written",
                                          e.what()));
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
      std::string fields =
          EmbeddingFields(embeddings[next++], {options_.sparse, options_.colbert, "multi_vector"});
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
    throw Error(ErrorKind::kUsage,
                "embed: expected a model (-m); 'banyan model get all-minilm-l6-v2' fetches one");
  }
  JobOptions& inputs = command.inputs;
  if (inputs.inputs.empty()) inputs.inputs = {"-"};
  command.words.Resolve({"id", "text"}, inputs);
  const bool is_array = command.output.ends_with(".npy");
  if (is_array && (command.sparse || command.multi_vector)) {
    throw Error(ErrorKind::kUsage, "embed: an array (.npy) has dense vectors alone");
  }
  JobOptions checked = inputs;
  checked.needed_columns = {{"text"}};
  CheckJob(checked);
  GuardOutput(command.output, "-o", command.overwrite);
  const std::shared_ptr<Encoder> encoder = command.run.LoadEncoder(command.quiet);
  std::ios::sync_with_stdio(false);
  if (command.output == "-") return EmbedRun(encoder, command, std::cout, nullptr).Run(inputs);
  FreshFile file(command.output, "-o", command.overwrite);
  std::optional<NpyFile> array;
  if (is_array) array.emplace(file.stream(), encoder->dimensions());
  EmbedRun run(encoder, command, file.stream(), array ? &*array : nullptr);
  const int code = run.Run(inputs);
  if (array) array->Finish();
  file.Finish();
  return code;
}

}  // namespace

Command AddEmbed(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("embed", "Vectors of texts by an encoder (BERT, MiniLM, XLM-R, BGE-M3)");
  command->footer(
      R"(Input: text, HTML and PDF files are texts; rows of JSONL, JSON, CSV and TSV have theirs in the field
'text'. Output lines, in the same order: {"id":…,"dense":[…]}, of length 1; "truncated":true where the text had more tokens than the model or --max-tokens takes; or
{"id":…,"error":{"kind","message"}}. A text's vector is the same alone and among others.
With -o FILE.npy: dense vectors as an array of float32 for numpy.load; what cannot be read ends the run, and no file
is written.
Exit code 0: every text has its vector, 1: some have error rows, 2: nothing was written.)");
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
      ->type_name("FILE")
      ->capture_default_str();
  command->add_flag("--overwrite", options->overwrite, "Replace the output if it is there");
  command->add_option("input", options->inputs.inputs,
                      "Files, folders, quoted patterns, or - for standard input (default)");
  options->words.AddTo(*command, options->inputs, "text=body");
  command->add_flag("--quiet", options->quiet, "No progress on stderr");
  return [options] { return RunEmbed(*options); };
}

}  // namespace banyan::app
